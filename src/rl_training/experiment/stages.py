"""The callbacks of a run: those that people hand over, those that record it, and the order in which they are told."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from numbers import Integral
from typing import TYPE_CHECKING

from rl_training.config.names_of_others import CALLBACK_METHODS
from rl_training.core.arguments import ConfigError
from rl_training.experiment.loggers import JsonLines, ProgressBar, TensorBoard
from rl_training.experiment.run_callbacks import Checkpointing, NoSignals, Pause, SaveFirst, StopOnSignal
from rl_training.runtime import Callback, StopOnReturn

if TYPE_CHECKING:
    from rl_training.experiment.run import Run


def check_callbacks(given: object) -> list[Callback]:
    """What was handed to `learn` as a list of callbacks; anything else is refused."""
    callbacks: list[Callback] = []
    for callback in [given] if isinstance(given, Callback | type) or not isinstance(given, Iterable) else given:
        if isinstance(callback, type) and issubclass(callback, Callback):
            raise ConfigError(f"callbacks={callback.__name__} is a class: make an object of it, {callback.__name__}()")
        if not isinstance(callback, Callback):
            raise ConfigError(
                f"callbacks={callback!r} is not a Callback: derive from rl_training.Callback and override a method"
            )
        for name, ours in CALLBACK_METHODS.items():
            if callable(getattr(callback, name, None)):
                raise ConfigError(f"{type(callback).__name__}.{name} is never called: override {ours} instead")
        interval = callback.interval
        if interval is not None and (not isinstance(interval, Integral) or isinstance(interval, bool) or interval < 1):
            raise ConfigError(
                f"{type(callback).__name__}.interval={interval!r} must be a whole number of env steps, at least 1, or None, "
                "with which on_interval is never called"
            )
        if callback.unit not in ("auto", "env_steps", "updates"):
            raise ConfigError(
                f"{type(callback).__name__}.unit={callback.unit!r} is not a unit: use 'env_steps', 'updates' or 'auto'"
            )
        callbacks.append(callback)
    return callbacks


def following(run: Run, given: list[Callback]) -> list[Callback]:
    """Those of a worker that leaves all this to the first, and pauses where the first does something."""
    paused_for = [*([run.evaluation] if run.evaluation else []), *given]
    stages: list[Callback] = [Pause(callback.interval, callback.unit) for callback in paused_for]
    return [*stages, Pause(run.config.checkpoint.interval), NoSignals()] if run.recorded else stages


def in_order(run: Run, given: list[Callback], progress_to: int | None) -> list[Callback]:
    """What saves first, then the evaluation, the user's own, the rest that records, and a progress bar up to a step."""
    config, directory, stages = run.config, run.directory, list[Callback]()
    if run.trainer.workers.rank:
        return following(run, given)

    def save_step() -> None:
        assert directory is not None
        directory.save_step(run.snapshot(), config.checkpoint.keep)

    if directory:
        stages.append(SaveFirst(save_step))
    if run.evaluation:
        stages.append(run.evaluation)
    if config.evaluation.stop_at_return is not None:
        stages.append(StopOnReturn(config.evaluation.stop_at_return))
    stages += given
    if directory:
        checkpoints = Checkpointing(config.checkpoint.interval, save_step, lambda: directory.save_best(run.snapshot()))
        stages += [JsonLines(directory.path), checkpoints, StopOnSignal()]
    if directory and importlib.util.find_spec("tensorboard"):
        stages.append(TensorBoard(directory.path))
    return stages + ([ProgressBar(progress_to)] if progress_to is not None else [])
