"""The memory that a learner shares with its sampler processes: requests, blocks, and signs of life."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from multiprocessing.context import BaseContext
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rl_training.core import Transition, tree_leaves, tree_map
from rl_training.distributed.messages import Block, Carry, Request, SamplingMode
from rl_training.distributed.shared_tensors import Layout, views

MOST_BYTES = 64 * 2**20  # of steps in one slot
MOST_STEPS = 512


class Written(NamedTuple):
    """The tensors of one sampler's answer in shared memory: steps, observations after them, random state.

    Without the parts of the answer that are small, which are sent through a pipe.
    """

    steps: Transition
    carry: Carry
    random: Tensor


class Slot(NamedTuple):
    """The tensors in shared memory of one request (weights, random state) and of every sampler's answer to it."""

    weights: tuple[Tensor, ...]
    random: Tensor
    blocks: tuple[Written, ...]  # of every sampler


class Published(NamedTuple):
    """A request as sent to a sampler through its pipe: a slot's number, and the settings of the steps to take.

    The slot, in shared memory, holds the request's tensors.
    """

    slot: int
    sampling: SamplingMode


class Memory:
    """A piece of shared memory for requests and samplers' answers; can be passed to a process when that is started."""

    def __init__(
        self,
        context: BaseContext,
        request: Request,
        block: Block,
        rows: Sequence[range],
        slots: int,
        fragment: int,
    ) -> None:
        """Allocates `slots` slots, each for one request and its answers: `fragment` or more steps of all environments.

        `rows` has the range of environments of each sampler. `request` and `block` (an answer), of one step in one
        environment, show shapes and types.
        """
        row = tree_map(lambda x: x[0, 0], block.steps)
        step = sum(x.element_size() * x.numel() for x in tree_leaves(row)) * rows[-1].stop
        self.capacity = max(fragment, min(MOST_STEPS, MOST_BYTES // step))
        layout = Layout()
        self.beat_slices = layout.add(torch.zeros((), dtype=torch.int64), len(rows))
        self.slot_slices = [
            Slot(
                layout.add(request.weights),
                layout.add(request.random),
                tuple(
                    Written(
                        layout.add(row, self.capacity, len(own)),
                        layout.add(tree_map(lambda x: x[0], block.carry), len(own)),
                        layout.add(block.random),
                    )
                    for own in rows
                ),
            )
            for _ in range(slots)
        ]
        self.raw: Any = context.RawArray(ctypes.c_byte, layout.size)

    @property
    def beats(self) -> Tensor:
        """Returns the number of steps each sampler has begun, [sampler]: shared memory that samplers count up."""
        return views(self.beat_slices, self.raw)

    @property
    def slots(self) -> list[Slot]:
        return [views(slices, self.raw) for slices in self.slot_slices]
