"""A tree of sums, by which rows are drawn by priority, and priorities changed, in a few vectorised operations."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor

WIDTH = 32  # children per node: four levels hold a million priorities
BELOW_ONE = 1 - 1e-12  # keeps a draw inside its block where rounding would put it on the edge
Levels = tuple[Tensor, ...]  # the priorities first, the root's children last; each [blocks, WIDTH]


def empty_tree(capacity: int, device: torch.device | str = "cpu") -> Levels:
    """Returns a tree of zeros for the priorities of `capacity` rows: a tuple of float64 tensors [blocks, 32].

    The first holds the priorities, each other one the sums of blocks of the one before, the last a single block.
    """
    levels, size = [], capacity
    for _ in range(9):
        size = -(-size // WIDTH)
        levels.append(torch.zeros(size, WIDTH, dtype=torch.float64, device=device))
        if size == 1:
            break
    return tuple(levels)


def write(levels: Levels, row: Tensor, priority: Tensor) -> None:
    """Sets the priorities of rows, in place, and recomputes the sums above them, so that rounding does not accumulate.

    `row` and `priority` are vectors of equal length.
    """
    levels[0].view(-1)[row] = priority.to(torch.float64)
    add_up(levels, row)


def add_up(levels: Levels, row: Tensor) -> None:
    """Recomputes the sums above rows whose priorities were changed, in place; also works on NumPy views."""
    for below, above in pairwise(levels):
        row = row // WIDTH
        above.reshape(-1)[row] = below[row].sum(-1)


def draw(levels: Levels, uniform: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the row indices that numbers in [0, 1) select, each with probability priority / total.

    The second result holds these probabilities. `uniform` and both results are vectors.
    """
    total = levels[-1].sum()
    left, priority = uniform * total, uniform
    block = torch.zeros_like(uniform, dtype=torch.long)
    for level in reversed(levels):
        children = level[block]
        sums = children.cumsum(-1)
        left = torch.minimum(left, sums[:, -1] * BELOW_ONE).unsqueeze(-1)
        child = (sums <= left).sum(-1, keepdim=True)
        priority = children.gather(1, child)
        left = (left - sums.gather(1, child) + priority).squeeze(-1).clamp(min=0)
        block = block * WIDTH + child.squeeze(-1)
    return block, priority.squeeze(-1) / total
