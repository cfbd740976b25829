"""The log keeps what it was told whoever writes at the same time, and whoever is killed."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from pathlib import Path

from sage.log.decision_log import DecisionLog, LogError
from tests.sage.examples import decision, ids, outcome


def test_threads_write_together(log: DecisionLog) -> None:
    statuses: list[str] = []

    def write(index: int) -> None:
        for number in range(50):
            log.append(decision(f"{index}-{number}"))
            statuses.append(log.add_outcome(outcome(f"{index}-{number}")))

    threads = [threading.Thread(target=write, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(ids(log)) == sorted(f"{i}-{n}" for i in range(8) for n in range(50))
    assert statuses == ["joined"] * 400


def test_who_waits_is_written_in_one_transaction_and_told_apart(log: DecisionLog) -> None:
    log.append(decision("there"))
    errors: list[str] = []

    def write(decision_id: str) -> None:
        try:
            log.append(decision(decision_id))
        except LogError as error:
            errors.append(str(error))

    commits = []
    log.file._connection.set_trace_callback(lambda sql: commits.append(sql) if sql == "COMMIT" else None)
    threads = [threading.Thread(target=write, args=(name,)) for name in ("a", "there", "b", "c")]
    with log.commits._writing:  # everyone has to wait
        for thread in threads:
            thread.start()
        while len(log.commits._waiting) < len(threads):
            time.sleep(0.001)
    for thread in threads:
        thread.join()
    assert len(commits) == 1
    assert sorted(ids(log)) == ["a", "b", "c", "there"]
    assert len(errors) == 1
    assert "'there' is logged already" in errors[0]


def append_until_killed(path: Path, notes: Path, index: int) -> None:
    log = DecisionLog.open(path)
    handle = os.open(notes, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for number in range(1_000_000):
        log.append(decision(f"{index}-{number}"))
        os.write(handle, b".")


def test_a_killed_process_loses_nothing_that_was_logged(tmp_path: Path) -> None:
    path = tmp_path / "sage.db"
    notes = [tmp_path / f"notes-{i}" for i in range(2)]
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=append_until_killed, args=(path, notes[i], i)) for i in range(2)]
    for worker in workers:
        worker.start()
    for worker, note in zip(workers, notes, strict=True):
        while not (note.exists() and note.stat().st_size > 100):
            time.sleep(0.005)
        os.kill(worker.pid, signal.SIGKILL)  # pyrefly: ignore
        worker.join()
    logged = set(ids(DecisionLog.open(path)))
    for index, note in enumerate(notes):
        acknowledged = {f"{index}-{number}" for number in range(note.stat().st_size)}
        assert acknowledged <= logged
        assert len([name for name in logged if name.startswith(f"{index}-")]) <= len(acknowledged) + 1
    assert DecisionLog.open(path).append(decision("after")) is None


def append_in_child(log: DecisionLog) -> None:
    inherited = log.file._connection
    log.append(decision("child"))
    os._exit(0 if log.file._connection is not inherited else 1)


def test_a_forked_process_writes_through_a_connection_of_its_own(log: DecisionLog) -> None:
    log.append(decision("parent"))
    child = multiprocessing.get_context("fork").Process(target=append_in_child, args=(log,))
    child.start()
    child.join()
    assert child.exitcode == 0
    log.append(decision("again"))
    assert ids(log) == ["parent", "child", "again"]


def test_a_read_does_not_stop_writers(log: DecisionLog) -> None:
    log.append_many([decision("a"), decision("b")])
    rows = log.rows()
    next(rows)
    log.append(decision("c"))
    assert [row.id for row, _ in rows] == ["b"]  # the log as it was when reading began
    assert ids(log) == ["a", "b", "c"]
