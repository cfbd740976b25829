"""Observations from numpy to tensors: float32, uint8 for images, int64 for choices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rl_training.core import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Tree, owned

NumpyTree = np.ndarray | dict[str, np.ndarray]


def to_tensors(obs: NumpyTree, space: Space, num: int) -> Tree:
    """Copies a batch of `num` observations into tensors; a wrong shape is reported against the space."""
    if isinstance(space, Dict):
        return {key: to_batch(pick(obs, key), leaf, num) for key, leaf in space.spaces.items()}
    return to_batch(obs, space, num)


def to_batch(x: Any, space: Space, num: int) -> Tensor:
    shape = leaf_shape(space)
    if np.shape(x) != (num, *shape):
        raise wrong_observation(x, np.shape(x)[1:], shape)
    return to_tensor(x, space)


def to_tensor(x: np.ndarray, space: Space) -> Tensor:
    if isinstance(space, Box):
        return owned(torch.from_numpy(np.array(x, dtype=space.dtype)))
    return owned(torch.from_numpy(np.array(x, dtype=np.int64) - getattr(space, "start", 0)))


def stack_rows(rows: Sequence[Any], space: Space) -> Tree:
    """Stacks single observations into one batch; a wrong shape is reported against the space."""
    if isinstance(space, Dict):
        return {key: stack_leaf([pick(row, key) for row in rows], leaf) for key, leaf in space.spaces.items()}
    return stack_leaf(rows, space)


def stack_leaf(rows: Sequence[Any], space: Space) -> Tensor:
    shape = leaf_shape(space)
    try:
        batch = np.array(rows, dtype=space.dtype if isinstance(space, Box) else np.int64)
    except (TypeError, ValueError):  # rows of different shapes, or no numbers
        batch = np.empty(0)
    if batch.shape != (len(rows), *shape):
        wrong = next((row for row in rows if np.shape(row) != shape), rows[0])
        raise wrong_observation(wrong, np.shape(wrong), shape)
    start = getattr(space, "start", 0)
    return owned(torch.from_numpy(batch - start if start else batch))


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


def leaf_shape(space: Space) -> tuple[int, ...]:
    """The shape of one observation or action of a space."""
    match space:
        case Box():
            return space.shape
        case MultiDiscrete():
            return (len(space.nums),)
        case MultiBinary():
            return (space.num,)
        case Discrete():
            return ()
    raise ValueError(f"{space} has no single shape")
