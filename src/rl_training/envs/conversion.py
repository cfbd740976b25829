"""Observations from numpy to tensors: float32, uint8 for images, int64 for choices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rl_training.core import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Tree

NumpyTree = np.ndarray | dict[str, np.ndarray]


def to_tensors(obs: NumpyTree, space: Space) -> Tree:
    """Copies a batch of observations into tensors."""
    if isinstance(space, Dict):
        assert isinstance(obs, dict)
        return {key: to_tensor(obs[key], leaf) for key, leaf in space.spaces.items()}
    assert not isinstance(obs, dict)
    return to_tensor(obs, space)


def to_tensor(x: np.ndarray, space: Space) -> Tensor:
    if isinstance(space, Box):
        return torch.from_numpy(np.array(x, dtype=space.dtype))
    return torch.from_numpy(np.array(x, dtype=np.int64) - getattr(space, "start", 0))


def stack_rows(rows: Sequence[Any], space: Space) -> Tree:
    """Stacks single observations into one batch; a wrong shape is reported against the space."""
    if isinstance(space, Dict):
        return {key: stack_leaf([row[key] for row in rows], leaf) for key, leaf in space.spaces.items()}
    return stack_leaf(rows, space)


def stack_leaf(rows: Sequence[Any], space: Space) -> Tensor:
    shape = leaf_shape(space)
    try:
        batch = np.array(rows, dtype=space.dtype if isinstance(space, Box) else np.int64)
    except ValueError:  # rows of different shapes
        batch = np.empty(0)
    if batch.shape != (len(rows), *shape):
        wrong = next((np.shape(row) for row in rows if np.shape(row) != shape), None)
        raise ValueError(
            f"the environment returned an observation of shape {wrong}, but its observation space says {shape}: "
            "correct `observation_space` or what `step` and `reset` return"
        )
    start = getattr(space, "start", 0)
    return torch.from_numpy(batch - start if start else batch)


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
