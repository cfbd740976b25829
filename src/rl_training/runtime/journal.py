"""What happened since the last log: metrics of updates, kept on their device, and the latest episodes."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable

import numpy as np

from rl_training.core import Algorithm, Metrics
from rl_training.runtime.averages import MANY, Averages, read
from rl_training.runtime.episodes import Episode, column_means, column_metrics
from rl_training.runtime.finite import explain_failure
from rl_training.runtime.progress import Progress


class Journal:
    """Reads numbers from the device when they are logged, and now and then, never in between."""

    def __init__(self) -> None:
        self.recent: deque[Episode] = deque(maxlen=100)
        self.clear()

    def clear(self) -> None:
        self.history: list[Metrics] = []  # of the latest updates; what came before is in the averages
        self.averages = Averages()
        self.iteration: Metrics = {}
        self.mark = (time.perf_counter(), 0)  # clock and timesteps at the last log

    def add(self, history: list[Metrics], iteration: Metrics, algorithm: Algorithm, timesteps: int) -> None:
        """Takes what an iteration said; on the CPU, where looking costs nothing, a failure is raised at once."""
        start = len(self.history)
        self.history += history
        self.iteration = iteration
        if algorithm.failed.device.type == "cpu" and algorithm.failed:
            raise explain_failure(self.history[start:], f"of the iteration at step {timesteps}")
        if len(self.history) >= MANY:  # no more than the averages is kept of many updates
            self.check(algorithm, timesteps)
            self.averages.add(self.history)
            self.history = []

    def check(self, algorithm: Algorithm, timesteps: int) -> None:
        """Raises if a number was not finite."""
        if algorithm.failed:
            raise explain_failure(self.history, f"of the last {len(self.history)}, up to step {timesteps}")

    def pop(self, algorithm: Algorithm, progress: Progress, elapsed: float, ended: dict[str, float]) -> dict:
        """Everything measured since the last log; {} if there were no updates. `ended`: of episodes only counted."""
        self.averages.add(self.history)
        if not self.averages.sums:
            return {}
        train = self.averages.pop() | self.iteration
        self.check(algorithm, progress.timesteps)
        clock, mark = time.perf_counter(), self.mark
        metrics = {f"train/{name}": value for name, value in read(train).items()}
        metrics["train/n_updates"] = progress.gradient_steps
        metrics |= ended or episode_metrics(self.recent)
        metrics |= {
            "time/fps": (progress.timesteps - mark[1]) / max(clock - mark[0], 1e-9),
            "time/total_timesteps": progress.env_steps,
            "time/iterations": progress.iterations,
            "time/episodes": progress.episodes,
            "time/time_elapsed": elapsed,
        }
        self.history, self.mark = [], (clock, progress.timesteps)
        return metrics


def episode_metrics(episodes: Iterable[Episode]) -> dict[str, float]:
    """The means over some episodes."""
    episodes = list(episodes)
    if not episodes:
        return {}
    metrics = {
        "rollout/ep_rew_mean": float(np.mean([e.ret for e in episodes])),
        "rollout/ep_len_mean": float(np.mean([e.length for e in episodes])),
    }
    return metrics | column_metrics("rollout", column_means(e.columns for e in episodes))
