"""One commit for threads and event loops: everybody is told what became of their own record, and nobody of another's."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import threading
import time
from pathlib import Path

import pytest

from sage.log import group_commit
from sage.log.decision_log import DecisionLog, LogError, OverBudgetError
from sage.log.group_commit import Waiting
from sage.log.joining import Joined
from sage.log.records import Decision, Outcome, RecordError
from sage.log.spending import Budgets
from tests.sage.examples import decision, ids, outcome


async def submitted(log: DecisionLog, record: Decision | Outcome, budgets: Budgets | None = None) -> object:
    """What an event loop does: it gives a record, and goes on with something else until it has the result."""
    loop = asyncio.get_running_loop()
    result = loop.create_future()

    def done(waiting: Waiting) -> None:
        loop.call_soon_threadsafe(result.set_result, waiting.result)

    log.submit(record, done, budgets=budgets or Budgets())
    return await result


def traced_commits(log: DecisionLog) -> list[str]:
    commits: list[str] = []
    log.file._connection.set_trace_callback(lambda sql: commits.append(sql) if sql == "COMMIT" else None)
    return commits


def refuse(log: DecisionLog, decision_id: str) -> None:
    """Lets SQLite refuse one decision, in the middle of its transaction."""
    with log.file.transaction() as connection:
        connection.execute(
            f"CREATE TRIGGER refused AFTER INSERT ON decisions WHEN NEW.id = '{decision_id}' "
            "BEGIN SELECT RAISE(ABORT, 'not this one'); END"
        )


def test_threads_and_an_event_loop_write_at_once(log: DecisionLog) -> None:
    statuses: list[object] = []

    def write(index: int) -> None:
        for number in range(40):
            log.append(decision(f"t{index}-{number}"))
            statuses.append(log.add_outcome(outcome(f"t{index}-{number}")))

    async def call(index: int) -> None:
        for number in range(40):
            assert await submitted(log, decision(f"a{index}-{number}")) == Joined("logged")
            joined = await submitted(log, outcome(f"a{index}-{number}"))
            statuses.append(joined.status if isinstance(joined, Joined) else joined)

    async def calls() -> None:
        await asyncio.gather(*(call(index) for index in range(4)))

    threads = [threading.Thread(target=write, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    asyncio.run(calls())
    for thread in threads:
        thread.join()
    assert sorted(ids(log)) == sorted(f"{kind}{i}-{n}" for kind in "at" for i in range(4) for n in range(40))
    assert statuses == ["joined"] * 320


def test_both_are_written_in_one_transaction_and_only_the_bad_ones_fail(log: DecisionLog) -> None:
    log.append(decision("there"))
    refuse(log, "refused")
    commits, told, failed = traced_commits(log), {}, []

    def write(name: str) -> None:
        try:
            log.append(decision(name))
        except LogError as error:
            failed.append(str(error))

    threads = [threading.Thread(target=write, args=(name,)) for name in ("a", "refused", "b")]
    unread = outcome("a")
    object.__setattr__(unread, "provenance", "\ud800")  # nobody can make such a record
    with log.commits._writing:  # everyone has to wait
        for thread in threads:
            thread.start()
        for record in (decision("c"), decision("there"), outcome("there"), unread, decision("d")):
            log.submit(record, lambda waiting: told.setdefault(waiting.record, waiting.result))
        while len(log.commits._waiting) < 8:
            time.sleep(0.001)
        assert not told
    for thread in threads:
        thread.join()
    log.finish()
    assert len(commits) == 1
    assert sorted(ids(log)) == ["a", "b", "c", "d", "there"]
    assert failed == ["decision 'refused' cannot be written: not this one"]
    assert [told[decision(name)] for name in "cd"] == [Joined("logged")] * 2
    assert told[outcome("there")].status == "joined"
    assert isinstance(told[decision("there")], LogError)
    assert isinstance(told[unread], LogError)


def test_a_record_that_cannot_be_text_fails_alone(log: DecisionLog) -> None:
    wrong = decision("wrong")
    object.__setattr__(wrong, "policy", "\ud800")  # which no decision can be made with
    told: dict[str, object] = {}
    with log.commits._writing:
        for record in (decision("a"), wrong, decision("b")):
            log.submit(record, lambda waiting: told.setdefault(waiting.record.id, waiting.result))  # pyrefly: ignore
    log.finish()
    assert (ids(log), told["a"], told["b"]) == (["a", "b"], Joined("logged"), Joined("logged"))
    assert isinstance(told["wrong"], RecordError)
    assert str(told["wrong"]).startswith("decision 'wrong' cannot be written: 'utf-8' codec")


def test_outcomes_linger_for_a_decision(log: DecisionLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_commit, "LINGER_S", 60.0)
    log.append(decision("a"))
    commits, told = traced_commits(log), []
    log.submit(outcome("a"), told.append)
    time.sleep(0.05)
    assert (commits, told) == ([], [])
    assert asyncio.run(submitted(log, decision("b"))) == Joined("logged")
    assert len(commits) == 1
    assert [waiting.result.status for waiting in told] == ["joined"]  # whoever came first is told first


def test_a_thread_that_waits_takes_along_what_lingers(log: DecisionLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_commit, "LINGER_S", 60.0)
    log.append(decision("a"))
    commits, told = traced_commits(log), []
    log.submit(outcome("a"), told.append)
    log.append(decision("b"))
    assert len(commits) == 1
    assert [known is not None for _, known in log.rows()] == [True, False]
    log.finish()
    assert [waiting.result.status for waiting in told] == ["joined"]


def test_a_budget_is_checked_in_the_transaction_that_logs(log: DecisionLog) -> None:
    async def results() -> list[object]:
        calls = [decision(name, session="s", expected_cost_usd=0.4) for name in "abc"]
        return await asyncio.gather(*(submitted(log, call, Budgets(session_usd=1.0)) for call in calls))

    first, second, third = asyncio.run(results())
    assert first == second == Joined("logged")
    assert isinstance(third, OverBudgetError)
    assert (ids(log), log.spent("default", "s")) == (["a", "b"], 0.8)


def test_closing_writes_all_that_was_given_and_a_later_record_begins_anew(
    log: DecisionLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_commit, "LINGER_S", 60.0)
    told: list[Waiting] = []
    for number in range(100):
        log.submit(outcome(str(number)), told.append)
    log.close()
    assert [waiting.record.decision_id for waiting in told] == [str(number) for number in range(100)]  # pyrefly: ignore
    log.submit(decision("later"), told.append)
    log.close()
    log.close()
    assert told[-1].result == Joined("logged")
    assert ids(log) == ["later"]
    assert log.counts()["unknown"] == 100


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_done_that_raises_stops_nobody_who_comes_later(log: DecisionLog) -> None:
    log.submit(decision("a"), lambda waiting: 1 / 0)  # pyrefly: ignore
    thread = log.commits._thread
    assert thread is not None
    thread.join()
    assert asyncio.run(submitted(log, decision("b"))) == Joined("logged")
    assert ids(log) == ["a", "b"]


def append_as_a_child(log: DecisionLog) -> None:
    log.append(decision("child"))
    assert asyncio.run(submitted(log, decision("its-loop"))) == Joined("logged")
    log.close()
    os._exit(0)


def test_a_forked_process_leaves_to_its_parent_what_that_was_given(
    log: DecisionLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_commit, "LINGER_S", 60.0)
    log.submit(outcome("early"), lambda _: None)
    child = multiprocessing.get_context("fork").Process(target=append_as_a_child, args=(log,))
    child.start()
    child.join()
    assert child.exitcode == 0
    assert log.counts()["unknown"] == 0
    log.close()
    assert log.counts()["unknown"] == 1
    assert ids(log) == ["child", "its-loop"]


def write_until_killed(path: Path, notes: Path) -> None:
    """Threads that wait and an event loop write; the id of every record is noted once it is acknowledged."""
    log = DecisionLog.open(path)
    handle = os.open(notes, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def note(decision_id: str) -> None:
        os.write(handle, f"{decision_id}\n".encode())

    def write(index: int) -> None:
        for number in range(1_000_000):
            log.append(decision(f"t{index}-{number}"))
            note(f"t{index}-{number}")

    async def call(index: int) -> None:
        for number in range(1_000_000):
            assert await submitted(log, decision(f"a{index}-{number}")) == Joined("logged")
            note(f"a{index}-{number}")

    async def calls() -> None:
        await asyncio.gather(*(call(index) for index in range(3)))

    for index in range(2):
        threading.Thread(target=write, args=(index,), daemon=True).start()
    asyncio.run(calls())


def test_a_killed_process_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    path, notes = tmp_path / "sage.db", tmp_path / "notes"
    worker = multiprocessing.get_context("spawn").Process(target=write_until_killed, args=(path, notes))
    worker.start()
    while not (notes.exists() and notes.stat().st_size > 2000):
        time.sleep(0.005)
    os.kill(worker.pid or 0, signal.SIGKILL)
    worker.join()
    acknowledged = notes.read_text().split()
    logged = ids(DecisionLog.open(path))
    assert {name[0] for name in acknowledged} == {"a", "t"}
    assert set(acknowledged) <= set(logged)
    assert len(logged) == len(set(logged)) <= len(acknowledged) + 5  # one for each of those who wrote
