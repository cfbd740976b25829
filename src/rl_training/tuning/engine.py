"""The interface between a search and what executes its runs."""

from __future__ import annotations

from typing import Protocol

from rl_training.tuning.job import Ended, Evaluated, Job


class Engine(Protocol):
    """Executes jobs side by side. A run waits after each evaluation until it is answered."""

    def start(self, job: Job) -> None:
        """Begins a job; of a trial, one at a time."""

    def next_event(self) -> Evaluated | Ended:
        """Waits for what happens next."""
        ...

    def answer(self, trial: int, reason: str | None) -> None:
        """Lets a run go on after an evaluation, or ends it for a reason."""

    def close(self) -> None:
        """Pauses what runs, with checkpoints, and releases everything."""
