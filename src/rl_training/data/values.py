"""Checks and hashes that read all values of columns, in pieces, so that a mapped file is never loaded whole."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import numpy as np

from rl_training.core import Box, Discrete, MultiBinary, MultiDiscrete, Space, Spec
from rl_training.core.spaces import choices
from rl_training.data.columns import Columns, DatasetError, Flat, chunks, leaves

TOLERANCE = 1e-4  # of the width of a box: rounding is no fault


def content_hash(flat: Flat) -> str:
    """Returns the sha256 (hex) of the names, types, shapes and numbers of columns, independent of the file format."""
    digest = hashlib.sha256()
    for name in sorted(flat):
        column = flat[name]
        digest.update(f"{name} {column.dtype.str} {column.shape}\n".encode())
        for part in chunks(len(column)):
            digest.update(np.ascontiguousarray(column[part]).data)
    return digest.hexdigest()


def rows_where(column: np.ndarray, wrong: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Returns the numbers of the rows of `column` in which `wrong` is True for any element.

    `wrong` takes a part of the column and returns a mask of the same shape.
    """
    found = [
        np.flatnonzero(wrong(column[part]).reshape(part.stop - part.start, -1).any(1)) + part.start
        for part in chunks(len(column))
    ]
    return np.concatenate(found)


def rows_not_finite(column: np.ndarray) -> np.ndarray:
    return rows_where(column, lambda x: ~np.isfinite(x)) if column.dtype.kind == "f" else np.empty(0, np.int64)


def rows_outside(action: np.ndarray, space: Space) -> np.ndarray:
    """Returns the numbers of the rows of `action` with a value outside `space`; NaN counts as inside.

    Values may exceed the bounds of a Box by 0.01 % of its width.
    """
    low, high = bounds(space, action.shape[1:])
    return rows_where(action, lambda x: (x < low) | (x > high))


def bounds(space: Space, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Returns the lowest and highest value of every element of an action or observation of `space`.

    The bounds of a Box have `shape` and are widened by 0.01 % of its width. Raises a DatasetError for a Dict space.
    """
    match space:
        case Box():
            low, high = (np.array(bound).reshape(shape) for bound in (space.low, space.high))
            slack = np.where(np.isfinite(high - low), TOLERANCE * (high - low), 0.0)
            return low - slack, high + slack
        case Discrete() | MultiDiscrete() | MultiBinary():
            low, num = choices(space)
            return np.array(low), np.add(low, num) - 1
    raise DatasetError(f"actions cannot be {space}: use Box, Discrete, MultiDiscrete or MultiBinary")


def finite_columns(columns: Columns) -> Flat:
    """Returns the columns in which every number must be finite: observations, actions and rewards.

    They are arrays by names such as `obs` or `obs/position`.
    """
    observed = {n: c for n in ("obs", "next_obs", "last_obs") for n, c in leaves(n, getattr(columns, n)).items()}
    return observed | {"action": columns.action, "reward": columns.reward}


def is_mapped(array: object) -> bool:
    """Returns True if an array is a file mapped into memory, or a view of one."""
    return isinstance(array, np.memmap) or (isinstance(array, np.ndarray) and is_mapped(array.base))


def check_values(columns: Columns, spec: Spec) -> None:
    """Raises a DatasetError for observations, actions or rewards that are not finite; reads all columns.

    Also raises it for actions that are choices which the space does not have.
    """
    for name, column in finite_columns(columns).items():
        rows = rows_not_finite(column)
        if len(rows):
            raise DatasetError(
                f"{name} is not finite in row {rows[0]} ({len(rows)} such rows): repair them or leave their episodes out; "
                "`rl-training data lint FILE` lists them"
            )
    if not isinstance(spec.action, Box):
        rows = rows_outside(columns.action, spec.action)
        if len(rows):
            raise DatasetError(
                f"action is {columns.action[rows[0]]} in row {rows[0]}, which {spec.action} does not have: "
                "repair the rows, or pass the right spec"
            )


def differs(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Returns a mask [rows] of the rows that differ between two columns [rows, ...]; NaN equals NaN."""
    unequal = a != b
    if a.dtype.kind == "f":
        unequal &= ~(np.isnan(a) & np.isnan(b))
    return unequal.reshape(len(a), -1).any(1)
