"""The one group commit of a log: what threads and event loops give at the same time goes into the file in one transaction."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from weakref import WeakMethod

from sage.log.joining import Joined
from sage.log.records import Decision, Outcome
from sage.log.spending import UNLIMITED, Budgets

LINGER_S = 0.002  # for which an outcome is held back, as a decision may come that it can be written with


@dataclass(eq=False)
class Waiting:
    """A record on its way into the file; `result` is None until it is committed or refused."""

    record: Decision | Outcome
    correction: bool = False
    budgets: Budgets = UNLIMITED
    result: Joined | ValueError | None = None
    done: Callable[[Waiting], None] | None = None


Commit = Callable[[list[Waiting]], None]


class GroupCommit:
    """Collects records and commits them together: the first of those who wait writes for all, in the order they came.

    Threads wait in `write`. An event loop calls `submit`, and a thread of this object, which starts when it is first needed,
    waits in its place. `commit` gets a batch and gives each of its records a result, whatever happens; it never runs twice
    at a time. Only the thread keeps the log alive that `commit` belongs to, so that a log which nobody holds is closed at
    once. A forked process begins with nothing: what its parent was given, the parent writes.
    """

    def __init__(self, commit: Commit) -> None:
        self._owner = WeakMethod(commit)
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._waiting: deque[Waiting] = deque()
        self._writing = threading.Lock()
        self._starting = threading.Lock()
        self._submitted: SimpleQueue[Waiting | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def write(self, record: Waiting) -> None:
        """Returns once the record has its result."""
        if self._process != os.getpid():
            self._begin()
        self._waiting.append(record)
        commit = self._owner()
        assert commit is not None, "whoever writes holds the log"
        self._settle([record], commit)

    def submit(self, record: Waiting) -> None:
        """Returns at once; `record.done` is called with the record in this object's thread when it has its result. It must
        neither raise nor take long, as other records wait for that thread."""
        if self._process != os.getpid():
            self._begin()
        with self._starting:
            if self._thread is None or not self._thread.is_alive():
                run = (self._submitted, self._owner())
                self._thread = threading.Thread(target=self._run, args=run, name="sage-log", daemon=True)
                self._thread.start()
            self._waiting.append(record)
            self._submitted.put(record)

    def close(self) -> None:
        """Returns when all that was submitted has its result and its `done` was called; a later record starts anew."""
        if self._process != os.getpid():
            return
        with self._starting:
            thread, self._thread = self._thread, None
            submitted, self._submitted = self._submitted, SimpleQueue()
        if thread is not None:
            submitted.put(None)
            thread.join()

    def _settle(self, records: list[Waiting], commit: Commit) -> None:
        with self._writing:
            if any(record.result is None for record in records):
                commit([self._waiting.popleft() for _ in range(len(self._waiting))])

    def _run(self, submitted: SimpleQueue[Waiting | None], commit: Commit) -> None:
        ends = False
        while not ends:
            records, ends = collected(submitted)
            try:
                self._settle(records, commit)
            finally:
                for record in records:
                    if record.done is not None:
                        record.done(record)


def collected(submitted: SimpleQueue[Waiting | None]) -> tuple[list[Waiting], bool]:
    """Waits for a record and returns it with those behind it, and whether None was among them, which is the end. As long as
    all are outcomes, which nobody waits for, others have `LINGER_S` to come."""
    batch, ends, patience_s = [], False, LINGER_S
    with suppress(Empty):
        record = submitted.get()
        while True:
            if record is None:
                ends = True
            else:
                batch.append(record)
            if record is None or isinstance(record.record, Decision):
                patience_s = 0.0
            record = submitted.get(timeout=patience_s)
    return batch, ends
