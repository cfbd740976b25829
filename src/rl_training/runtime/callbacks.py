"""Callbacks: what else happens during a run. Evaluation, checkpoints, logs and progress bars are callbacks too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from rl_training.runtime.collector import Episode
    from rl_training.runtime.evaluator import EvalResult
    from rl_training.runtime.trainer import Trainer


class Callback:
    """Override what you need; every method gets the trainer. `trainer.request_stop(reason)` ends the run cleanly."""

    interval: int | None = None  # call `on_interval` at exact multiples of so many units
    unit: Literal["auto", "env_steps", "updates"] = "auto"  # updates without env steps; auto: what the phase counts

    def on_start(self, trainer: Trainer) -> None:
        """Is called before the first step of this call to `run`."""

    def on_steps(self, trainer: Trainer, episodes: list[Episode]) -> None:
        """Is called after new steps and, if a rollout was complete, its update."""

    def on_log(self, trainer: Trainer, metrics: dict[str, float]) -> None:
        """Is called once per log interval, with everything measured since the last, up to step `trainer.logged_at`.

        On a GPU training has gone on meanwhile, at most to the next log; other events wait for it.
        """

    def on_interval(self, trainer: Trainer) -> None:
        """Is called at every multiple of `interval`."""

    def on_switch(self, trainer: Trainer) -> None:
        """Is called between two phases."""

    def on_evaluation(self, trainer: Trainer, result: EvalResult) -> None:
        """Is called after an evaluation."""

    def on_end(self, trainer: Trainer) -> None:
        """Is called after the last step, also when the run was stopped early; not after an error."""

    def close(self) -> None:
        """Releases what the callback holds; called last, whatever happened."""


class StopOnReturn(Callback):
    """Ends the run when an evaluation's mean return reaches a threshold."""

    def __init__(self, threshold: float) -> None:
        self.threshold = threshold

    def on_evaluation(self, trainer: Trainer, result: EvalResult) -> None:
        if result.mean >= self.threshold:
            trainer.request_stop(f"evaluation return {result.mean:.2f} reached {self.threshold:g}")
