"""Callbacks that respond to SIGINT and SIGTERM during a run."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Sequence
from types import FrameType

from rl_training.runtime import Callback, Trainer


class OnSignal(Callback):
    """Base of callbacks that respond to SIGINT and SIGTERM during a run; has no effect outside of the main thread."""

    def __init__(self) -> None:
        self.previous: dict[signal.Signals, signal.Handlers | Callable | int | None] = {}

    def handle(self, trainer: Trainer, number: int) -> None:
        """Responds to signal `number`; does nothing unless overridden."""

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
    """A callback that ends the run with a checkpoint on SIGINT or SIGTERM; a second SIGINT interrupts at once."""

    def handle(self, trainer: Trainer, number: int) -> None:
        trainer.request_stop(signal.Signals(number).name)
        signal.signal(signal.SIGINT, signal.default_int_handler)


class NoSignals(OnSignal):
    """A callback that ignores SIGINT and SIGTERM in processes of a distributed run other than the first.

    The first process gets them too, and stops all.
    """


class StopTogether(OnSignal):
    """Ends several runs of this process with checkpoints on SIGINT or SIGTERM; a second SIGINT interrupts at once."""

    def __init__(self, trainers: Sequence[Trainer]) -> None:
        super().__init__()
        self.trainers = trainers

    def handle(self, trainer: Trainer, number: int) -> None:
        for one in self.trainers:
            one.request_stop(signal.Signals(number).name)
        signal.signal(signal.SIGINT, signal.default_int_handler)
