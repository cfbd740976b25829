"""Ranks that train together: each has a share of the environments and batches; all have the same parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

TINY = torch.finfo(torch.float32).tiny


class Ranks:
    """The processes (ranks) that train one policy together; this class is a single one, a subclass connects several."""

    number: int = 1
    rank: int = 0  # which of them this is; the first records the run
    on_this_machine: int = 1  # how many of them run on this machine

    def rows(self, total: int) -> range:
        """Returns the numbers of the rows, out of `total`, that belong to this rank; all ranks have equally many."""
        each = total // self.number
        return range(self.rank * each, (self.rank + 1) * each)

    def total(self, count: int) -> int:
        """Returns the number over all ranks of things of which every rank has `count`."""
        return count * self.number

    def sum(self, x: Tensor) -> Tensor:
        """Returns the elementwise sum over all ranks, bit for bit the same on each of them."""
        return x

    def largest(self, x: Tensor) -> Tensor:
        """Returns the elementwise maximum over all ranks."""
        return x

    def broadcast(self, tensors: Iterable[Tensor]) -> None:
        """Overwrites the tensors of every rank, in place, with those of the first rank."""

    @torch.no_grad()
    def means(self, means: Sequence[Tensor], weight: Tensor) -> Sequence[Tensor]:
        """Returns means over the rows of all ranks for `means` over this rank's rows, tensors of any shapes.

        `weight` holds the weights of this rank's rows; a rank counts in proportion to their sum. Sends one message.
        """
        if self.number == 1:
            return means
        mine = weight.sum(dtype=torch.float32)
        flat = torch.cat([*(x.reshape(-1).to(mine.dtype) * mine for x in means), mine.reshape(1)])
        total = self.sum(flat)
        parts = (total[:-1] / total[-1].clamp(min=TINY)).split([x.numel() for x in means])
        return [part.view_as(x).to(x.dtype) for part, x in zip(parts, means, strict=True)]

    def mean(self, mean: Tensor, weight: Tensor) -> Tensor:
        """Returns the mean over the rows of all ranks, for a mean over this rank's rows, weighted by `weight`."""
        return self.means([mean], weight)[0]

    def exchange(self, said: list) -> list[list]:
        """Sends a list of JSON values to all ranks and returns the lists of all of them, in the order of ranks."""
        return [said]

    @property
    def exchange_is_free(self) -> bool:
        """Says if `exchange_episodes` sends no message, so that there is no reason to call it rarely."""
        return self.number == 1

    def exchange_episodes(self, own: list) -> list:
        """Sends finished episodes to all ranks; returns those of all ranks in the order in which they ended."""
        return own

    def synchronize(self, stop: bool, part: Callable[[], dict]) -> bool:
        """Waits until the first rank calls it, too; returns on every rank the `stop` that the first one passed.

        While the other ranks wait, they send the first the result of `part()` whenever it calls `other_parts`.
        """
        return stop

    def other_parts(self) -> list[dict]:
        """Returns, on the first rank, the results of `part()` of others that wait in `synchronize`; [] if alone."""
        return []


ALONE = Ranks()
JOINED: list[Ranks] = [ALONE]


def ranks_of_this_process() -> Ranks:
    """Returns the ranks that agents created now train with: those of the innermost `joined` block, else `ALONE`."""
    return JOINED[-1]


@contextmanager
def joined(ranks: Ranks) -> Iterator[Ranks]:
    """Makes agents that are created inside the `with` block train together with those of other ranks."""
    JOINED.append(ranks)
    try:
        yield ranks
    finally:
        JOINED.pop()
