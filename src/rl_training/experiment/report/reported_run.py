"""A run as a report shows it: its settings, and the numbers of its logs that are finite."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeGuard

import numpy as np

from rl_training.config.run_config import flatten
from rl_training.experiment.run_record import RunRecord

SEED = "training.seed"
EVALUATED = "eval/mean_reward"
LARGEST = 1e100
LAST_EPISODES = 100  # whose mean return is the score of runs that were never evaluated
STEPS, UPDATES, BOTH = "env steps", "updates from data", "env steps and updates from data"


@dataclass(frozen=True)
class ReportedRun:
    """A run with its settings and its logs, from which everything is left out that is no finite number."""

    record: RunRecord

    @property
    def path(self) -> Path:
        return self.record.path

    @property
    def result(self) -> dict:
        return self.record.result

    @cached_property
    def settings(self) -> dict[str, object]:
        """The config by path, such as "env.id"."""
        return flatten(self.record.config)

    @cached_property
    def metrics(self) -> list[dict]:
        return by_step(self.record.metrics())

    @cached_property
    def episodes(self) -> list[dict]:
        rows = by_step(self.record.episodes())
        return [row for row in rows if finite(row.get("return")) and finite(row.get("length"))]

    @cached_property
    def evaluations(self) -> list[tuple[float, list[float]]]:
        """The step of every evaluation, and the returns of its episodes, or only their mean where no more is known."""
        rows = [row for row in self.metrics if finite(row.get(EVALUATED))]
        return [(row["timesteps"], returns_of(row)) for row in rows]

    @property
    def algorithm(self) -> str:
        return text_of(self.settings.get("algorithm.name"), self.result.get("algorithm"), "unknown algorithm")

    @property
    def env_id(self) -> str:
        return text_of(self.settings.get("env.id"), self.result.get("env_id"), "unknown environment")

    @property
    def seed(self) -> str:
        return text_of(self.settings.get(SEED), self.result.get("seed"), "?")

    @property
    def name(self) -> str:
        return f"{self.algorithm} seed {self.seed}"

    @property
    def protocol(self) -> dict:
        """The rules of the run's last evaluation; {} if it does not say them."""
        protocol = self.result.get("protocol")
        return protocol if isinstance(protocol, dict) else {}

    @property
    def unit(self) -> str:
        """The unit of the run's clock: env steps, updates from data, or their sum."""
        steps, offline = (self.result.get(name) for name in ("total_timesteps", "offline_updates"))
        if not finite(steps) or not finite(offline):
            logged = self.metric("time/total_timesteps")
            steps = logged[-1][1] if logged else self.settings.get("training.total_timesteps")
            offline = logged[-1][0] - logged[-1][1] if logged else self.settings.get("training.total_updates")
        return (BOTH if steps else UPDATES) if offline else STEPS

    @cached_property
    def clock(self) -> int:
        """The env steps, and updates from data alone, that the run is known to have done."""
        logged = (int(rows[-1]["timesteps"]) for rows in (self.metrics, self.episodes) if rows)
        ended = (value for name in ("total_timesteps", "offline_updates") if finite(value := self.result.get(name)))
        return max(int(sum(ended)), *logged, 0)

    @property
    def planned(self) -> int:
        """The length that the config plans, on the clock of `clock`; 0 if it does not say."""
        totals = [self.settings.get(f"training.{name}") for name in ("total_timesteps", "total_updates")]
        return int(sum(value for value in totals if finite(value)))

    def metric(self, name: str) -> list[tuple[float, float]]:
        """Returns the (step, value) of every record with a finite number under `name`."""
        return [(row["timesteps"], row[name]) for row in self.metrics if finite(row.get(name))]

    @property
    def ended(self) -> bool:
        """True if the run has come to its end, or was ended by its own rule."""
        return self.record.status in ("finished", "stopped")

    def score(self, *, evaluated: bool) -> float | None:
        """Returns the mean return of the last evaluation or, unless `evaluated`, of the last training episodes."""
        if evaluated:
            return float(np.mean(self.evaluations[-1][1])) if self.evaluations else None
        returns = [row["return"] for row in self.episodes[-LAST_EPISODES:]]
        return float(np.mean(returns)) if returns else None


def text_of(*values: object) -> str:
    return next(str(value) for value in values if value is not None)


def returns_of(row: dict) -> list[float]:
    returns = row.get("eval/returns")
    known = isinstance(returns, list) and returns and all(finite(value) for value in returns)
    return [float(value) for value in returns] if known else [float(row[EVALUATED])]


def by_step(rows: list[dict]) -> list[dict]:
    """Returns the records whose step is a finite number, not below zero, in the order of their steps."""
    return sorted(
        (row for row in rows if finite(row.get("timesteps")) and row["timesteps"] >= 0),
        key=lambda row: row["timesteps"],
    )


def finite(value: object) -> TypeGuard[float]:
    """Returns True for a number that can be drawn: neither infinite nor NaN, nor larger than anything measured."""
    return isinstance(value, int | float) and not isinstance(value, bool) and -LARGEST < value < LARGEST
