"""Files with prompts, outcomes or amounts are for their owner only, whatever the umask."""

from __future__ import annotations

import logging
import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from sage.evidence.cascades.cascade_data import write_episodes
from sage.evidence.export_dataset import export
from sage.log.decision_log import DecisionLog
from sage.policies.bandits.bandit_store import BanditStore
from sage.policies.bandits.ucb_bandit import UCB1
from sage.serve.feedback.shadow_answers import ShadowAnswers
from tests.sage.examples import decision, outcome

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs POSIX modes of files: make test on Linux or macOS")


@pytest.fixture(params=[0o000, 0o022])
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir() if path.is_file()}


@pytest.mark.usefixtures("umask")
def test_what_is_written_is_for_the_owner_only(tmp_path: Path) -> None:
    with closing(DecisionLog.open(tmp_path / "sage.db")) as log:
        log.append(decision())
        log.add_outcome(outcome())
        export(log, tmp_path / "rows.jsonl")
        write_episodes(tmp_path / "episodes.jsonl", [])
        BanditStore(tmp_path / "bandit.db", UCB1()).file.close()
        ShadowAnswers(tmp_path, 9.0).keep(decision(), {})
        found = modes(tmp_path)
    names = {
        "sage.db",
        "sage.db-wal",
        "sage.db-shm",
        "sage.db-lock",
        "rows.jsonl",
        "episodes.jsonl",
        "bandit.db",
        "d1.json",
    }
    assert names <= set(found)
    assert {name: mode for name, mode in found.items() if mode != 0o600} == {}


@pytest.mark.parametrize(("before", "after"), [(0o644, 0o600), (0o666, 0o660), (0o640, 0o600), (0o660, 0o660)])
def test_a_log_that_others_could_read_is_closed_to_them(
    tmp_path: Path, before: int, after: int, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "sage.db"
    DecisionLog.open(path).close()
    path.chmod(before)
    with closing(sqlite3.connect(path)) as other:  # which makes -wal and -shm
        other.execute("SELECT count(*) FROM decisions").fetchone()
        with caplog.at_level(logging.WARNING), closing(DecisionLog.open(path)):
            assert set(modes(tmp_path).values()) == {after, 0o600}  # of the lock
    assert ("could be read by others" in caplog.text) == (before != after)
