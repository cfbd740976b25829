"""Ranks that train together: each has a share of the environments and batches; all have the same parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

TINY = torch.finfo(torch.float32).tiny


class Ranks:
    """A single rank: every collective operation returns its input. Subclasses connect several processes."""

    number: int = 1
    rank: int = 0  # which of them this is; the first records the run
    on_this_machine: int = 1  # how many of them run on this machine

    def rows(self, total: int) -> range:
        """Returns the slice of `total` rows that belongs to this rank; all ranks have equally many."""
        each = total // self.number
        return range(self.rank * each, (self.rank + 1) * each)

    def total(self, count: int) -> int:
        """Returns a count over all ranks of something of which each has `count`."""
        return count * self.number

    def sum(self, x: Tensor) -> Tensor:
        """Returns the sum over all ranks, bit for bit the same on each of them."""
        return x

    def largest(self, x: Tensor) -> Tensor:
        """Returns the elementwise maximum over all ranks."""
        return x

    def broadcast(self, tensors: Iterable[Tensor]) -> None:
        """Overwrites the tensors of every rank with those of the first."""

    @torch.no_grad()
    def means(self, means: Sequence[Tensor], weight: Tensor) -> Sequence[Tensor]:
        """Turns means over the rows of this rank's batch into means over the rows of all ranks, in one message.

        `weight` holds the weights of this rank's rows; a rank counts in proportion to their sum.
        """
        if self.number == 1:
            return means
        mine = weight.sum(dtype=torch.float32)
        flat = torch.cat([*(x.reshape(-1).to(mine.dtype) * mine for x in means), mine.reshape(1)])
        total = self.sum(flat)
        parts = (total[:-1] / total[-1].clamp(min=TINY)).split([x.numel() for x in means])
        return [part.view_as(x).to(x.dtype) for part, x in zip(parts, means, strict=True)]

    def mean(self, mean: Tensor, weight: Tensor) -> Tensor:
        """Turns one mean over this rank's rows into the mean over the rows of all ranks, as `means` does."""
        return self.means([mean], weight)[0]

    def exchange(self, said: list) -> list[list]:
        """Returns the lists of JSON values of all ranks, in the order of their ranks."""
        return [said]

    @property
    def exchange_is_free(self) -> bool:
        """True if `exchange_episodes` sends no message, and need not be saved for events."""
        return self.number == 1

    def exchange_episodes(self, own: list) -> list:
        """Returns the episodes of all ranks in the order in which they ended, from those of this rank."""
        return own

    def synchronize(self, stop: bool, part: Callable[[], dict]) -> bool:
        """Waits until the first rank continues, and returns on every rank if the first one wants to stop.

        While the others wait, they send the first their `part` of the state whenever it asks.
        """
        return stop

    def other_parts(self) -> list[dict]:
        """Returns to the first rank the other ranks' parts of the state, while they wait in `synchronize`."""
        return []


ALONE = Ranks()
JOINED: list[Ranks] = [ALONE]


def ranks_of_this_process() -> Ranks:
    """Returns the ranks that agents created now will train with."""
    return JOINED[-1]


@contextmanager
def joined(ranks: Ranks) -> Iterator[Ranks]:
    """Makes agents that are created inside the `with` block train together with those of other ranks."""
    JOINED.append(ranks)
    try:
        yield ranks
    finally:
        JOINED.pop()
