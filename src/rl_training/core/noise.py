"""Random numbers that policies and losses ask for, which others may draw beforehand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Literal, NamedTuple

import torch
from torch import Tensor

Kind = Literal["exponential", "normal", "uniform"]
Source = Callable[[Kind, Tensor], Tensor]
SOURCES: list[Source] = []  # of the innermost block; without one, torch's own generator


class NoiseRequest(NamedTuple):
    """A request for random numbers: their distribution, and how many of them in which shape."""

    kind: Kind
    shape: torch.Size

    def draw(self, generator: torch.Generator) -> Tensor:
        """Draws the numbers from a generator, the same as torch's own generator gives in the same state."""
        out = torch.empty(self.shape, device=generator.device)
        match self.kind:
            case "exponential":
                return out.exponential_(generator=generator)
            case "normal":
                return out.normal_(generator=generator)
            case "uniform":
                return out.uniform_(generator=generator)


def noise_like(kind: Kind, x: Tensor) -> Tensor:
    """Returns random numbers of the shape of `x`: those that were drawn beforehand, if there are any."""
    if SOURCES:
        return SOURCES[-1](kind, x)
    match kind:
        case "exponential":
            return torch.empty_like(x).exponential_()
        case "normal":
            return torch.randn_like(x)
        case "uniform":
            return torch.rand_like(x)


def noise_is_provided() -> bool:
    """Says if requests are answered by what was drawn beforehand, instead of torch's own generator."""
    return len(SOURCES) > 0


@contextmanager
def provided_noise(numbers: Sequence[Tensor]) -> Iterator[None]:
    """Gives these numbers, one tensor for each request in the block, in their order."""
    left = list(numbers)
    SOURCES.append(lambda kind, x: left.pop(0))
    try:
        yield
    finally:
        SOURCES.pop()


@contextmanager
def recorded_requests() -> Iterator[list[NoiseRequest]]:
    """Lists the requests in the block, and answers them with ones; draws nothing."""
    requests: list[NoiseRequest] = []

    def note(kind: Kind, x: Tensor) -> Tensor:
        requests.append(NoiseRequest(kind, x.shape))
        return torch.ones_like(x)

    SOURCES.append(note)
    try:
        yield requests
    finally:
        SOURCES.pop()
