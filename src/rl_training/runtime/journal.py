"""The metrics of updates since the last log, kept on their device in little memory, and the logs made of them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from rl_training.core import Algorithm, Metrics
from rl_training.envs.episode_columns import column_means, column_metrics
from rl_training.runtime.collector import EndedEpisodes, Episode
from rl_training.runtime.finite import explain_failure
from rl_training.runtime.progress import Progress
from rl_training.runtime.transfer import Reading

MANY = 256  # updates whose metrics are kept apart: small tensors that stay between large ones make memory grow


class Journal:
    """The metrics of updates since the last log, averaged on their device so that training rarely waits for it."""

    def __init__(self) -> None:
        self.history: list[Metrics] = []  # of the latest updates; what came before is in the averages
        self.averages = Averages()
        self.iteration: Metrics = {}
        self.mark = (time.perf_counter(), 0)  # clock and timesteps at the last log

    def add(self, history: list[Metrics], iteration: Metrics, algorithm: Algorithm, timesteps: int) -> None:
        """Stores the metrics of an iteration; raises NonFiniteError if `algorithm.failed` says that an update failed.

        `history` is the list of the updates' metrics, `iteration` the other metrics of the iteration. On the CPU a
        failure is noticed at once, on a GPU some iterations later.
        """
        self.history += history
        self.iteration = iteration
        if algorithm.failed.device.type == "cpu" and algorithm.failed:
            raise explain_failure(history, f"of the iteration at step {timesteps}")
        if len(self.history) >= MANY:  # no more than the averages is kept of many updates
            self.check(algorithm, timesteps)
            self.averages.add(self.history)
            self.history = []

    def check(self, algorithm: Algorithm, timesteps: int) -> None:
        """Raises NonFiniteError if an update since the last log met a number that is not finite.

        `algorithm.failed` says so; the message names `timesteps` and the update in the history.
        """
        if algorithm.failed:
            raise explain_failure(self.history, f"of the last {len(self.history)}, up to step {timesteps}")

    def pop(
        self, algorithm: Algorithm, progress: Progress, elapsed: float, ended: EndedEpisodes, others: dict[str, float]
    ) -> Log | None:
        """Returns a `Log` of all metrics since the last call, without waiting for the device; None if there are none.

        Clears the metrics. `elapsed` is in seconds; `others` are numbers to log as they are; the means in `ended`, of
        episodes that the device counted, replace those of the same name.
        """
        history, self.history = self.history, []
        self.averages.add(history)
        if not self.averages.sums:
            return None
        clock, mark = time.perf_counter(), self.mark
        self.mark = (clock, progress.timesteps)
        times = {
            "time/fps": (progress.timesteps - mark[1]) / max(clock - mark[0], 1e-9),
            "time/total_timesteps": progress.env_steps,
            "time/iterations": progress.iterations,
            "time/episodes": progress.episodes,
            "time/time_elapsed": elapsed,
        }
        train = self.averages.pop() | self.iteration
        sums = [] if ended.sums is None else [ended.sums]
        reading = Reading([algorithm.failed, *train.values(), *sums])
        others = {"train/n_updates": progress.gradient_steps} | others | times
        return Log(progress.timesteps, reading, tuple(train), ended, others, history)


class Log(NamedTuple):
    """A log whose numbers are still being copied from the device."""

    timesteps: int
    reading: Reading
    names: tuple[str, ...]  # of the updates' metrics
    ended: EndedEpisodes
    others: dict[str, float]
    history: list[Metrics]

    def read(self) -> tuple[int, dict[str, float]]:
        """Waits for the numbers; returns how many episodes of CUDA graphs the progress lacks (else 0), and all metrics.

        Raises NonFiniteError if an update met a number that is not finite.
        """
        (failed,), *numbers = self.reading.numbers()
        if failed:
            raise explain_failure(self.history, f"of the last {len(self.history)}, up to step {self.timesteps}")
        train = {f"train/{name}": value for name, (value,) in zip(self.names, numbers, strict=False)}
        number, episodes = self.ended.describe(numbers[-1] if self.ended.sums is not None else ())
        metrics = train | self.others | episodes
        metrics["time/episodes"] += number
        return number, metrics


class Averages:
    """Running means of the metrics of updates; each is the mean over the updates that have it."""

    def __init__(self) -> None:
        self.sums: dict[str, Tensor] = {}
        self.counts: Counter[str] = Counter()

    def add(self, history: list[Metrics]) -> None:
        for name in dict.fromkeys(name for metrics in history for name in metrics):
            column = [metrics[name] for metrics in history if name in metrics]
            total = column[0] if len(column) == 1 else torch.stack(column).sum()
            self.sums[name] = self.sums[name] + total if name in self.sums else total
            self.counts[name] += len(column)

    def pop(self) -> Metrics:
        """Returns the mean of every metric and forgets all of them."""
        means = {
            name: total / self.counts[name] if self.counts[name] > 1 else total for name, total in self.sums.items()
        }
        self.sums, self.counts = {}, Counter()
        return means


def episode_metrics(episodes: Collection[Episode]) -> dict[str, float]:
    """Returns the means of return, length and `info` columns by metric name; {} without episodes.

    The first two are "rollout/ep_rew_mean" and "rollout/ep_len_mean".
    """
    if not episodes:
        return {}
    metrics = {
        "rollout/ep_rew_mean": float(np.mean([e.ret for e in episodes])),
        "rollout/ep_len_mean": float(np.mean([e.length for e in episodes])),
    }
    return metrics | column_metrics("rollout", column_means([e.columns for e in episodes]))
