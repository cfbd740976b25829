"""Fixtures of the tests of benchmarks."""

from pathlib import Path

import pytest

from rl_training.bench.peer_environments import SCRIPTS
from tests.bench.fake_peer import FAKE


@pytest.fixture
def fake(tmp_path: Path) -> Path:
    (tmp_path / "protocol.py").write_text((SCRIPTS / "protocol.py").read_text())
    (tmp_path / "fake_speed.py").write_text(FAKE)
    return tmp_path / "fake_speed.py"
