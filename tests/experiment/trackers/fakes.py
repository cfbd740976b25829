"""Trackers and runs for tests."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace

from rl_training.experiment.trackers.in_background import InBackground
from rl_training.experiment.trackers.tracker import Record, Status, TrackedRun, Tracker
from rl_training.runtime import Progress


class Remembering(Tracker):
    """Keeps what it was told; `fails` names the methods that raise an error, and `held` those that wait for `free`."""

    name, package, advice = "remembering", "json", "call it again"

    def __init__(self, *, fails: tuple[str, ...] = (), held: tuple[str, ...] = ()) -> None:
        self.fails, self.held, self.free, self.reached = fails, held, threading.Event(), threading.Event()
        self.records: list[Record] = []
        self.before: Mapping[str, str] = {}
        self.status: Status | None = None

    def start(self, run: TrackedRun, before: Mapping[str, str]) -> dict[str, str]:
        self.before = before
        self.enter("start")
        return {"id": f"{run.name}-{run.timesteps}"}

    def log(self, records: list[Record]) -> None:
        self.records += records
        self.enter("log")

    def finish(self, status: Status) -> None:
        self.status = status
        self.enter("finish")

    def enter(self, method: str) -> None:
        if method in self.held:
            self.reached.set()
            assert self.free.wait(60)
        if method in self.fails:
            raise (RuntimeError if method == "log" else SystemExit)(f"no {method}\ntoday")


def tracked_run(folder: Path, timesteps: int = 0, **config: bool | int | float | str) -> TrackedRun:
    return TrackedRun(folder, folder.name, None, "tests", config, timesteps)


def trainer_at(timesteps: int, stop_reason: str | None = None) -> SimpleNamespace:
    """As much of a trainer as the callback looks at."""
    progress, plan = Progress(env_steps=timesteps), SimpleNamespace(horizon=64)
    return SimpleNamespace(progress=progress, logged_at=timesteps, plan=plan, stop_reason=stop_reason)


def run_through(callback: InBackground, values: list[float], *, crash: bool = False) -> None:
    """Logs a value every 8 steps, and ends the run."""
    callback.wait_for_start()
    for number, value in enumerate(values, 1):
        callback.on_log(trainer_at(8 * number), {"train/loss": value})
    if not crash:
        callback.on_end(trainer_at(64))
    callback.close()
