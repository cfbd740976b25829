"""Who learns together: each has its share of the environments and of every batch, and all have the same parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

TINY = torch.finfo(torch.float32).tiny


class Workers:
    """This process alone, for whom everything that is said of all workers is what it has itself."""

    number: int = 1
    rank: int = 0  # which of them this is; the first records the run
    here: int = 1  # how many of them share this machine

    def rows(self, total: int) -> range:
        """Which of so many, which all workers share equally, are this one's."""
        each = total // self.number
        return range(self.rank * each, (self.rank + 1) * each)

    def sum(self, x: Tensor) -> Tensor:
        """The sum over all workers, with the same bits for each of them."""
        return x

    def largest(self, x: Tensor) -> Tensor:
        """Element by element, the largest of any worker."""
        return x

    def of_first(self, x: Tensor) -> Tensor:
        """What the first worker has."""
        return x

    @torch.no_grad()
    def means(self, means: Sequence[Tensor], weight: Tensor) -> Sequence[Tensor]:
        """Turns means over the rows of this worker's batch into means over everybody's, in one message.

        `weight` is that of the rows: who has more rows that count, counts for more.
        """
        if self.number == 1:
            return means
        mine = weight.sum(dtype=torch.float32)
        flat = torch.cat([*(x.reshape(-1).to(mine.dtype) * mine for x in means), mine.reshape(1)])
        total = self.sum(flat)
        parts = (total[:-1] / total[-1].clamp(min=TINY)).split([x.numel() for x in means])
        return [part.view_as(x).to(x.dtype) for part, x in zip(parts, means, strict=True)]

    def mean(self, mean: Tensor, weight: Tensor) -> Tensor:
        """The same for one of them."""
        return self.means([mean], weight)[0]

    def exchange(self, said: list) -> list[list]:
        """What every worker says, in their order: lists of JSON values."""
        return [said]

    def meet(self, stop: bool, part: Callable[[], dict]) -> bool:
        """Lets all go on together once the first does, and says whether it wants to stop.

        Until then the others wait, and give the first their `part` of the state whenever it asks.
        """
        return stop

    def other_parts(self) -> list[dict]:
        """What the other workers have of the state, for the first, while they wait in `meet`."""
        return []


ALONE = Workers()
JOINED: list[Workers] = [ALONE]


def workers_of_this_process() -> Workers:
    """With whom agents that are made now will learn."""
    return JOINED[-1]


@contextmanager
def joined(workers: Workers) -> Iterator[Workers]:
    """Lets agents that are made inside learn together with those of other workers."""
    JOINED.append(workers)
    try:
        yield workers
    finally:
        JOINED.pop()
