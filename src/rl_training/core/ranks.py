"""Workers that train together: each has a share of the environments and batches; all have the same parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

TINY = torch.finfo(torch.float32).tiny


class Workers:
    """A single worker: every collective operation returns its input. Subclasses connect several processes."""

    number: int = 1
    rank: int = 0  # which of them this is; the first records the run
    here: int = 1  # how many of them share this machine

    def rows(self, total: int) -> range:
        """Returns the slice of `total` rows that belongs to this worker; all workers have equally many."""
        each = total // self.number
        return range(self.rank * each, (self.rank + 1) * each)

    def sum(self, x: Tensor) -> Tensor:
        """Returns the sum over all workers, bit for bit the same on each of them."""
        return x

    def largest(self, x: Tensor) -> Tensor:
        """Returns the elementwise maximum over all workers."""
        return x

    def of_first(self, x: Tensor) -> Tensor:
        """Returns the tensor of the first worker."""
        return x

    @torch.no_grad()
    def means(self, means: Sequence[Tensor], weight: Tensor) -> Sequence[Tensor]:
        """Turns means over the rows of this worker's batch into means over the rows of all workers, in one message.

        `weight` holds the weights of this worker's rows; a worker counts in proportion to their sum.
        """
        if self.number == 1:
            return means
        mine = weight.sum(dtype=torch.float32)
        flat = torch.cat([*(x.reshape(-1).to(mine.dtype) * mine for x in means), mine.reshape(1)])
        total = self.sum(flat)
        parts = (total[:-1] / total[-1].clamp(min=TINY)).split([x.numel() for x in means])
        return [part.view_as(x).to(x.dtype) for part, x in zip(parts, means, strict=True)]

    def mean(self, mean: Tensor, weight: Tensor) -> Tensor:
        """Turns one mean over this worker's rows into the mean over the rows of all workers, as `means` does."""
        return self.means([mean], weight)[0]

    def exchange(self, said: list) -> list[list]:
        """Returns the lists of JSON values of all workers, in the order of their ranks."""
        return [said]

    def meet(self, stop: bool, part: Callable[[], dict]) -> bool:
        """Waits until the first worker continues, and returns on every worker if the first one wants to stop.

        While the others wait, they send the first their `part` of the state whenever it asks.
        """
        return stop

    def other_parts(self) -> list[dict]:
        """Returns to the first worker the other workers' parts of the state, while they wait in `meet`."""
        return []


ALONE = Workers()
JOINED: list[Workers] = [ALONE]


def workers_of_this_process() -> Workers:
    """Returns the workers that agents created now will train with."""
    return JOINED[-1]


@contextmanager
def joined(workers: Workers) -> Iterator[Workers]:
    """Makes agents that are created inside the `with` block train together with those of other workers."""
    JOINED.append(workers)
    try:
        yield workers
    finally:
        JOINED.pop()
