"""Erasure: what is asked for is gone from every file of the log, and the digest stays."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from sage.cli import main
from sage.log.budget_settings import TenantBudget
from sage.log.compaction import Erased, Records, count, digest, erase
from sage.log.decision_log import DecisionLog, LogError
from tests.sage.examples import decision, outcome


@pytest.fixture
def log(tmp_path: Path) -> DecisionLog:
    log = DecisionLog.open(tmp_path / "sage.db")
    for number in range(40):
        tenant, task = ("acme-corporation", "umbrella-limited")[number % 2], f"private-task-{number // 4}"
        log.append(decision(f"d{number}", tenant=tenant, session="s", task_id=task, time=1000.0 + number))
        log.add_outcome(outcome(f"d{number}", quality=None, cost_usd=0.5, provenance=f"by-{tenant}-{number}"))
        log.add_outcome(outcome(f"d{number}", quality=1.0))
    return log


def held(log: DecisionLog, text: str) -> list[str]:
    """The files of the log that hold a text."""
    return [path.name for path in log.path.parent.iterdir() if text.encode() in path.read_bytes()]


def ids(log: DecisionLog) -> list[str]:
    return [row.id for row, _ in log.rows()]


def test_a_tenant_is_erased_everywhere_and_the_digest_stays(log: DecisionLog) -> None:
    before = digest(log)
    assert held(log, "acme-corporation")
    assert count(log, tenant="acme-corporation") == (20, 40)
    assert erase(log, tenant="acme-corporation") == Erased(Records(20, 40), True)
    assert held(log, "acme-corporation") == []
    assert held(log, "umbrella-limited")
    assert digest(log) == before
    assert ids(log) == [f"d{number}" for number in range(1, 40, 2)]
    assert (log.spent("acme-corporation", "s"), log.spent("umbrella-limited", "s")) == (10.0, 10.0)
    log.close()
    assert held(log, "acme-corporation") == []
    assert digest(DecisionLog.open(log.path)) == before


BUDGET = TenantBudget(usd=1.0, per="day")


@pytest.mark.parametrize(
    "which",
    [{"tenant": "acme-corporation"}, {"task": "private-task-0"}, {"before": 1020.0}, {"before": 1e9, "tenant": "umbrella-limited"}],
    ids=str,
)  # fmt: skip
def test_no_erasure_refills_a_budget(log: DecisionLog, which: dict) -> None:
    names = ("acme-corporation", "umbrella-limited")
    log.append(decision("waits", tenant=names[0], session="s", task_id="private-task-0", expected_cost_usd=3.0))
    before = [log.tenant_spent(name, BUDGET, 1000.0) for name in names]
    assert before == [13.0, 10.0]
    for _ in range(2):
        erase(log, **which)
        assert [log.tenant_spent(name, BUDGET, 1000.0) for name in names] == before
        assert [log.spent(name, "s") for name in names] == before
        assert log.spent(names[0], "t") == 0.0
    log.add_outcome(outcome("waits", cost_usd=0.0))  # of a call that was erased while it was under way
    log.append(decision("new", tenant=names[0], session="s", expected_cost_usd=1.0))
    assert log.tenant_spent(names[0], BUDGET, 1000.0) >= 11.0
    erase(log, tenant=names[0])
    assert log.spent(names[0], "s") == log.tenant_spent(names[0], BUDGET, 1000.0) >= 11.0


def test_a_task_is_erased_with_all_its_decisions(log: DecisionLog) -> None:
    before = digest(log)
    assert erase(log, task="private-task-3") == Erased(Records(4, 8), True)
    assert held(log, '"private-task-3"') == []
    assert [row.task_id for row, _ in log.rows()].count("private-task-4") == 4
    log.append(decision("alone"))
    assert erase(log, task="alone").records == (1, 0)  # a decision without a task is its own
    assert digest(log, before.decisions, before.outcomes) == before


def test_retention_is_erasure_by_time(log: DecisionLog) -> None:
    before = digest(log)
    assert erase(log, before=1030.0) == Erased(Records(30, 60), True)
    assert ids(log) == [f"d{number}" for number in range(30, 40)]
    assert erase(log, before=1035.0, tenant="umbrella-limited").records.decisions == 2
    assert digest(log) == before


@pytest.mark.parametrize("which", [{"before": 1041.0}, {"task": "lost"}], ids=["by time", "by id"])
def test_an_outcome_whose_decision_is_not_there_is_erased_too(log: DecisionLog, which: dict) -> None:
    log.add_outcome(outcome("lost", provenance="a person's words", time=1040.0))
    before = digest(log)
    assert erase(log, tenant="acme-corporation").records == (20, 40)  # whose it is nobody knows
    assert count(log, **which).outcomes in (1, 41)
    erase(log, **which)
    assert held(log, "a person's words") == []
    assert digest(log) == before


def test_the_log_goes_on_after_its_last_rows_were_erased(log: DecisionLog) -> None:
    erase(log, before=1e9)
    assert ids(log) == []
    before = digest(log)
    assert (before.decisions, before.outcomes) == (40, 80)
    log.append(decision("new"))
    assert log.add_outcome(outcome("new")) == "joined"
    after = digest(log)
    assert (after.decisions, after.outcomes) == (41, 81)
    assert after.sha256 != before.sha256
    assert digest(log, 40, 80) == before
    erase(log, task="new")
    assert digest(log) == after
    assert log.add_outcome(outcome("d3")) == "unknown"


@pytest.mark.parametrize("statement", ["DELETE FROM decisions", "DELETE FROM outcomes", "DELETE FROM erased"])
def test_nothing_else_can_be_deleted_afterwards(log: DecisionLog, statement: str) -> None:
    erase(log, task="private-task-3")
    with closing(sqlite3.connect(log.path)) as other, pytest.raises(sqlite3.IntegrityError, match="append-only"):
        other.execute(statement)


def test_a_change_behind_the_logs_back_changes_the_digest(log: DecisionLog) -> None:
    before = digest(log)
    with closing(sqlite3.connect(log.path)) as other:
        other.execute("DROP TRIGGER outcomes_no_update")
        other.execute(
            """UPDATE outcomes SET record = replace(record, '"quality":1.0', '"quality":0.0') WHERE seq = 2"""
        )
        other.commit()
    assert digest(log) != before


def test_everything_is_not_erased_by_mistake(log: DecisionLog) -> None:
    with pytest.raises(LogError, match="give a task, a tenant or a time"):
        erase(log)
    assert len(ids(log)) == 40


def test_the_command_counts_unless_told(log: DecisionLog, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["log", "erase", "--db", str(log.path), "--tenant", "acme-corporation"]
    assert main(words) == 0
    assert capsys.readouterr().out == "20 decisions and 40 outcomes; --yes erases them\n"
    assert len(ids(log)) == 40
    assert main([*words, "--yes"]) == 0
    assert "erased 20 decisions and 40 outcomes; their hashes stay" in capsys.readouterr().out
    assert main(["log", "digest", "--db", str(log.path)]) == 0
    assert capsys.readouterr().out == f"{digest(log).sha256}  40 decisions and 80 outcomes\n"
    assert main([*words, "--yes"]) == 0
    assert capsys.readouterr().out == "erased 0 decisions and 0 outcomes\n"
    assert main(words) == 0
    assert capsys.readouterr().out == "0 decisions and 0 outcomes; there is nothing to erase\n"
    assert main([*words[:-2], "--task", "d1"]) == 0
    assert capsys.readouterr().out == "1 decision and 2 outcomes; --yes erases them\n"
    assert main(["log", "erase", "--db", str(log.path)]) == 2
