"""Several algorithms of one kind as one algorithm, and their policies as one policy."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from rl_training.core import Act, Algorithm, BatchT, Metrics, Pass, Policy, Step, Transition, Tree, tree_map
from rl_training.core.members import Members, stack
from rl_training.core.noise import Asked, ask, given, noted
from rl_training.core.policy import Memory


class StackedAlgorithm(Algorithm):
    """The members of a stack as one algorithm, whose batches, metrics and flags have a first dimension [member].

    The code of the method itself, its losses and estimates, runs unchanged: for one member, under `vmap`. The members'
    parameters, buffers and optimizers are views of this algorithm's.
    """

    policy: StackedPolicy  # pyrefly: ignore (narrower than the base, and never reassigned)

    def __init__(self, members: Sequence[Algorithm]) -> None:
        first = members[0]
        super().__init__(first.config, first.spec)
        self.one = stack(members)
        self.together = Members(self.one, len(members))
        self.one.stack = self.together
        self.one.fixed_shapes = True  # shapes that depend on a member's values would differ between members
        self.stop, self.failed = self.one.stop, self.one.failed
        self.policy = StackedPolicy(first.policy, self.one.policy, self.together)

    def prepare(self, rollout: Transition) -> tuple[BatchT, Metrics]:
        """Returns batches [member, time, env] and metrics [member] for steps [member, time, env]."""
        return self.together.each(self.one.prepare, rollout)

    def passes(self) -> tuple[Pass, ...]:
        return self.one.passes()

    def update(self, batch: BatchT) -> Step:
        return self.one.update(batch)


class StackedPolicy(Policy):
    """The policies of a stack as one: its rows are those of the first member, then those of the second, and so on."""

    def __init__(self, first: Policy, stacked: Policy, members: Members) -> None:
        self.squashed = first.squashed
        super().__init__(first.spec)
        self.to(first.device)
        self.stacked, self.members = stacked, members
        self.asked: list[Asked] = []  # the random numbers that one member's step takes

    def note_requests(self, policy: Policy, obs: Tree) -> None:
        """Notes the random numbers that a member's policy takes for its observations."""
        with noted() as self.asked, torch.no_grad():
            policy.act(obs)

    def act(self, obs: Tree, memory: Memory = (), first: Tensor | None = None, *, explore: bool = True) -> Act:
        number = self.members.number
        seen = tree_map(lambda x: x.unflatten(0, (number, -1)), obs)
        numbers = tuple(ask(asked.kind, self.anchor) for asked in self.asked)  # [member, ...] each
        return tree_map(lambda x: x.flatten(0, 1), self.members.each(self.act_once, seen, numbers))

    def act_once(self, obs: Tree, numbers: tuple[Tensor, ...]) -> Act:
        with given(numbers):
            return self.stacked.act(obs)
