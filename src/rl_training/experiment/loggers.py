"""Callbacks that record measurements: JSON lines and the screen."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TextIO

from rl_training.envs.episode_columns import column_metrics
from rl_training.runtime import Callback, Episode, EvalResult, Progress, Trainer


class JsonLines(Callback):
    """A callback that appends metrics and evaluations to `metrics.jsonl`, and finished episodes to `episodes.jsonl`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files: dict[str, TextIO] = {}

    def on_start(self, trainer: Trainer) -> None:
        self.files = {
            name: (self.folder / f"{name}.jsonl").open("a", encoding="utf-8") for name in ("metrics", "episodes")
        }

    def write(self, name: str, records: list[dict]) -> None:
        try:
            self.files[name].write("".join(json.dumps(record) + "\n" for record in records))
            self.files[name].flush()
        except OSError as error:
            path = str(self.folder / f"{name}.jsonl")
            raise OSError(error.errno, f"{error.strerror}: free space, then resume", path) from error

    def on_steps(self, trainer: Trainer, episodes: list[Episode]) -> None:
        if episodes:
            self.write("episodes", [episode_row(episode) for episode in episodes])

    def on_log(self, trainer: Trainer, metrics: dict[str, float]) -> None:
        self.write("metrics", [{"timesteps": trainer.logged_at, **none_if_not_finite(metrics)}])

    def on_evaluation(self, trainer: Trainer, result: EvalResult) -> None:
        record = {
            "timesteps": trainer.progress.timesteps,
            **none_if_not_finite(evaluation_metrics(result, trainer.progress)),
        }
        self.write("metrics", [record | {"eval/returns": list(result.returns)}])

    def close(self) -> None:
        for file in self.files.values():
            with suppress(OSError):  # every line was flushed; what is left is what could not be written
                file.close()


class ProgressBar(Callback):
    """A callback that shows steps, return, speed and time left on standard error: a bar on a terminal, else lines."""

    def __init__(self, stop_at: int, *, seconds_between_lines: float = 5.0) -> None:
        self.stop_at, self.seconds_between_lines = stop_at, seconds_between_lines
        self.bar = None

    def on_start(self, trainer: Trainer) -> None:
        self.began = self.spoke = time.perf_counter()
        self.began_at = trainer.progress.timesteps
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn

            columns = [BarColumn(), TextColumn("{task.completed}/{task.total}"), TextColumn("{task.description}")]
            self.bar = Progress(*columns, console=Console(stderr=True))
            self.bar.start()
            self.task = self.bar.add_task("", total=self.stop_at, completed=self.began_at)
        for store in trainer.plan.stores.values():
            if store.notice is not None:
                self.say(store.notice)

    def describe(self, trainer: Trainer) -> str:
        done = trainer.progress.timesteps
        speed = (done - self.began_at) / max(time.perf_counter() - self.began, 1e-9)
        seconds = (self.stop_at - done) / max(speed, 1e-9)
        left = time.strftime("%H:%M:%S", time.gmtime(seconds)) if seconds < 86_400 else f"{seconds / 86_400:,.0f} days"
        recent = trainer.recent
        ret = f"return {sum(e.ret for e in recent) / len(recent):.1f}" if recent else "return -"
        return f"{ret}  {speed:,.0f} steps/s  {left} left"

    def on_steps(self, trainer: Trainer, episodes: list[Episode]) -> None:
        if self.bar is not None:
            self.bar.update(self.task, completed=trainer.progress.timesteps, description=self.describe(trainer))
        elif time.perf_counter() - self.spoke > self.seconds_between_lines:
            self.spoke = time.perf_counter()
            sys.stderr.write(
                f"{trainer.progress.timesteps:,}/{self.stop_at:,} {trainer.plan.units}  {self.describe(trainer)}\n"
            )

    def on_evaluation(self, trainer: Trainer, result: EvalResult) -> None:
        success = f", success {result.success_rate:.0%}" if result.success_rate is not None else ""
        text = (
            f"{trainer.progress.text}: evaluation return {result.mean:.1f} +- {result.std:.1f}{success} "
            f"({len(result.returns)} episodes)"
        )
        self.say(text)

    def say(self, text: str) -> None:
        if self.bar is not None:
            self.bar.console.print(text)
        else:
            sys.stderr.write(f"{text}\n")

    def close(self) -> None:
        if self.bar is not None:
            self.bar.stop()


def episode_row(episode: Episode) -> dict:
    columns = none_if_not_finite(episode.columns)
    own = {"timesteps": episode.timesteps, "env": episode.env, "return": episode.ret, "length": episode.length}
    return own | columns


def none_if_not_finite(metrics: Mapping[str, float]) -> dict[str, float | None]:
    """Returns a copy of the metrics in which NaN and infinities, which JSON cannot hold, are None."""
    return {name: value if math.isfinite(value) else None for name, value in metrics.items()}


def evaluation_metrics(result: EvalResult, progress: Progress) -> dict[str, float]:
    """Returns an evaluation's metrics by log key, such as "eval/mean_reward"; `progress` must not count it yet.

    After a switch from data to env steps, adds the fall to the lowest evaluation since ("eval/switch_dip") and how far
    their mean is below the run's best ("eval/switch_regret").
    """
    after = replace(progress)
    after.count_evaluation(result.mean)
    since = {"eval/switch_dip": after.switch_dip, "eval/switch_regret": after.switch_regret}
    health = {f"health/{name}": value for name, value in result.health.items()}
    return {
        "eval/mean_reward": result.mean,
        "eval/std_reward": result.std,
        "eval/mean_ep_length": result.mean_length,
        **column_metrics("eval", result.column_means),
        **{name: value for name, value in since.items() if value is not None},
        **health,
    }
