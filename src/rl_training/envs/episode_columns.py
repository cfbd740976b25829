"""Columns of ended episodes, read from an environment's `info`: `is_success`, and the keys in `env.info_keys`."""

from __future__ import annotations

import difflib
import logging
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

SUCCESS = "is_success"  # taken wherever an environment gives it; 1 where its value is above 0
PATIENCE = 3  # episodes after which a key that never came is called missing
NUMBERS = "biuf"  # numpy's kinds: truth values and real numbers
EpisodeColumns = dict[str, Tensor]  # one float64 number per environment; NaN where there is none
SAID: set[str] = set()  # warnings are given once per process: every evaluation has environments of its own

log = logging.getLogger(__name__)


def wanted_names(keys: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((SUCCESS, *keys)))


def read_columns(info: object, keys: tuple[str, ...]) -> dict[str, float]:
    """Returns the numbers under `is_success` and `keys` in an episode's last `info`; leaves out missing ones and NaN.

    `is_success` becomes 1.0 if it is above 0, else 0.0, also for NaN. An array with one element is a number, too; any
    other value raises a ValueError if it is under one of `keys`, and is left out under `is_success`.
    """
    columns = {}
    for name in wanted_names(keys):
        value = info.get(name) if isinstance(info, Mapping) else None
        number = None if value is None else as_number(name, value, asked=name in keys)
        if number is not None and not math.isnan(number):
            columns[name] = number
    return columns


def as_number(name: str, value: Any, *, asked: bool) -> float | None:
    if isinstance(value, np.ndarray | np.generic | Tensor) and math.prod(value.shape) == 1:
        value = value.item()
    if isinstance(value, int | float):
        return float(value > 0) if name == SUCCESS else float(value)
    if asked:
        raise not_a_number(name, value)
    return None


def not_a_number(name: str, value: object) -> ValueError:
    kind = f"an array of shape {value.shape}" if isinstance(value, np.ndarray) else f"of type {type(value).__name__}"
    return ValueError(
        f"env.info_keys: info[{name!r}] at the end of an episode is {kind}, not a number: leave the key out, or put a "
        "number there in a wrapper"
    )


class ColumnReader:
    """A reader of the numbers under `is_success` and `keys` in the infos of ended episodes.

    Keys that never occur are logged as warnings.
    """

    def __init__(self, keys: tuple[str, ...] = ()) -> None:
        self.keys = keys
        self.missing = set(keys)
        self.names_seen: set[str] = set()
        self.episodes = 0

    def from_infos(self, infos: Sequence[Any], ended: Sequence[bool]) -> EpisodeColumns:
        """Returns the numbers of ended episodes under `is_success` and `keys`, from one info per environment.

        Each is a float64 tensor [num_envs], NaN where `ended` is False or the key is missing; left out if all are NaN.
        """
        there = [info if over else None for info, over in zip(infos, ended, strict=True)]
        return self.from_vector(join_infos(there), np.array(ended, dtype=bool))

    def from_vector(self, info: Mapping[str, Any], ended: np.ndarray) -> EpisodeColumns:
        """Returns the numbers of ended episodes under `is_success` and `keys`, from a vector environment's info.

        The info has an array per key, and a mask under `_<key>`. Each result is a float64 tensor [num_envs], NaN where
        `ended` [num_envs] is False or the key is missing; left out if all are NaN.
        """
        columns = {}
        for name in wanted_names(self.keys):
            if name in info:
                mask = np.asarray(info.get(f"_{name}", True))
                given = (
                    ended if mask.dtype == object else ended & mask
                )  # else it is another key of the environment's own
                column = self.vector_column(name, info[name], given)
                if column is not None and not column.isnan().all():
                    columns[name] = column
        if self.missing:
            self.note(list(columns), [name for name in info if not name.startswith("_")], int(ended.sum()))
        return columns

    def vector_column(self, name: str, values: Any, given: np.ndarray) -> Tensor | None:
        array, asked = np.asarray(values), name in self.keys
        if array.dtype == object and array.shape == given.shape:
            pairs = zip(array, given, strict=True)
            numbers = [as_number(name, v, asked=asked) if t and v is not None else None for v, t in pairs]
            return torch.tensor([math.nan if number is None else number for number in numbers], dtype=torch.float64)
        if array.dtype.kind not in NUMBERS or array.size != len(given):
            if asked:
                raise not_a_number(name, values)
            return None
        array = array.reshape(len(given)).astype(np.float64)
        array = (array > 0).astype(np.float64) if name == SUCCESS else array
        return torch.from_numpy(np.where(given, array, math.nan))

    def note(self, given: list[str], names: list[str], episodes: int) -> None:
        self.missing -= set(given)
        self.names_seen |= set(names)
        self.episodes += episodes
        if self.episodes >= PATIENCE:
            self.say_missing()

    def say_missing(self) -> None:
        """Logs a warning about each of `keys` that no episode has had so far, once.

        Does nothing if no episode has ended.
        """
        if not self.episodes:
            return
        others = sorted(self.names_seen)
        for key in sorted(self.missing):
            near = difflib.get_close_matches(key, others, n=1, cutoff=0.5)
            there = f"it has {', '.join(map(repr, others))}" if others else "compare it with what the environment gives"
            there = f"did you mean {near[0]!r}?" if near else there
            there = "it is there, and was None or NaN each time" if key in self.names_seen else there
            text = f"env.info_keys: no episode has ended with info[{key!r}] so far: {there}"
            if text not in SAID:
                SAID.add(text)
                log.warning(text)
        self.missing = set()


def join_infos(infos: Sequence[Any]) -> dict[str, Any]:
    """Returns a dict of object arrays [len(infos)], one per key, from a list of info dicts.

    The entry is None where an info is missing or lacks the key.
    """
    columns: dict[str, Any] = {}
    for index, info in enumerate(infos):
        for name, value in info.items() if isinstance(info, Mapping) else ():
            columns.setdefault(name, np.full(len(infos), None, dtype=object))[index] = value
    return columns


def columns_by_time(columns: EpisodeColumns) -> dict[int, EpisodeColumns]:
    """Splits a dict of [time, env] tensors into one dict of [env] tensors per step, on the CPU.

    The result maps the index of the step to that dict; {} if `columns` is empty.
    """
    on_host = {name: column.cpu().unbind() for name, column in columns.items()}
    rows = zip(*on_host.values(), strict=True)
    return {time: dict(zip(on_host, row, strict=True)) for time, row in enumerate(rows)}


def columns_of(columns: EpisodeColumns, env: int) -> dict[str, float]:
    """Returns the numbers of environment `env` as floats by name, from a dict of [env] tensors; leaves out NaN."""
    numbers = {name: float(column[env]) for name, column in columns.items()}
    return {name: number for name, number in numbers.items() if not math.isnan(number)}


def column_means(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Returns the mean of every name over the episodes in `rows`, one dict each, that have it."""
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: float(np.mean([row[name] for row in rows if name in row])) for name in names}


def column_metrics(prefix: str, means: Mapping[str, float]) -> dict[str, float]:
    """Returns `means` under the names of the log: `<prefix>/success_rate` for `is_success`.

    Any other name becomes `<prefix>/ep_info/<name>`.
    """
    return {f"{prefix}/success_rate" if name == SUCCESS else f"{prefix}/ep_info/{name}": v for name, v in means.items()}
