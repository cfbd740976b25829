"""What several tests of sage begin with."""

from __future__ import annotations

from pathlib import Path

import pytest

from sage.log.decision_log import DecisionLog
from tests.sage.sandbox.fixtures import docker_engine, image, zygote

__all__ = ["docker_engine", "image", "log", "zygote"]


@pytest.fixture
def log(tmp_path: Path) -> DecisionLog:
    return DecisionLog.open(tmp_path / "sage.db")
