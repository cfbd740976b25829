"""A log that is deleted, replaced or cut while it is in use: no new one is begun in its place, and no budget is refilled."""

from __future__ import annotations

import logging
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from sage import Router
from sage.log.budget_settings import TenantBudget
from sage.log.database import DatabaseError, ReplacedFileError
from sage.log.decision_log import DecisionLog
from sage.orchestrator.guard import BudgetSpentError, Serving
from tests.sage.examples import decision, outcome, written

BUDGET = TenantBudget(usd=1.0, per="total")


def another(path: Path, number: int = 3) -> Path:
    """Another log, with more decisions than the one of the tests."""
    with closing(DecisionLog.open(path.with_name("another.db"))) as log:
        log.append_many([decision(f"other-{k}") for k in range(number)])
        return log.path


def old_copy(path: Path) -> Path:
    return path.with_name("old.db")


def copied(source: Path, target: Path) -> None:
    """Copies the bytes into the file that is there, as `cp` does."""
    with source.open("rb") as old, target.open("r+b") as new:
        new.truncate()
        shutil.copyfileobj(old, new)


WAYS: dict[str, tuple[Callable[[Path], object], str]] = {
    "deleted": (lambda path: path.unlink(), "was deleted"),
    "deleted with all beside it": (lambda path: [p.unlink() for p in path.parent.glob("sage.db*")], "was deleted"),
    "folder deleted": (lambda path: shutil.rmtree(path.parent), "was deleted"),
    "moved over": (lambda path: os.replace(another(path), path), "was replaced by another file"),
    "old copy moved over": (lambda path: os.replace(old_copy(path), path), "was replaced by another file"),
    "copied over": (lambda path: copied(another(path), path), "was overwritten with another file or an old copy"),
    "old copy copied over": (
        lambda path: copied(old_copy(path), path),
        "was overwritten with",
    ),
    "other program's file": (lambda path: path.write_bytes(b"x" * 9000), "was overwritten with"),
    "emptied": (lambda path: os.truncate(path, 0), "was emptied"),
    "without -wal": (lambda path: path.with_name("sage.db-wal").unlink(), "lost its -wal or -shm file"),
    "without -shm": (lambda path: path.with_name("sage.db-shm").unlink(), "lost its -wal or -shm file"),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A log with one decision, and an older copy without it."""
    folder = tmp_path / "of-the-log"
    folder.mkdir()
    with closing(DecisionLog.open(folder / "sage.db")) as log:
        log.append(decision("first"))
    shutil.copy(log.path, old_copy(log.path))
    with closing(DecisionLog.open(folder / "sage.db")) as log:
        log.append(decision("a", expected_cost_usd=0.75))
    return folder / "sage.db"


@pytest.mark.parametrize("way", WAYS)
def test_a_replaced_log_is_not_written_nor_begun_anew(path: Path, way: str) -> None:
    replace, sentence = WAYS[way]
    log = DecisionLog.open(path)
    identity = log.file.identity
    replace(path)
    there = path.exists()
    for use in (
        lambda: log.append(decision("b")),
        lambda: log.tenant_spent("default", BUDGET, 1000.0),
        lambda: list(log.rows()),
        lambda: log.add_outcome(outcome("a")),
    ):
        with pytest.raises(ReplacedFileError, match=sentence):
            use()
    assert path.exists() == there
    if "-" not in way:  # a worker that starts later knows which file it must find
        with pytest.raises(DatabaseError, match=f"{sentence}|file is not a database"):
            DecisionLog(path, identity=identity).append(decision("b"))
        assert path.exists() == there


def test_a_log_that_comes_back_is_written_again(path: Path) -> None:
    log = DecisionLog.open(path)
    away = path.with_name("away")
    path.rename(away)
    with pytest.raises(ReplacedFileError, match="was deleted"):
        log.append(decision("b"))
    away.rename(path)
    log.append(decision("b"))
    assert [made.id for made, _ in log.rows()] == ["first", "a", "b"]


def test_checkpoints_erasure_and_other_writers_replace_nothing(path: Path) -> None:
    log, other = DecisionLog.open(path), DecisionLog.open(path)
    for number in range(3):
        log.append(decision(f"n{number}"))
        other.append(decision(f"m{number}"))
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            connection.execute("VACUUM")
    other.close()
    log.append(decision("last"))
    assert len(list(log.rows())) == 9


def test_without_its_log_a_server_refuses_calls_under_a_budget_and_serves_others(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    models = written(path.parent.parent)
    with Router.open(path, models=models, environment={}) as router:
        identity = router.log.file.identity
        path.unlink()
        with caplog.at_level(logging.WARNING):
            for _ in range(3):
                with pytest.raises(BudgetSpentError, match="the log cannot be written"):
                    router.route(role="coder", serving=Serving(budget=BUDGET))
                assert router.route(role="coder").verdict == "unlogged"
            router.backlog.flush()  # nothing waits, and still the log cannot be written
        [line] = caplog.messages
        assert "sage.db was deleted while it was in use" in line
        assert "calls under a tenant's budget are refused" in line
        assert router.backlog.is_down
    caplog.clear()
    with Router.open(path, models=models, environment={}, identity=identity) as later:  # a worker that is started again
        assert not path.exists()
        with pytest.raises(BudgetSpentError):
            later.route(role="coder", serving=Serving(budget=BUDGET))
        assert later.route(role="coder").verdict == "unlogged"
    assert not path.exists()


def test_a_lock_that_is_never_let_go_is_waited_for_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sage.log.database.PATIENCE_S", 0.05)
    monkeypatch.setattr("sage.log.database.IMPATIENCE_S", 0.0)
    log = DecisionLog.open(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        for _ in range(2):
            with pytest.raises(DatabaseError, match="another program holds it; find that with `fuser`"):
                log.append(decision("b"))
        assert log.file._impatient
    log.append(decision("b"))
    assert not log.file._impatient
    assert log.file._connection.execute("PRAGMA busy_timeout").fetchone() == (50,)
