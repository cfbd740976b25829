"""Passes: the parts of a training iteration, as an algorithm declares them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Periodic:
    """The name of a further method to call with a batch, and the number of updates or env steps from call to call."""

    method: str
    every: int
    unit: Literal["updates", "env_steps"] = "updates"

    def __post_init__(self) -> None:
        check_count(self, "every")
        if self.unit not in ("updates", "env_steps"):
            raise ValueError(
                f"Periodic({self.method!r}).unit={self.unit!r} is not a unit: use 'updates' or 'env_steps'"
            )


@dataclass(frozen=True)
class Pass:
    """A part of a training iteration: its number of rounds, the batch size, and its method's name."""

    rounds: int  # a round is one epoch of a rollout, or one batch from a replay or data
    batch_size: int | None  # None: the whole rollout at once
    method: str = "update"  # the algorithm's method that takes the batches
    periodic: tuple[Periodic, ...] = ()  # in this order, after `method`, in one compiled step with it
    sequences: bool = False  # True: batches are [time, sequence] pieces of episodes, padded with weight 0
    length: int | None = None  # of pieces that are drawn from a replay or data; batch_size counts their steps
    burn_in: int = 0  # steps before such a piece, with weight 0
    one_graph: bool = True  # False: shapes vary, or second derivatives are taken; such a step is not compiled

    def __post_init__(self) -> None:
        check_count(self, "rounds")
        check_count(self, "burn_in", least=0)
        if self.batch_size is not None:
            check_count(self, "batch_size")
        if self.length is not None:
            check_count(self, "length")


def check_count(owner: Periodic | Pass, field: str, *, least: int = 1) -> None:
    """Raises a ValueError if the attribute `field` of `owner` is not an int (bools are none) of at least `least`."""
    number = getattr(owner, field)
    if not isinstance(number, int) or isinstance(number, bool) or number < least:
        kind = type(owner).__name__
        raise ValueError(f"{kind}({owner.method!r}).{field}={number!r} must be a whole number, at least {least}")
