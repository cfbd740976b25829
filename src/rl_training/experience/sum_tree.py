"""Priorities that can be drawn from and changed in a few vectorised operations, however many there are."""

from __future__ import annotations

import torch
from torch import Tensor

WIDTH = 128  # children per node: three levels hold two million priorities
BELOW_ONE = 1 - 1e-12  # keeps a draw inside its block where rounding would put it on the edge


class SumTree:
    """Sums over blocks of WIDTH, over blocks of these, and so on. Sums are recomputed, never adjusted: no drift."""

    def __init__(self, capacity: int, *, device: torch.device | str = "cpu") -> None:
        self.levels: list[Tensor] = []  # the priorities first, the root's children last; each [blocks, WIDTH]
        size = capacity
        for _ in range(8):
            blocks = -(-size // WIDTH)
            self.levels.append(torch.zeros(blocks, WIDTH, dtype=torch.float64, device=device))
            size = blocks
            if blocks == 1:
                break
        self.capacity = capacity

    @property
    def priority(self) -> Tensor:
        return self.levels[0].view(-1)[: self.capacity]

    @property
    def total(self) -> Tensor:
        return self.levels[-1].sum()

    def write(self, row: Tensor, priority: Tensor) -> None:
        """Sets the priorities of rows and the sums above them."""
        self.levels[0].view(-1)[row] = priority.to(torch.float64)
        for below, above in zip(self.levels[:-1], self.levels[1:], strict=True):
            row = row // WIDTH
            above.view(-1)[row] = below[row].sum(-1)

    def draw(self, uniform: Tensor) -> tuple[Tensor, Tensor]:
        """Turns numbers in [0, 1) into rows, each with probability priority / total; returns both."""
        total = self.total
        left = uniform * total
        block = torch.zeros_like(uniform, dtype=torch.long)
        priority = left
        for level in reversed(self.levels):
            children = level[block]
            sums = children.cumsum(-1)
            left = torch.minimum(left, sums[:, -1] * BELOW_ONE)
            child = torch.searchsorted(sums, left[:, None], right=True)
            priority = children.gather(1, child).squeeze(1)
            left = left - (sums.gather(1, child).squeeze(1) - priority)
            block = block * WIDTH + child.squeeze(1)
        return block, priority / total

    def load(self, priority: Tensor) -> None:
        """Replaces all priorities."""
        everything = torch.arange(self.capacity, device=self.levels[0].device)
        self.write(everything, priority.to(everything.device))
