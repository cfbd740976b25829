"""Columns of a dataset: their names, shapes and types, and the spaces that say which are right.

A column has a flat name (`obs`, `obs/position`, `extras/cost`), so that every file format can hold it. The names are
those of `core.Transition`; `last_obs` has one row per episode, all others one row per step.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from rl_training.core import Box, Dict, Discrete, Leaf, MultiBinary, MultiDiscrete, Space, Spec

Arrays = np.ndarray | dict[str, np.ndarray]  # an observation: one array, or one per key
Flat = dict[str, np.ndarray]

REQUIRED = {  # and what to do where one is missing
    "obs": "add one row per step",
    "action": "add one row per step, in the environment's units",
    "reward": "add one number per step",
    "terminated": "say for every step whether the episode came to its own end there",
    "truncated": "say for every step whether the episode was cut there, e.g. by a time limit; all false if none was",
}
ALIASES = {  # of our names; the first of several is D4RL's
    "observations": "obs",
    "actions": "action",
    "rewards": "reward",
    "terminals": "terminated",
    "terminations": "terminated",
    "timeouts": "truncated",
    "truncations": "truncated",
    "next_observations": "next_obs",
    "last_observations": "last_obs",
}
AMBIGUOUS = ("done", "dones")
CHUNK = 1 << 16  # rows that are looked at together, so that a mapped file is never loaded whole
IMAGE_DIMENSIONS = 4  # of a column of images


class DatasetError(ValueError):
    """The error for a dataset that cannot be used; its message says which field is wrong and what to do."""


class Columns(NamedTuple):
    """The columns of a dataset as arrays, one row per step; `last_obs` has one row per episode.

    In a finished dataset exactly one of `next_obs` and `last_obs` is not None.
    """

    obs: Arrays
    action: np.ndarray
    reward: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    next_obs: Arrays | None  # the successor of every row
    last_obs: Arrays | None  # what follows the last row of every episode; other successors are the following row
    log_prob: np.ndarray | None  # of the action taken, at a bound that of being clipped to it; NaN where unknown
    extras: Flat


def map_arrays(fn: Callable[..., np.ndarray], tree: Arrays, *rest: Arrays) -> Arrays:
    """Returns `fn` applied to an array, or a dict of `fn` applied to every array of a dict.

    `rest` holds trees of the same keys, whose arrays `fn` gets as further arguments.
    """
    if isinstance(tree, dict):
        return {key: fn(leaf, *(other[key] for other in rest)) for key, leaf in tree.items()}  # pyrefly: ignore
    return fn(tree, *rest)


def leaves(name: str, tree: Arrays | None) -> Flat:
    """Returns a dict of the arrays of an observation: `name` for one array, `name/key` for a dict; {} for None."""
    if isinstance(tree, dict):
        return {f"{name}/{key}": leaf for key, leaf in tree.items()}
    return {} if tree is None else {name: tree}


def chunks(rows: int) -> Iterator[slice]:
    return (slice(start, min(start + CHUNK, rows)) for start in range(0, rows, CHUNK))


def flatten(columns: Columns) -> Flat:
    """Returns a dict of all columns that are not None, by names such as `obs`, `obs/position` or `extras/cost`."""
    return {name: leaf for field, tree in columns._asdict().items() for name, leaf in leaves(field, tree).items()}


def unflatten(flat: Flat) -> Columns:
    """Builds `Columns` from arrays by names such as `obs` or `obs/position`.

    Raises a DatasetError if a required one is missing, or if there are both `obs` and `obs/position`.
    """
    absent = next((name for name in REQUIRED if tree_at(flat, name) is None), None)
    if absent is not None:
        raise DatasetError(f"{absent} is missing: {REQUIRED[absent]}")
    columns = {name: tree_at(flat, name) for name in Columns._fields}
    return Columns(**(columns | {"extras": columns["extras"] or {}}))  # pyrefly: ignore


def tree_at(flat: Flat, name: str) -> Arrays | None:
    inside = {key.removeprefix(f"{name}/"): leaf for key, leaf in flat.items() if key.startswith(f"{name}/")}
    if inside and name in flat:
        raise DatasetError(f"{name} is there both as one array and as {name}/{next(iter(inside))}: keep one of them")
    return inside or flat.get(name)


def rename(names: list[str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """Returns a dict from our column names to a file's `names`, and a tuple of those `names` that are not used.

    Raises a DatasetError if two names mean the same column, or if there is `done` and no `terminated`.
    """
    used: dict[str, str] = {}
    for name in names:
        head, slash, tail = name.partition("/")
        ours = "log_prob" if name == "infos/action_log_probs" else ALIASES.get(head, head) + slash + tail
        if ours in used:
            raise DatasetError(f"{name} and {used[ours]} both mean {ours}: keep one of them")
        if ours.partition("/")[0] in Columns._fields:
            used[ours] = name
    ambiguous = next((name for name in names if name in AMBIGUOUS and "terminated" not in used), None)
    if ambiguous is not None:
        raise DatasetError(
            f"{ambiguous} does not say whether an episode terminated or was cut: store terminated and truncated apart"
        )
    return used, tuple(name for name in names if name not in used.values())


def numbered(names: list[str]) -> dict[str, list[str]]:
    """Returns lists of names such as `obs_0`, `obs_1`, in order, by their common part, which names a column (`obs`).

    Raises a DatasetError if a number is missing. Other names are left out, and so are all of a column that is there
    under the common part itself.
    """
    groups: dict[str, dict[int, str]] = {}
    for name in names:
        if match := re.fullmatch(r"(.+?)[_.](\d+)", name):
            groups.setdefault(match[1], {})[int(match[2])] = name
    found = {}
    for head, parts in groups.items():
        if ALIASES.get(head, head) not in Columns._fields or head in names:
            continue
        missing = set(range(len(parts))) - set(parts)
        if missing:
            raise DatasetError(
                f"{head}_{min(missing)} is missing, and {parts[max(parts)]} is there: number the columns from 0 without a gap"
            )
        found[head] = [parts[number] for number in range(len(parts))]
    return found


def leaf_format(space: Space) -> tuple[tuple[int, ...], np.dtype]:
    """Returns the shape and dtype of one row of a space; raises a DatasetError for a Dict space."""
    if isinstance(space, Dict):
        raise DatasetError(f"{space} is nested: flatten the dictionary to one level")
    return space.shape, np.dtype(space.dtype)


def check_columns(columns: Columns, spec: Spec) -> Columns:
    """Returns the columns converted to the shapes and types of `spec`.

    Raises a DatasetError if one does not fit, there are no rows, or both `next_obs` and `last_obs` are given. Values
    are read only to convert them.
    """
    reward = as_array("reward", columns.reward)
    rows = len(reward) if reward.ndim else 0
    if rows == 0:
        raise DatasetError("reward has no rows: a dataset needs at least one step")
    if columns.next_obs is not None and columns.last_obs is not None:
        raise DatasetError("next_obs and last_obs are both given: keep next_obs (one row per step), drop last_obs")
    bad = next(
        (key for key in (*observation_keys(columns.obs), *columns.extras) if not re.fullmatch(r"[\w-]+", key)), None
    )
    if bad is not None:
        raise DatasetError(f"{bad!r} cannot be the name of a column: use letters, digits, _ and - only")
    log_prob = columns.log_prob
    return Columns(
        fit_tree("obs", columns.obs, spec.obs, rows),
        fit("action", columns.action, *leaf_format(spec.action), rows),
        fit("reward", columns.reward, (), np.dtype(np.float32), rows),
        fit("terminated", columns.terminated, (), np.dtype(bool), rows),
        fit("truncated", columns.truncated, (), np.dtype(bool), rows),
        None if columns.next_obs is None else fit_tree("next_obs", columns.next_obs, spec.obs, rows),
        None if columns.last_obs is None else fit_tree("last_obs", columns.last_obs, spec.obs, None),
        None if log_prob is None else fit("log_prob", log_prob, (), np.dtype(np.float32), rows),
        {name: fit(f"extras/{name}", extra, None, None, rows) for name, extra in columns.extras.items()},
    )


def observation_keys(obs: Arrays) -> list[str]:
    return list(obs) if isinstance(obs, dict) else []


def fit_tree(name: str, tree: Arrays, space: Space, rows: int | None) -> Arrays:
    if isinstance(space, Dict) != isinstance(tree, dict) or (
        isinstance(space, Dict) and set(space.spaces) != set(observation_keys(tree))
    ):
        wanted = sorted(space.spaces) if isinstance(space, Dict) else "one array"
        given = sorted(tree) if isinstance(tree, dict) else "one array"
        raise DatasetError(f"{name} is {given} where the spec says {wanted}: give the same keys, or another spec")
    if isinstance(space, Dict) and isinstance(tree, dict):
        return {key: fit(f"{name}/{key}", tree[key], *leaf_format(leaf), rows) for key, leaf in space.spaces.items()}
    return fit(name, tree, *leaf_format(space), rows)  # pyrefly: ignore


def as_array(name: str, column: object) -> np.ndarray:
    """Returns `column` as a numpy array of numbers or truth values.

    Raises a DatasetError, with `name`, if it holds anything else or rows of different shapes.
    """
    try:
        array = np.asarray(column)
    except (ValueError, TypeError, RuntimeError) as error:  # rows of different lengths; tensors of a GPU
        raise DatasetError(f"{name} is no array of numbers ({error}): give every row the same length") from error
    if array.dtype.kind not in "biuf":
        raise DatasetError(f"{name} holds {array.dtype}, not numbers of one kind: convert it to a plain array")
    return array


def fit(
    name: str, column: np.ndarray, shape: tuple[int, ...] | None, dtype: np.dtype | None, rows: int | None
) -> np.ndarray:
    """Returns `column` as an array of `rows` rows of this shape and dtype; None for one of them means any.

    Raises a DatasetError, with `name`, if the number or shape of its rows is another, or its values do not fit the
    dtype.
    """
    column = as_array(name, column)
    if rows is not None and (not column.ndim or len(column) != rows):
        given = len(column) if column.ndim else "no"
        raise DatasetError(f"{name} has {given} rows and reward {rows}: every column needs one row per step")
    if shape is not None and column.shape[1:] != shape:
        raise DatasetError(
            f"{name} has rows of shape {column.shape[1:]} where {shape} is expected: reshape it, or pass the right spec"
        )
    return column if dtype is None or column.dtype == dtype else cast(name, column, dtype)


def cast(name: str, column: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Returns a column as type `dtype`; raises a DatasetError if values that are not whole or fit would change.

    Conversions to float types may round.
    """
    if dtype.kind == "f":
        with np.errstate(over="ignore"):  # what does not fit becomes infinite and is refused as such
            return column.astype(dtype)
    low, high = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    exact = (column == np.floor(column)) & (column >= low) & (column <= high)
    if not exact.all():
        row = int(np.argwhere(~exact)[0][0])
        kind = "true or false" if dtype.kind == "b" else f"whole numbers ({dtype})"
        raise DatasetError(
            f"{name} is {column.dtype} with {column[row]} in row {row} where {kind} are needed: convert it"
        )
    return column.astype(dtype)


