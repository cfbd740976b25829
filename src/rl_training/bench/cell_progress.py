"""Display of the measurement that is being taken: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType


class CellProgress:
    """A display on standard error of a benchmark's measurements: a bar on a terminal, else plain lines.

    The bar is there only in its `with` block. It writes nothing while a measurement runs, so as not to disturb it.
    """

    def __init__(self, cell: str, total: int, *, seconds_between_lines: float = 5.0) -> None:
        self.cell, self.total, self.seconds_between_lines = cell, total, seconds_between_lines
        self.begun, self.spoke = 0, float("-inf")
        self.bar = None

    def __enter__(self) -> CellProgress:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn

            columns = [BarColumn(), TextColumn("{task.completed}/{task.total}"), TextColumn("{task.description}")]
            console = Console(stderr=True)
            self.bar = Progress(*columns, console=console, auto_refresh=False, transient=True, redirect_stdout=False)
            self.bar.start()
            self.task = self.bar.add_task(self.cell, total=self.total)
        return self

    def now(self, what: str) -> None:
        """Shows that a measurement begins, such as "sb3, repeat 2 of 7", and counts the one before as done.

        Without a terminal or a `with` block, writes at most one line in `seconds_between_lines`.
        """
        if self.bar is not None:
            self.bar.update(self.task, completed=self.begun, description=f"{self.cell}: {what}", refresh=True)
        elif time.perf_counter() - self.spoke > self.seconds_between_lines:
            self.spoke = time.perf_counter()
            sys.stderr.write(f"{self.begun}/{self.total} {self.cell}: {what}\n")
        self.begun += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.bar is not None:
            self.bar.stop()
