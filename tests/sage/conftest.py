"""What several tests of sage begin with."""

from __future__ import annotations

from pathlib import Path

import pytest

from sage.decision_log import DecisionLog


@pytest.fixture
def log(tmp_path: Path) -> DecisionLog:
    return DecisionLog.open(tmp_path / "sage.db")
