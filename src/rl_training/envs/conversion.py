"""Conversion of observations from numpy to tensors: float32, uint8 for images, int64 for choices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rl_training.core import Box, Dict, Discrete, Leaf, Space, Tree, owned
from rl_training.core.spaces import choices

FEW = 64  # numbers that Python compares faster than numpy
NumpyTree = np.ndarray | dict[str, np.ndarray]


def to_tensors(obs: NumpyTree, space: Space, num: int) -> Tree:
    """Copies `num` observations, numpy arrays [num, ...], into a tensor, or a dict of tensors for a Dict space.

    Raises a ValueError if shapes or types do not fit `space`.
    """
    if isinstance(space, Dict):
        return {key: to_batch(pick(obs, key), leaf, num) for key, leaf in space.spaces.items()}
    return to_batch(obs, space, num)


def stack_rows(rows: Sequence[Any], space: Space) -> Tree:
    """Stacks single observations into a tensor [len(rows), ...], or a dict of such tensors for a Dict space.

    Raises a ValueError if shapes or types do not fit `space`.
    """
    if isinstance(space, Dict):
        return {key: to_batch([pick(row, key) for row in rows], leaf, len(rows)) for key, leaf in space.spaces.items()}
    return to_batch(rows, space, len(rows))


def to_batch(rows: Any, space: Leaf, num: int) -> Tensor:
    """Returns `num` observations as one tensor [num, ...], from an array [num, ...] or a sequence of observations.

    Raises a ValueError if shapes or types do not fit `space`.
    """
    shape = space.shape
    plain = isinstance(space, Box) and space.dtype == "float32"
    try:
        batch = np.array(rows, dtype=np.float32 if plain else None)
    except (TypeError, ValueError):  # rows of different shapes, or no numbers
        batch = np.empty(0)
    if batch.dtype.kind not in "iubf" or batch.shape != (num, *shape):
        given = rows if isinstance(rows, list | tuple) or shape_of(rows) else [rows]
        wrong = next((row for row in given if shape_of(row) != shape), given[0] if len(given) == num else rows)
        raise wrong_observation(wrong, shape_of(wrong), shape)
    return owned(torch.from_numpy(batch if plain else to_whole(batch, space)))


def to_whole(batch: np.ndarray, space: Leaf) -> np.ndarray:
    """Returns a batch [num, ...] as int64 choices counted from 0, or as uint8 bytes if `space` is a Box of images.

    Raises a ValueError for fractions and for numbers outside `space`.
    """
    dtype, start, nums = (np.uint8, 0, 256) if isinstance(space, Box) else (np.int64, *choices(space))
    if batch.dtype == np.uint8 and dtype is np.uint8:
        return batch
    if isinstance(space, Discrete) and batch.dtype == np.int64 and 0 < batch.size <= FEW:
        values = batch.tolist()
        if min(values) >= start and max(values) < start + space.num:
            return batch - start if start else batch
    numbers = batch.astype(np.int64)
    if batch.dtype.kind == "f" and (numbers != batch).any():
        numbers = np.where(numbers == batch, numbers, start - 1)
    numbers = numbers - start if start else numbers
    beyond = numbers.view(np.uint64) >= np.asarray(nums, np.uint64)  # one comparison: what is negative becomes huge
    if beyond.any():
        kind = "bytes, whole numbers from 0 to 255" if isinstance(space, Box) else f"{space}"
        raise ValueError(
            f"the environment returned the observation {batch[beyond][0]}, but its observation space "
            f"says {kind}: correct `observation_space` or what `step` and `reset` return"
        )
    return numbers.astype(dtype, copy=False)


def check_numeric(rows: Sequence[Any], space: Space) -> None:
    """Raises a ValueError if one of the observations in `rows` holds text or objects instead of numbers.

    Observations whose shape does not fit `space` pass.
    """
    leaves = space.spaces if isinstance(space, Dict) else {"": space}
    for row in rows:
        for key in leaves:
            leaf = pick(row, key) if isinstance(space, Dict) else row
            if leaf is not None and shape_of(leaf) == leaves[key].shape and np.array(leaf).dtype.kind not in "iubf":
                raise ValueError(
                    f"the environment returned the observation {leaf!r}, which is not made of real numbers: correct what "
                    "`step` and `reset` return"
                )


def shape_of(row: Any) -> tuple[int, ...]:
    """Returns the shape of one observation, an array or nested lists; () if the lists differ in length."""
    try:
        return np.shape(row)
    except ValueError:
        return ()


def pick(obs: Any, key: str) -> Any:
    if not isinstance(obs, dict) or key not in obs:
        given = f"the keys {sorted(obs)}" if isinstance(obs, dict) else type(obs).__name__
        raise ValueError(
            f"the environment returned an observation with {given}, but its observation space has the key {key!r}: "
            "correct `observation_space` or what `step` and `reset` return"
        )
    return obs[key]


def wrong_observation(obs: Any, given: tuple[int, ...], shape: tuple[int, ...]) -> ValueError:
    return ValueError(
        f"the environment returned an observation of shape {given} ({type(obs).__name__}), but its observation space says "
        f"{shape}: correct `observation_space` or what `step` and `reset` return"
    )
