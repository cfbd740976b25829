"""d3rlpy's HDF5: version 2 has one group of arrays per episode (`ReplayBuffer.dump`), version 1 `episode_terminals`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Protocol

import numpy as np

from rl_training.data.columns import DatasetError, Flat
from rl_training.data.formats.foreign import without_unknown_successors

OURS = r"(observations|actions|rewards|terminated)_\d+(_\d+)?|columns|num_episodes|version"


class Stored(Protocol):
    """An array in an open HDF5 file, which `array[()]` reads."""

    def __getitem__(self, item: tuple[()]) -> np.ndarray: ...


def is_buffer(names: list[str]) -> bool:
    """Returns True if a file with arrays of these names was written by d3rlpy's `ReplayBuffer.dump`."""
    return "num_episodes" in names


def is_version_one(names: list[str]) -> bool:
    """Returns True if a file with arrays of these names is d3rlpy 1's: D4RL's layout, but for the ends of episodes."""
    return {"actions", "rewards", "terminals", "episode_terminals"} <= set(names) and "timeouts" not in names


def ignored(names: list[str]) -> tuple[str, ...]:
    """Returns the names of arrays in a file of d3rlpy's `ReplayBuffer.dump` that are not read."""
    return tuple(name for name in names if not re.fullmatch(OURS, name))


def read_buffer(file: Mapping[str, Stored]) -> Flat:
    """Returns the columns, by names such as `obs` or `obs/0`, of a file that d3rlpy's `ReplayBuffer.dump` wrote.

    Raises a DatasetError if it is damaged. A cut episode has no observation after its last step, so this step is left
    out, as d3rlpy does.
    """
    parts = [read_episode(file, number) for number in range(count_episodes(file))]
    for number, part in enumerate(parts):
        check_alike(part, parts[0], number)
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return without_unknown_successors(columns)


def count_episodes(file: Mapping[str, Stored]) -> int:
    stored = np.asarray(file["num_episodes"][()])
    if stored.shape or stored.dtype.kind not in "iu" or stored < 1:
        raise DatasetError(
            f"num_episodes is {stored}: a buffer of d3rlpy needs a whole number, at least 1; dump it again"
        )
    return int(stored)


def read_episode(file: Mapping[str, Stored], number: int) -> Flat:
    """Returns the columns of episode `number`, by names such as `obs`, `action` and `reward`.

    `terminated` or `truncated` is True in the last row. Raises a DatasetError if arrays are missing or do not fit.
    """
    stored = read_observations(file, number)
    stored |= {name: read_array(file, f"{name}_{number}") for name in ("actions", "rewards", "terminated")}
    terminated, rewards = flag(stored.pop("terminated"), number), stored["rewards"]
    if rewards.ndim == 2 and rewards.shape[1] > 1:
        raise DatasetError(
            f"rewards_{number} has {rewards.shape[1]} numbers per step: one is learned from; dump the one that you mean"
        )
    length = len(rewards) if rewards.ndim else 0
    if not length:
        raise DatasetError(f"rewards_{number} has no steps: leave episode {number} out and dump the buffer again")
    for name, column in stored.items():
        if not column.ndim or len(column) != length:
            held = len(column) if column.ndim else "no"
            raise DatasetError(
                f"{name} of episode {number} has {held} rows and rewards {length}: every step needs one of each"
            )
    last = np.arange(length) == length - 1
    obs = {name.replace("observations", "obs"): x for name, x in stored.items() if name.startswith("observations")}
    return obs | {
        "action": choices_as_numbers(stored["actions"]),
        "reward": rewards.reshape(length),
        "terminated": last & terminated,
        "truncated": last & (not terminated),
    }


def read_observations(file: Mapping[str, Stored], number: int) -> Flat:
    """Returns the observations of episode `number`, under `observations`.

    Observations that are tuples give one array per part, under `observations/<part>`.
    """
    path = f"observations_{number}"
    parts = [f"{path}_{part}" for part in range(len(file)) if f"{path}_{part}" in file]
    if path in file or not parts:
        return {"observations": read_array(file, path)}
    return {f"observations/{path.rpartition('_')[2]}": read_array(file, path) for path in parts}


def read_array(file: Mapping[str, Stored], path: str) -> np.ndarray:
    if path not in file:
        raise DatasetError(
            f"{path} is missing, though num_episodes is {count_episodes(file)}: the file is cut; dump it again"
        )
    return np.asarray(file[path][()])


def flag(stored: np.ndarray, number: int) -> bool:
    if stored.shape or stored.dtype.kind not in "biuf" or stored not in (0, 1):
        raise DatasetError(
            f"terminated_{number} is {stored.tolist()}: it says of the whole episode whether it came to its own end; store one "
            "true or false"
        )
    return bool(stored)


def choices_as_numbers(action: np.ndarray) -> np.ndarray:
    """Returns whole-number actions of shape [steps, 1] as [steps]; returns all others unchanged."""
    return action[:, 0] if action.dtype.kind in "biu" and action.ndim == 2 and action.shape[1] == 1 else action


def check_alike(part: Flat, first: Flat, number: int) -> None:
    shapes = [{name: column.shape[1:] for name, column in one.items()} for one in (part, first)]
    odd = next((name for name in first if shapes[0].get(name) != shapes[1][name]), None)
    if odd is not None or len(part) != len(first):
        name = odd or next(name for name in part if name not in first)
        raise DatasetError(
            f"{name} of episode {number} has rows of shape {shapes[0].get(name)}, those of episode 0 {shapes[1].get(name)}: "
            "keep episodes of one environment in a file"
        )


def from_version_one(columns: Flat, ended: np.ndarray) -> Flat:
    """Returns the columns with `truncated` set where an episode ends (`ended` [rows]) without terminating.

    Actions and rewards of shape [steps, 1] become [steps], except actions that are no whole numbers. Raises a
    DatasetError if lengths differ.
    """
    terminated = columns["terminated"]
    if ended.shape != terminated.shape:
        raise DatasetError(
            f"episode_terminals has shape {ended.shape} and terminals {terminated.shape}: every column needs one row per step"
        )
    action, reward = columns["action"], columns["reward"]
    return columns | {
        "action": choices_as_numbers(action),
        "reward": reward[:, 0] if reward.ndim == 2 and reward.shape[1] == 1 else reward,
        "truncated": ended.astype(bool) & ~terminated.astype(bool),
    }
