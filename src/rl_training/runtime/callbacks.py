"""Callbacks: code called at events of a run, such as evaluation, checkpoints, logs and progress bars."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from rl_training.runtime.collector import Episode
    from rl_training.runtime.evaluator import EvalResult
    from rl_training.runtime.trainer import Trainer


class Callback:
    """A base class for code that a run calls at its events: override the methods that you need.

    All but `close` get the trainer, whose `request_stop(reason)` ends the run after the current chunk of steps.
    """

    interval: int | None = None  # call `on_interval` at exact multiples of so many units
    unit: Literal["auto", "env_steps", "updates"] = "auto"  # updates without env steps; auto: what the phase counts

    def on_start(self, trainer: Trainer) -> None:
        """Is called once in every call of `Trainer.run`, before its first step."""

    def on_steps(self, trainer: Trainer, episodes: list[Episode]) -> None:
        """Is called after new steps or updates, with the episodes that ended since the last call (perhaps none)."""

    def on_log(self, trainer: Trainer, metrics: dict[str, float]) -> None:
        """Is called once per log interval and at the end with the new metrics by name, up to step `trainer.logged_at`.

        On a GPU the metrics arrive while training continues, so the call may come as late as the next log;
        `on_interval`, `on_switch` and `on_end` still come after it.
        """

    def on_interval(self, trainer: Trainer) -> None:
        """Is called when a multiple of `self.interval` is reached or passed; never if it is None.

        `self.unit` says if it counts env steps, updates without env steps, or those of the current phase ("auto").
        """

    def on_switch(self, trainer: Trainer) -> None:
        """Is called between two phases of a run, such as updates from data and steps in an environment."""

    def on_evaluation(self, trainer: Trainer, result: EvalResult) -> None:
        """Is called after every evaluation, with its result."""

    def on_end(self, trainer: Trainer) -> None:
        """Is called after the last step and log of `Trainer.run`, also when the run was stopped; not after an error."""

    def close(self) -> None:
        """Releases the callback's resources, such as open files; is called last, also after an error."""


class StopOnReturn(Callback):
    """A callback that ends the run once the mean return of an evaluation is at least `threshold`."""

    def __init__(self, threshold: float) -> None:
        self.threshold = threshold

    def on_evaluation(self, trainer: Trainer, result: EvalResult) -> None:
        if result.mean >= self.threshold:
            trainer.request_stop(f"evaluation return {result.mean:.2f} reached {self.threshold:g}")
