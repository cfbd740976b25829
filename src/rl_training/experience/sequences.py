"""Pieces of episodes of a fixed length, drawn from where steps are stored: [time, piece], time from the oldest step on.

An episode is cut into blocks, counted from its first step. A block is drawn by drawing any of its rows, so that every row
is learned from equally often. A piece begins `burn_in` steps before its block, or where the episode or what is stored of
it begins; what is before the block or after the end of the episode has weight 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from rl_training.core import Pass, StepBatch, tree_map


class Sequences(NamedTuple):
    """Lengths, in steps, of pieces of episodes that are drawn: of the piece, and of the burn-in before it."""

    length: int
    burn_in: int = 0

    def lay_out(self, age: Tensor, older: Tensor) -> Layout:
        """Returns which steps belong to the piece of an episode around each drawn row, as a `Layout` [time, piece].

        `age` [piece] is the number of steps since the row's episode began, `older` [piece] of stored rows before it.
        """
        block = age - age % self.length
        back = torch.minimum(age - (block - self.burn_in).clamp(min=0), older)
        offset = torch.arange(self.burn_in + self.length, device=age.device).unsqueeze(1) - back
        within = offset + (age - block)  # of the block
        return Layout(offset, (within >= 0) & (within < self.length), offset + age == 0)


class Layout(NamedTuple):
    """The steps of pieces of episodes around drawn rows, [time, piece]: offset from that row, and two masks.

    The masks say which steps are learned from, and at which an episode begins.
    """

    offset: Tensor  # steps from the drawn row
    counts: Tensor  # False before and after the block
    first: Tensor  # where the episode begins

    def finish(self, batch: StepBatch, inside: Tensor) -> StepBatch:
        """Returns a batch of rows [time * piece, ...] as [time, piece, ...], with a mask `first` of episode starts.

        `first` is added to `columns`. Weights become 0 in the burn-in, and where `inside` [time, piece], a mask of the
        episode's stored steps, is False.
        """
        batch = tree_map(lambda column: column.unflatten(0, inside.shape), batch)
        weight = batch.weight * (self.counts & inside)
        return batch._replace(weight=weight, columns=batch.columns | {"first": self.first & inside})


def wanted_sequences(passes: Sequence[Pass]) -> Sequences | None:
    """Returns the length and burn-in of the sequences that an algorithm's passes draw; None if they draw single rows.

    Raises a ValueError if passes differ, or if a batch size is not a multiple of the length.
    """
    wanted = {Sequences(p.length or 0, p.burn_in) if p.sequences else None for p in passes}
    if len(wanted) > 1:
        raise ValueError("passes over what is drawn must all want sequences of the same length, or all single rows")
    sequences = next(iter(wanted), None)
    for a_pass in passes if sequences is not None else ():
        if not a_pass.length or a_pass.batch_size is None or a_pass.batch_size % a_pass.length:
            raise ValueError(
                f"{a_pass} draws sequences, so it needs a length and a batch_size (in steps) that is a multiple of it: "
                "Pass(1, 1024, sequences=True, length=32)"
            )
    return sequences
