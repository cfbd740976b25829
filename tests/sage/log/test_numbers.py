"""Every decision has a number: given once, in the commit that writes it, and remembered when the decision is gone."""

from __future__ import annotations

import multiprocessing
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

from sage.log.compaction import digest, erase
from sage.log.decision_log import DecisionLog, LogError
from sage.log.numbers import NumberedRow, last_number, numbered_rows, reports_gone
from tests.sage.examples import decision, ids, outcome
from tests.sage.log.test_decision_log import stored


def delete(path: Path, decision_id: str, table: str = "decisions") -> None:
    """Deletes a record as somebody with another program would."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"DROP TRIGGER IF EXISTS {table}_no_delete")
        connection.execute(
            f"DELETE FROM {table} WHERE {'id' if table == 'decisions' else 'decision_id'} = ?", (decision_id,)
        )


def numbers(log: DecisionLog) -> dict[str, int | None]:
    return {made.id: made.number for made, _ in log.rows()}


def write(path: Path, name: str) -> None:
    log = DecisionLog.open(path)
    for number in range(20):
        log.append(decision(f"{name}{number}"))
        with suppress(LogError):
            log.append(decision("once"))
    log.close()


def test_several_processes_leave_no_gap(tmp_path: Path) -> None:
    path, context = tmp_path / "sage.db", multiprocessing.get_context("fork")
    DecisionLog.open(path).close()
    processes = [context.Process(target=write, args=(path, name)) for name in "abc"]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    log = DecisionLog.open(path)
    assert sorted(numbers(log).values()) == list(range(1, 62))  # pyrefly: ignore
    assert last_number(log) == 61


def test_a_number_is_not_given_again_whoever_deleted_its_row(log: DecisionLog) -> None:
    for name in "abc":
        log.append(decision(name))
    erase(log, task="b")
    log.close()
    delete(log.path, "c")
    again = DecisionLog.open(log.path)
    again.append(decision("d"))
    assert numbers(again) == {"a": 1, "d": 4}
    assert last_number(again) == 4
    assert [row.number for row in numbered_rows(again, 3)] == [1, 2]


def test_a_log_of_format_6_gets_numbers_and_does_not_know_why_rows_were_erased(tmp_path: Path) -> None:
    log = DecisionLog.open(stored(tmp_path / "sage.db", "log_format_6.sql"))
    assert numbers(log) == {"d1": 1, "d3": 3, "d5": 5, "d6": 6}
    assert (last_number(log), reports_gone(log)) == (6, 0)
    assert [(row.number, row.erased, row.kept) for row in numbered_rows(log, 6) if row.erased is not None] == [
        (2, "", None)
    ]
    before = digest(log)
    log.append(decision("new"))
    erase(log, task="new")
    assert [row.erased for row in numbered_rows(log, 7)] == [None] * 4 + ["", "task"]
    assert digest(log, before.decisions, before.outcomes) == before


def test_probabilities_stay_when_a_task_is_erased_and_go_with_its_tenant(log: DecisionLog) -> None:
    log.append(
        decision("a", task_id="secret", category="secret", tenant="acme", prompt="secret", outcome_probability=0.5)
    )
    log.append(decision("b", task_id="other", tenant="acme"))
    erase(log, task="secret")
    [there, gone] = numbered_rows(log, 2)
    assert there == NumberedRow(2, 1000.0, "synthetic", "acme", "", "ok")
    assert gone[:4] == (1, 1000.0, "synthetic", "acme")
    assert gone.kept is not None
    assert (gone.erased, gone.kept["probabilities"], gone.kept["model"]) == ("task", [0.75, 0.25], "small")
    log.close()
    assert b"secret" not in log.path.read_bytes()
    erase(log, tenant="acme")
    assert list(numbered_rows(log, 2)) == [NumberedRow(1, erased="tenant"), NumberedRow(2, erased="tenant")]
    log.close()
    assert b"acme" not in log.path.read_bytes()


def test_what_was_kept_goes_with_the_time_that_it_is_of(log: DecisionLog) -> None:
    for number, time in enumerate((1000.0, 2000.0)):
        log.append(decision(f"d{number}", time=time))
        erase(log, task=f"d{number}")
    erase(log, before=1500.0)
    assert [(row.erased, row.kept is None) for row in numbered_rows(log, 2)] == [("time", True), ("task", False)]


def test_reports_that_were_deleted_are_counted(log: DecisionLog) -> None:
    for name in "ab":
        log.append(decision(name))
        log.add_outcome(outcome(name))
    assert reports_gone(log) == 0
    erase(log, task="a")
    assert reports_gone(log) == 0
    log.close()
    delete(log.path, "b", "outcomes")
    again = DecisionLog.open(log.path)
    assert reports_gone(again) == 1
    assert ids(again) == ["b"]
