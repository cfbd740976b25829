"""The rollouts of several members as one store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from rl_training.core import Algorithm, BatchT, Metrics, Pass, Transition, tree_map
from rl_training.experience import Experience, Rollout
from rl_training.experience.base import Prepare
from rl_training.runtime.stacked_numbers import MemberNumbers


class StackedRollout(Experience[BatchT, BatchT]):
    """The rollouts of a stack as one; batches have a first dimension [member], and every member an order of its own."""

    on_policy = True

    def __init__(self, members: Sequence[Rollout], numbers: MemberNumbers) -> None:
        super().__init__(members[0].device)
        self.members, self.number, self.numbers = members, len(members), numbers
        self.collected: Transition | None = None
        self.num_samples = 0  # of a member
        self.epochs: list[int] = []  # of this iteration, by member: none follows after it has stopped
        self.stop = torch.zeros(self.number, dtype=torch.bool)

    @property
    def wanted_steps(self) -> int:
        return self.members[0].n_steps if self.collected is None else 0

    def steps_between(self, num_envs: int) -> int:
        return self.members[0].n_steps

    def write(self, steps: Transition) -> None:
        self.collected = steps

    def prepare(self, algorithm: Algorithm, run: Prepare | None = None) -> tuple[BatchT, Metrics]:
        assert self.collected is not None
        self.epochs, self.stop = [0] * self.number, algorithm.stop
        steps = tree_map(lambda x: x.unflatten(1, (self.number, -1)).movedim(1, 0), self.collected)
        batch, metrics = (run or algorithm.prepare)(steps)
        self.num_samples = batch.weight[0].numel()
        return tree_map(lambda x: x.flatten(0, 2), batch), metrics

    def num_batches(self, a_pass: Pass, num_samples: int) -> int:
        return self.members[0].num_batches(a_pass, num_samples // self.number)

    def draws(self, a_pass: Pass) -> Iterator[Iterator[Tensor]]:
        stopped = self.stop
        for _ in range(a_pass.rounds):
            if self.device.type == "cpu":  # members that have stopped go on to the next iteration with what is left
                stopped = self.stop.clone()
                self.epochs = [done + (not ended) for done, ended in zip(self.epochs, stopped.tolist(), strict=True)]
            order = self.numbers.orders(self.num_samples, stopped)
            yield iter(order.split(a_pass.batch_size or self.num_samples, 1))

    def gather(self, storage: BatchT, draw: Tensor) -> BatchT:
        """Returns batches [member, batch] of the rows with each member's indices `draw`, [member, batch]."""
        rows = (draw + torch.arange(self.number, device=draw.device).unsqueeze(1) * self.num_samples).flatten()
        return tree_map(lambda x: x.index_select(0, rows).unflatten(0, draw.shape), storage)

    def settle(self, algorithm: Algorithm) -> None:
        self.collected = None

    def cut(self, envs: Tensor | None = None) -> None:
        raise TypeError("the members of a stack cut their own rollouts")

    def state_dict(self) -> dict:
        raise TypeError("the members of a stack save their own rollouts")

    def load_state_dict(self, state: dict) -> None:
        raise TypeError("the members of a stack load their own rollouts")