def infer_spec(obs: Arrays, action: np.ndarray) -> Spec:
    """Guesses the spaces from the data; raises a DatasetError if that is impossible.

    Observations get no bounds, continuous actions [-1, 1] or the wider range of the data; vectors of integers are
    choices counted from 0.
    """
    if isinstance(obs, dict):
        return Spec(Dict({key: infer_space(f"obs/{key}", leaf) for key, leaf in obs.items()}), infer_action(action))
    return Spec(infer_space("obs", obs), infer_action(action))


def infer_space(name: str, column: np.ndarray) -> Leaf:
    column = as_array(name, column)
    if column.dtype.kind in "iu" and column.ndim == 1:
        return Discrete(count(name, column))
    if column.ndim < 2:
        raise DatasetError(f"{name} has shape {column.shape}: give it two dimensions, (steps, size)")
    shape = column.shape[1:]
    size = int(np.prod(shape))
    if column.ndim == 2 and (column.dtype.kind == "b" or name == "obs/action_mask"):
        return MultiBinary(size)
    if column.dtype == np.uint8 and column.ndim == IMAGE_DIMENSIONS:
        return Box(shape, (0.0,) * size, (255.0,) * size, "uint8")
    return Box(shape, (-np.inf,) * size, (np.inf,) * size)


def infer_action(column: np.ndarray) -> Leaf:
    column = as_array("action", column)
    if column.dtype.kind in "biu" and column.ndim == 2:
        if column.dtype.kind == "b":
            return MultiBinary(column.shape[1])
        return MultiDiscrete(tuple(count("action", choice) for choice in column.T))
    space = infer_space("action", column)
    if not isinstance(space, Box) or not len(column):
        return space
    finite = np.where(np.isfinite(column), column, 0).reshape(len(column), -1)
    low, high = np.minimum(finite.min(0), -1.0), np.maximum(finite.max(0), 1.0)
    return Box(space.shape, tuple(map(float, low)), tuple(map(float, high)))


def count(name: str, column: np.ndarray) -> int:
    if len(column) and column.min() < 0:
        raise DatasetError(
            f"{name} holds {column.min()}: count choices from 0, or pass a spec that says where they start"
        )
    return int(column.max()) + 1 if len(column) else 1
