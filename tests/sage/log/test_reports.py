"""Many reports about one decision: what is known stays right, and a report costs the same however many came before."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import time
from contextlib import closing
from pathlib import Path

import pytest

from sage.log.budget_settings import TenantBudget
from sage.log.compaction import erase
from sage.log.decision_log import REFUSED, DecisionLog
from sage.log.joining import join
from sage.log.record_checks import SOURCES
from sage.log.records import Outcome, of_shadow
from sage.log.reports import MOST_REPORTS, STORED_AFTER, Reports
from sage.log.stored_records import decode
from sage.verifiers.verifier import verify
from tests.sage.examples import decision, outcome
from tests.sage.log.test_decision_log import stored


def read(log: DecisionLog, decision_id: str = "d1") -> Reports:
    with log.file.connection() as connection:
        return Reports.read(connection, decision_id)


def all_reports(log: DecisionLog, decision_id: str = "d1") -> Outcome | None:
    """What is known if every report is read."""
    query = "SELECT status, record FROM outcomes WHERE decision_id = ? ORDER BY seq"
    with log.file.connection() as connection:
        rows = connection.execute(query, (decision_id,)).fetchall()
    known = join((status, decode(Outcome, text, decision_id)) for status, text in rows)
    return None if known is None else known.outcome


def drawn_report(generator: random.Random) -> Outcome:
    chances = {
        "quality": generator.choice([None, 0.0, 0.5]),
        "cost_usd": generator.choice([None, 1.0, 2.0]),
        "latency_s": generator.choice([None, 3.0]),
        "retries": generator.choice([0, 2]),
        "tokens_in": generator.choice([None, 5]),
        "tokens_cached": generator.choice([None, 4]),
        "provenance": generator.choice(["", "a", "password=hunter2hunter2"]),
        "verdicts": verify(None, {}, generator.choice([{}, {"a": True}, {"a": False, "b": None}, {"b": True}])),
    }
    if chances["quality"] is None:
        chances["timed_out"] = generator.random() < 0.5
    report = outcome(source=generator.choice(SOURCES), time=generator.uniform(0.0, 9.0), **chances)
    return of_shadow(report) if generator.random() < 0.3 else report


@pytest.mark.parametrize("seed", range(3))
def test_what_is_stored_is_what_all_reports_say(log: DecisionLog, seed: int) -> None:
    generator = random.Random(seed)
    log.append(decision(expected_cost_usd=0.5))
    for _ in range(5 * STORED_AFTER):
        log.join(drawn_report(generator), correction=generator.random() < 0.3)
        known = read(log)
        assert known.outcome == all_reports(log)
        assert known.num_later < STORED_AFTER
        cost = known.outcome.cost_usd if known.outcome else None
        assert log.spent("default", "") == pytest.approx(0.5 if cost is None else cost)
    assert next(log.rows())[1] == known.outcome


def test_a_report_costs_the_same_however_many_came_before(log: DecisionLog) -> None:
    log.append(decision())
    steps, work = [0], []
    log.file._connection.set_progress_handler(
        lambda: steps.append(1), 10
    )  # called for every 10 steps of SQLite's machine
    for number in range(MOST_REPORTS):
        steps.clear()
        log.add_outcome(outcome(quality=number / MOST_REPORTS))
        work.append(len(steps))
    early, late = work[8:24], work[-16:]
    assert max(late) <= max(early) + 2


def test_one_source_leaves_room_for_others(log: DecisionLog) -> None:
    log.append(decision())
    for _ in range(MOST_REPORTS):
        log.add_outcome(outcome())
    assert log.add_outcome(outcome(quality=0.5)) == REFUSED
    assert log.join(outcome(quality=0.5), correction=True).status == REFUSED
    assert log.counts()["duplicate"] == MOST_REPORTS - 1  # nothing is kept of what was refused
    for source in SOURCES[:-1]:
        assert log.add_outcome(outcome(quality=0.0, source=source)) in ("corrected", "conflict", "duplicate")
    assert next(log.rows())[1] == outcome(quality=0.0, source="operator")


def test_what_is_known_is_erased_with_the_reports(log: DecisionLog) -> None:
    for name in ("d1", "d2"):
        log.append(decision(name, tenant=name))
        for _ in range(STORED_AFTER):
            log.add_outcome(outcome(name, provenance=f"words of {name}"))
    erase(log, tenant="d1")
    assert [path.name for path in log.path.parent.iterdir() if b"words of d1" in path.read_bytes()] == []
    assert read(log, "d1").known is None
    assert read(log, "d2").num_reports["client"] == STORED_AFTER


def report_until_killed(path: Path, source: str, notes: Path) -> None:
    with closing(DecisionLog.open(path)) as log:
        handle = os.open(notes, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        for number in range(MOST_REPORTS):
            log.add_outcome(outcome(quality=number / MOST_REPORTS, source=source))
            os.write(handle, b".")


def test_two_processes_that_are_killed_leave_the_truth(log: DecisionLog, tmp_path: Path) -> None:
    log.append(decision())
    context = multiprocessing.get_context("fork")
    notes = {source: tmp_path / f"notes-{source}" for source in ("ci", "client")}
    workers = [
        context.Process(target=report_until_killed, args=(log.path, source, note)) for source, note in notes.items()
    ]
    for worker in workers:
        worker.start()
    for worker, note in zip(workers, notes.values(), strict=True):
        while not (note.exists() and note.stat().st_size > 2 * STORED_AFTER):
            time.sleep(0.002)
        os.kill(worker.pid, signal.SIGKILL)  # pyrefly: ignore
        worker.join()
    known = read(log)
    assert known.outcome == all_reports(log)
    assert known.outcome == outcome(quality=0.0, source="ci")
    for source, note in notes.items():
        assert note.stat().st_size <= known.num_reports[source] <= note.stat().st_size + 1


def test_a_log_of_format_5_goes_on_with_sources(tmp_path: Path) -> None:
    log = DecisionLog.open(stored(tmp_path / "sage.db", "log_format_5.sql"))
    known = {made.id: found and (found.quality, found.cost_usd, found.source) for made, found in log.rows()}
    assert known == {
        "ci-then-client": (0.0, 0.25, "ci"),  # in format 5 the client's correction counted
        "client-then-ci": (0.0, None, "ci"),
        "by-hand": (0.5, None, "operator"),
        "open": None,
        "raised": None,
        "shadowed": (1.0, 0.5, "operator"),
        "step": (None, None, "client"),
    }
    day = TenantBudget(usd=1.0, per="day")
    assert log.spent("team", "s") == log.tenant_spent("team", day, 1_780_000_000.0) == 7.25  # and not twice
    assert [read(log, "client-then-ci").num_reports[source] for source in ("client", "ci")] == [6, 1]
    assert log.add_outcome(outcome("client-then-ci", quality=0.25, provenance="api")) == "conflict"
    assert read(log, "client-then-ci").num_later == 0  # stored now
    assert log.add_outcome(outcome("early", cost_usd=8.0)) == "unknown"
    log.append(decision("early", tenant="team", session="s", time=1_780_000_000.0))
    assert log.tenant_spent("team", day, 1_780_000_000.0) == 15.25
    log.close()
    assert DecisionLog.open(log.path).tenant_spent("team", TenantBudget(usd=1.0, per="total"), 0.0) == 15.25
