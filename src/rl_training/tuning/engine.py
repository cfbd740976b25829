"""The interface between a search and what executes its runs."""

from __future__ import annotations

from typing import Protocol

from rl_training.tuning.job import Ended, Evaluated, Job


class Engine(Protocol):
    """An executor of a study's training runs, several at a time; a run waits after each evaluation for an answer."""

    def start(self, job: Job) -> None:
        """Starts a job, one training run of a trial, without waiting; a trial has at most one at a time."""

    def next_event(self) -> Evaluated | Ended:
        """Waits for the next evaluation or end of any run, and returns it."""
        ...

    def answer(self, trial: int, reason: str | None) -> None:
        """Lets the run of a trial that waits after an evaluation go on (reason None), or stops it for a reason."""

    def close(self) -> None:
        """Pauses all runs, with checkpoints, and ends the processes that execute them."""
