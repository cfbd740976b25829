"""Records that could not be logged: outcomes wait until the log can be written again, decisions are counted."""

from __future__ import annotations

import logging
import threading
from collections import Counter, deque
from collections.abc import Callable

from sage.log.database import DatabaseError
from sage.log.decision_log import DecisionLog, LogError
from sage.log.records import Outcome, RecordError

log = logging.getLogger(__name__)
LOG_FAILURES = (DatabaseError, LogError)
MOST_WAITING = 10_000  # outcomes; beyond it the oldest is given up, and counted


class Backlog:
    """Safe to share between threads; nothing in it raises because of the log's file."""

    def __init__(self, log: DecisionLog, write: Callable[[Outcome, bool], object]) -> None:
        self.log = log
        self.write = write
        self.counts: Counter[str] = Counter()  # since the start: unlogged 'decisions', given-up 'outcomes'
        self.lock = threading.Lock()
        self.waiting: deque[tuple[Outcome, bool]] = deque()  # with whether it is a correction
        self._not_noted: Counter[str] = Counter()  # of the counts, those that the log does not yet hold
        self._down = False

    @property
    def is_down(self) -> bool:
        """Returns True if the last attempt to write the log failed."""
        return self._down

    def add_decision(self, error: ValueError) -> None:
        """Counts a decision that could not be logged."""
        with self.lock:
            self._count("decisions")
        self.complain(error)

    def add_outcome(self, outcome: Outcome, correction: bool, error: ValueError) -> None:
        """Keeps a report that could not be logged, unless it never can be."""
        if isinstance(error, RecordError):
            with self.lock:
                self._give_up(error)
            return
        with self.lock:
            self.waiting.append((outcome, correction))
            if len(self.waiting) > MOST_WAITING:
                self.waiting.popleft()
                self._count("outcomes")
        self.complain(error)

    def flush(self) -> None:
        """Writes all that waited, in the order it came; called after a record was logged."""
        if not self._down:
            return
        with self.lock:
            try:
                while self.waiting:
                    try:
                        self.write(*self.waiting[0])
                    except RecordError as error:
                        self._give_up(error)
                    self.waiting.popleft()
                if self._not_noted:
                    self.log.add_event("unlogged", dict(self._not_noted))
                    self._not_noted.clear()
                else:
                    with self.log.file.transaction():
                        pass
            except LOG_FAILURES:
                return
            self._down = False
        log.warning(f"{self.log.path} can be written again")

    def _give_up(self, error: RecordError) -> None:
        self._count("outcomes")
        log.warning(f"{error}; it is lost")

    def _count(self, name: str) -> None:
        self.counts[name] += 1
        self._not_noted[name] += 1

    def complain(self, error: ValueError) -> None:
        """Says once per outage what is wrong."""
        if not self._down:
            log.warning(
                f"{error}; until then the static table answers, decisions are not logged, and calls under a tenant's budget are "
                "refused"
            )
        self._down = True
