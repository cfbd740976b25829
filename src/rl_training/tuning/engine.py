"""The interface between a search and what executes its runs."""

from __future__ import annotations

from typing import Protocol

from rl_training.tuning.job import Ended, Evaluated, Job


class Engine(Protocol):
    """Executes jobs side by side. A run waits after each evaluation until it is answered."""

    def start(self, job: Job) -> None:
        """Begins a job; a trial has at most one at a time."""

    def next_event(self) -> Evaluated | Ended:
        """Waits for the next evaluation or end of a run, and returns it."""
        ...

    def answer(self, trial: int, reason: str | None) -> None:
        """Lets a run go on after an evaluation, or ends it for a reason."""

    def close(self) -> None:
        """Pauses what runs, with checkpoints, and releases everything."""
