"""Trees of tensors in memory that processes share."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor

from rl_training.core import tree_map

ALIGNMENT = 64  # bytes; what torch aligns its own memory to
TreeT = TypeVar("TreeT")


@dataclass(frozen=True)
class TensorSlice:
    """The place of a tensor in shared memory: offset in bytes, shape and type."""

    offset: int
    shape: tuple[int, ...]
    dtype: torch.dtype

    def view(self, memory: Any) -> Tensor:
        count = math.prod(self.shape)
        if not count:
            return torch.empty(self.shape, dtype=self.dtype)
        return torch.frombuffer(memory, dtype=self.dtype, count=count, offset=self.offset).view(self.shape)


class Layout:
    """A plan of which tensor lies where in one piece of shared memory; `size` is its length in bytes."""

    def __init__(self) -> None:
        self.size = 0  # bytes so far

    def add(self, tree: TreeT, *leading: int) -> TreeT:
        """Plans memory for tensors of the shapes and types in `tree`, with dimensions `leading` put in front.

        Returns a tree of `TensorSlice`s, their places.
        """

        def allocate(like: Tensor) -> TensorSlice:
            found = TensorSlice(self.size, (*leading, *like.shape), like.dtype)
            size = math.prod(found.shape) * like.element_size()
            self.size += math.ceil(size / ALIGNMENT) * ALIGNMENT
            return found

        return tree_map(allocate, tree)  # pyrefly: ignore[bad-argument-type]  (leaves that stand for tensors)


def views(slices: TreeT, memory: Any) -> TreeT:
    """Returns a tree of tensors that share `memory`, one for each `TensorSlice` of the tree `slices`."""
    return tree_map(lambda one: one.view(memory), slices)
