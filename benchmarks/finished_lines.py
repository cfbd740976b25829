"""A file of finished measurements, for programs that run in the few minutes for which a machine is lent."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

UNFINISHED = 3  # exit code of a program that has to be run again


class FinishedLines:
    """A line of JSON for every finished measurement; a program that is run again skips those that are there."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        written = path.read_bytes() if path.exists() else b""
        whole = written[: written.rfind(b"\n") + 1]
        if whole != written:  # the program was killed while it wrote a line: that is measured again
            os.truncate(path, len(whole))
        self.rows: list[dict] = [json.loads(line) for line in whole.decode().splitlines()]

    def like(self, **wanted: object) -> list[dict]:
        """Returns the rows that have these values."""
        return [row for row in self.rows if all(row.get(key) == value for key, value in wanted.items())]

    def add(self, row: dict) -> None:
        """Writes a row to the disk, and prints it; an alarm waits until both are done."""
        line = json.dumps(row)
        with uninterrupted(), self.path.open("a", encoding="utf-8") as file:
            self.rows.append(row)
            print(line, flush=True)
            file.write(line + "\n")
            file.flush()
            os.fsync(file.fileno())


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Lets an alarm that goes off inside the block go off after it.

    It changes the handler, as a signal that the main thread blocks would be delivered to another one.
    """
    late: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda number, _: late.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGALRM, before)
    if late:
        signal.raise_signal(signal.SIGALRM)


class OutOfTimeError(BaseException):
    """The end of the minutes that a program was given; no Exception, or a compiler would take it for its own failure."""


@contextmanager
def at_most(minutes: float | None) -> Iterator[None]:
    """Interrupts its block after so many minutes; the program then says that it is unfinished, and exits with code 3."""

    if minutes is None:
        yield
        return

    def stop(*_: object) -> None:
        raise OutOfTimeError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, minutes * 60)
    try:
        yield
    except OutOfTimeError:
        print(f"stopped after {minutes:g} minutes; run it again for the rest", flush=True)
        sys.exit(UNFINISHED)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
