"""One thread that writes for all requests: what is waiting goes into the log together, in one transaction."""

from __future__ import annotations

import threading
from asyncio import AbstractEventLoop
from collections.abc import Callable
from queue import Empty, SimpleQueue

from sage.log.decision_log import DecisionLog, Waiting
from sage.log.records import Outcome
from sage.orchestrator.backlog import LOG_FAILURES, Backlog

LINGER_S = 0.002  # for which an outcome waits for a decision that it can be written with
Done = Callable[[Waiting], None]


class Writer:
    """Takes records from an event loop. `done` is called there with a record whose `result` is known; outcomes that
    cannot be written go to the backlog."""

    def __init__(self, log: DecisionLog, backlog: Backlog, written: Callable[[Outcome], None]) -> None:
        """`written` is called with every outcome that is in the log."""
        self.log = log
        self.backlog = backlog
        self.written = written
        self.waiting: SimpleQueue[tuple[Waiting, AbstractEventLoop | None, Done | None] | None] = SimpleQueue()
        self.thread = threading.Thread(target=self._run, name="sage-log", daemon=True)
        self.thread.start()

    def write(self, record: Waiting, loop: AbstractEventLoop | None = None, done: Done | None = None) -> None:
        self.waiting.put((record, loop, done))

    def close(self) -> None:
        """Returns when all that was given is written."""
        self.waiting.put(None)
        self.thread.join()

    def _run(self) -> None:
        ends = False
        while not ends:
            batch, patience = [self.waiting.get()], LINGER_S
            while True:
                waited_for = any(item is None or item[2] is not None for item in batch)
                try:
                    batch.append(self.waiting.get(timeout=0.0 if waited_for else patience))
                except Empty:
                    break
            ends = None in batch
            self._commit([item for item in batch if item is not None])

    def _commit(self, batch: list[tuple[Waiting, AbstractEventLoop | None, Done | None]]) -> None:
        if not batch:
            return
        self.log.write([record for record, _, _ in batch])
        for record, loop, done in batch:
            if loop is not None and done is not None:
                loop.call_soon_threadsafe(done, record)
            elif isinstance(record.record, Outcome):
                if isinstance(record.result, LOG_FAILURES):
                    self.backlog.add_outcome(record.record, record.correction, record.result)
                else:
                    self.written(record.record)
        if not isinstance(batch[-1][0].result, LOG_FAILURES):
            self.backlog.flush()
