"""Leaves an upstream alone that has failed several times in a row, and tries it again after a while."""

from __future__ import annotations

import time
from collections.abc import Callable


class Breaker:
    """Closed: all calls pass. Open: none does. After `open_s`, one call at a time tries whether the upstream is back."""

    def __init__(self, failures: int, open_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.most = failures
        self.open_s = open_s
        self.clock = clock
        self.failures = 0  # in a row
        self.is_open = False
        self.next_trial = 0.0

    @property
    def usable(self) -> bool:
        return not self.is_open or self.clock() >= self.next_trial

    @property
    def wait_s(self) -> float:
        """Until the next trial."""
        return max(self.next_trial - self.clock(), 0.0) if self.is_open else 0.0

    def begin(self) -> None:
        """A call is made; where it is a trial, others wait for it, or until it must have been lost."""
        if self.is_open:
            self.next_trial = self.clock() + self.open_s

    def succeeded(self) -> None:
        self.failures, self.is_open = 0, False

    def failed(self) -> None:
        self.failures += 1
        if self.failures >= self.most or self.is_open:
            self.is_open, self.next_trial = True, self.clock() + self.open_s
