"""Finished episodes, and what their environments said of them."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
from torch import Tensor

from rl_training.envs.episode_columns import SUCCESS, Columns


class Episode(NamedTuple):
    """A finished episode, in raw rewards."""

    timesteps: int  # of the whole run, when it ended
    env: int
    ret: float
    length: int
    columns: Mapping[str, float] = {}  # `is_success` and `env.info_keys`, as its last step gave them

    @classmethod
    def from_state(cls, state: list) -> Episode:
        """Reads what a checkpoint holds of it."""
        timesteps, env, ret, length, *columns = state
        return cls(operator.index(timesteps), operator.index(env), float(ret), operator.index(length), *columns)


def columns_by_time(columns: Columns) -> dict[int, Columns]:
    """[time, env] columns, step by step, on the host."""
    if not columns:
        return {}
    on_host = {name: column.cpu() for name, column in columns.items()}
    num_steps = len(next(iter(on_host.values())))
    return {time: {name: column[time] for name, column in on_host.items()} for time in range(num_steps)}


def columns_of(columns: Mapping[str, Tensor], env: int) -> dict[str, float]:
    """What the columns of one step say of one environment's episode."""
    numbers = {name: float(column[env]) for name, column in columns.items()}
    return {name: number for name, number in numbers.items() if not math.isnan(number)}


def column_means(rows: Iterable[Mapping[str, float | None]]) -> dict[str, float]:
    """The mean of every column over the episodes that have it."""
    values: dict[str, list[float]] = {}
    for row in rows:
        for name, value in row.items():
            if value is not None:
                values.setdefault(name, []).append(value)
    return {name: float(np.mean(column)) for name, column in values.items()}


def column_metrics(prefix: str, means: Mapping[str, float]) -> dict[str, float]:
    """What means are called in logs: the rate of successes as in Stable-Baselines3, the others by their key."""
    return {f"{prefix}/success_rate" if name == SUCCESS else f"{prefix}/ep_info/{name}": v for name, v in means.items()}
