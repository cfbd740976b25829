"""The callbacks of a run: evaluation, saving, those of the user, and their order."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from numbers import Integral
from typing import TYPE_CHECKING, Literal

from rl_training.config.names_of_others import CALLBACK_METHODS
from rl_training.core.arguments import ConfigError
from rl_training.experiment.loggers import JsonLines, ProgressBar
from rl_training.experiment.signals import NoSignals, StopOnSignal
from rl_training.experiment.trackers.begin import begin_tracking
from rl_training.runtime import Callback, EvalResult, StopOnReturn, Trainer

if TYPE_CHECKING:
    from rl_training.experiment.run import Run


class Evaluation(Callback):
    """A callback that evaluates at every interval and at the end, and reports each result to the other callbacks.

    `evaluate` is called with the clock (updates from data alone plus env steps); with the interval 0, only the end is
    evaluated.
    """

    def __init__(self, interval: int, evaluate: Callable[[int], EvalResult]) -> None:
        self.interval, self.evaluate = interval or None, evaluate
        self.last: tuple[int, EvalResult] | None = None

    def on_interval(self, trainer: Trainer) -> None:
        result = self.evaluate(trainer.progress.timesteps)
        self.last = (trainer.progress.timesteps, result)
        trainer.report_evaluation(result)

    def on_switch(self, trainer: Trainer) -> None:
        """Evaluates between two phases, so that a drop after learning from data can be measured.

        Does nothing without an interval, or if this step was evaluated already.
        """
        if self.interval and (self.last is None or self.last[0] != trainer.progress.timesteps):
            self.on_interval(trainer)

    def on_end(self, trainer: Trainer) -> None:
        """Evaluates a run that has reached its end, unless that step was evaluated already; skips a paused run."""
        finished = trainer.progress.timesteps >= trainer.plan.horizon
        if finished and (self.last is None or self.last[0] != trainer.progress.timesteps):
            self.on_interval(trainer)


class SaveFirst(Callback):
    """A callback that saves at the end, before the last evaluation: if that fails, the training is not lost."""

    def __init__(self, save_step: Callable[[], object]) -> None:
        self.save_step = save_step

    def on_end(self, trainer: Trainer) -> None:
        self.save_step()


class Checkpointing(Callback):
    """A callback that saves at every interval and at the end, and separately the best evaluated agent so far."""

    def __init__(self, interval: int, save_step: Callable[[], object], save_best: Callable[[], object]) -> None:
        self.interval, self.save_step, self.save_best = interval, save_step, save_best
        self.saved_at = -1

    def on_interval(self, trainer: Trainer) -> None:
        if self.saved_at != trainer.progress.timesteps:
            self.saved_at = trainer.progress.timesteps
            self.save_step()

    def on_evaluation(self, trainer: Trainer, result: EvalResult) -> None:
        best = trainer.progress.best_return
        if best is None or result.mean > best:
            self.save_best()

    def on_end(self, trainer: Trainer) -> None:
        self.save_step()


class Pause(Callback):
    """A callback without an effect of its own: its interval makes this process pause where the first process does.

    Used in runs of several processes, of which only the first has callbacks that do something.
    """

    def __init__(self, interval: int | None, unit: Literal["auto", "env_steps", "updates"] = "auto") -> None:
        self.interval, self.unit = interval, unit


def check_callbacks(given: object) -> list[Callback]:
    """Returns the callbacks that were passed to `learn`, one or several, as a list.

    Raises ConfigError if one is no Callback object, has a method of another library, or an invalid interval or unit.
    """
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
    """Returns the callbacks of a process other than the first of a distributed run: pauses where the first one's act.

    `given` are the user's callbacks, which only the first process calls. If the run is recorded, adds `NoSignals`.
    """
    paused_for = [*([run.evaluation] if run.evaluation else []), *given]
    pauses: list[Callback] = [Pause(callback.interval, callback.unit) for callback in paused_for]
    return [*pauses, Pause(run.config.checkpoint.interval), NoSignals()] if run.recorded else pauses


def build_callbacks(run: Run, given: list[Callback], progress_to: int | None) -> list[Callback]:
    """Returns all callbacks of a run in the order of their calls; `given` are the user's.

    First a save at the end, then evaluation, the user's own, logs, trackers and checkpoints, and a progress bar up to
    step `progress_to` (None: no bar). In a distributed run, processes other than the first get pauses instead.
    """
    config, directory, callbacks = run.config, run.directory, list[Callback]()
    if run.trainer.ranks.rank:
        return following(run, given)

    def save_step() -> None:
        assert directory is not None
        directory.save_step(run.snapshot(), config.checkpoint.keep)

    if directory:
        callbacks.append(SaveFirst(save_step))
    if run.evaluation:
        callbacks.append(run.evaluation)
    if config.evaluation.stop_at_return is not None:
        callbacks.append(StopOnReturn(config.evaluation.stop_at_return))
    callbacks += given
    if directory:
        checkpoints = Checkpointing(config.checkpoint.interval, save_step, lambda: directory.save_best(run.snapshot()))
        trackers = begin_tracking(config, directory.path, run.trainer.progress.timesteps)
        signals = [StopOnSignal()] if run.alone else []
        callbacks += [JsonLines(directory.path), *trackers, checkpoints, *signals]
    return callbacks + ([ProgressBar(progress_to)] if progress_to is not None else [])
