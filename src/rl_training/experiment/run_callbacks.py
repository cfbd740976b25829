"""Callbacks that evaluate, keep checkpoints and end a run on a signal."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Literal

from rl_training.runtime import Callback, EvalResult, Trainer


class Evaluation(Callback):
    """Evaluates at every interval and tells the other callbacks."""

    def __init__(self, interval: int, evaluate: Callable[[int], EvalResult]) -> None:
        self.interval, self.evaluate = interval or None, evaluate
        self.last: tuple[int, EvalResult] | None = None

    def on_interval(self, trainer: Trainer) -> None:
        result = self.evaluate(trainer.progress.timesteps)
        self.last = (trainer.progress.timesteps, result)
        trainer.report_evaluation(result)

    def on_switch(self, trainer: Trainer) -> None:
        """So that what the first env steps cost is seen."""
        if self.interval and (self.last is None or self.last[0] != trainer.progress.timesteps):
            self.on_interval(trainer)

    def on_end(self, trainer: Trainer) -> None:
        """A finished run is always evaluated; a paused one is not."""
        finished = trainer.progress.timesteps >= trainer.plan.horizon
        if finished and (self.last is None or self.last[0] != trainer.progress.timesteps):
            self.on_interval(trainer)


class SaveFirst(Callback):
    """Saves at the end before anything else happens there: a failing last evaluation must not cost the training."""

    def __init__(self, save_step: Callable[[], object]) -> None:
        self.save_step = save_step

    def on_end(self, trainer: Trainer) -> None:
        self.save_step()


class Checkpointing(Callback):
    """Saves at every interval, at the end, and whenever an evaluation is the best so far."""

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
    """Stops collection at the multiples of an interval, at which another worker does something."""

    def __init__(self, interval: int | None, unit: Literal["auto", "env_steps", "updates"] = "auto") -> None:
        self.interval, self.unit = interval, unit


class OnSignal(Callback):
    """Does something of its own on SIGINT and SIGTERM."""

    def __init__(self) -> None:
        self.previous: dict[signal.Signals, signal.Handlers | Callable | int | None] = {}

    def handle(self, trainer: Trainer, number: int) -> None:
        """What it does."""

    def on_start(self, trainer: Trainer) -> None:
        if threading.current_thread() is not threading.main_thread():
            return  # only the main thread may install handlers

        def handle(number: int, frame: FrameType | None) -> None:
            self.handle(trainer, number)

        self.previous = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}

    def close(self) -> None:
        for number, handler in self.previous.items():
            signal.signal(number, handler)


class StopOnSignal(OnSignal):
    """The first SIGINT or SIGTERM ends the run with a checkpoint; a second SIGINT interrupts at once."""

    def handle(self, trainer: Trainer, number: int) -> None:
        trainer.request_stop(signal.Signals(number).name)
        signal.signal(signal.SIGINT, signal.default_int_handler)


class NoSignals(OnSignal):
    """Goes on until the first worker, which gets the same signals, stops all of them."""
