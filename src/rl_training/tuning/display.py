"""Display of a study's progress: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType

from rl_training.tuning.records import Records, Trial


class Display:
    """A printer of a study's progress on standard error: values of running and ended trials, and the best so far.

    Inside a `with` block on a terminal, it also shows a bar; if `shown` is False, it prints nothing.
    """

    def __init__(self, records: Records, total: int, *, shown: bool, seconds_between_lines: float = 5.0) -> None:
        self.records, self.total, self.shown = records, total, shown
        self.seconds_between_lines, self.spoke = seconds_between_lines, time.perf_counter()
        self.bar = None

    def __enter__(self) -> Display:
        if self.shown and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            columns = [
                BarColumn(),
                TextColumn("{task.completed}/{task.total} trials"),
                TextColumn("{task.description}"),
            ]
            self.bar = Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True))
            self.bar.start()
            self.task = self.bar.add_task("", total=self.total, completed=self.count())
        return self

    def count(self) -> int:
        return sum(trial.counts and trial.state not in ("running", "waiting") for trial in self.records.all())

    def ended(self, trial: Trial) -> None:
        """Prints the value of a trial that has ended, or why it ended without one, and the best trial so far."""
        self.say(f"trial {trial.number}: {outcome(trial)}")

    def evaluated(self, trial: int, step: int, value: float) -> None:
        """Prints the objective `value` of the running trial number `trial` at a step.

        Without a bar, prints nothing if the last line is less than `seconds_between_lines` seconds old.
        """
        if self.bar is not None or time.perf_counter() - self.spoke > self.seconds_between_lines:
            self.say(f"trial {trial} at step {step:,}: {value:.4g}")

    def say(self, text: str) -> None:
        if not self.shown:
            return
        self.spoke = time.perf_counter()
        best = max((t for t in self.records.all() if t.value is not None), key=lambda t: t.value or 0.0, default=None)
        leader = f"best {best.value:.4g} (trial {best.number})" if best else "no trial is complete yet"
        if self.bar is not None:
            self.bar.console.print(text)
            self.bar.update(self.task, completed=self.count(), description=leader)
        else:
            sys.stderr.write(f"{self.count()}/{self.total} {text}; {leader}\n")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.bar is not None:
            self.bar.stop()


def outcome(trial: Trial) -> str:
    """Returns a trial's value as text or, without one, the reason why it ended; its state if there is no reason."""
    if trial.value is not None:
        return f"{trial.value:.4g}"
    return str(trial.notes.get("reason", trial.state))
