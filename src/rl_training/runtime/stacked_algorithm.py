"""Several algorithms of one kind as one algorithm, and their policies as one policy."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from rl_training.core import Act, Algorithm, BatchT, Metrics, Pass, Policy, Scheduled, Step, Transition, Tree, tree_map
from rl_training.core.members import Members, stack
from rl_training.core.noise import NoiseRequest, noise_like, provided_noise, recorded_requests
from rl_training.core.policy import Memory
from rl_training.runtime.compilation import UpdateStep, build_update
from rl_training.runtime.executors import ExecutionMode, Executor
from rl_training.runtime.phases import Phase
from rl_training.runtime.progress import Methods


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
        self.policy = StackedPolicy(self.one.policy, self.together)
        theirs = zip(*(schedules(member) for member in members), strict=True)
        self.moved = [pair for pair in zip(schedules(self.one), theirs, strict=True) if moves(pair[1])]
        for a_pass in self.passes():
            for method in (a_pass.method, *(extra.method for extra in a_pass.periodic)):
                setattr(self, method, getattr(self.one, method))  # they take batches [member, ...]

    def prepare(self, rollout: Transition) -> tuple[BatchT, Metrics]:
        """Returns batches [member, time, env] and metrics [member] for steps [member, time, env]."""
        return self.together.each(self.one.prepare, rollout)

    def passes(self) -> tuple[Pass, ...]:
        return self.one.passes()

    def update(self, batch: BatchT) -> Step:
        return self.one.update(batch)

    def set_progress(self, progress: float) -> None:
        for together, theirs in self.moved:
            values = [one.schedule.at(progress) for one in theirs]
            if len(set(values)) == 1:
                together.value.fill_(values[0])
            else:
                together.value.copy_(torch.tensor(values))


def schedules(algorithm: Algorithm) -> list[Scheduled]:
    return [module for module in algorithm.modules() if isinstance(module, Scheduled)]


def moves(members: Sequence[Scheduled]) -> bool:
    return any(one.schedule.changes for one in members)


class StackedPolicy(Policy):
    """The policies of a stack as one: its rows are those of the first member, then those of the second, and so on."""

    def __init__(self, policy: Policy, members: Members) -> None:
        """`policy` is that of a stack, with tensors [member, ...], or one that is the same for all."""
        self.squashed = policy.squashed
        super().__init__(policy.spec)
        self.to(policy.device)
        self.stacked, self.members = policy, members
        self.asked: tuple[NoiseRequest, ...] = ()  # the random numbers that one member's step takes

    def note_requests(self, obs: Tree) -> None:
        """Notes the random numbers that a member's step takes, for observations [member * env, ...]."""
        seen = tree_map(lambda x: x.unflatten(0, (self.members.number, -1)), obs)
        with recorded_requests() as asked, torch.no_grad():
            self.members.each(self.stacked.act, seen)
        self.asked = tuple(asked)

    def act(self, obs: Tree, memory: Memory = (), first: Tensor | None = None, *, explore: bool = True) -> Act:
        number = self.members.number
        seen = tree_map(lambda x: x.unflatten(0, (number, -1)), obs)
        numbers = tuple(noise_like(asked.kind, self.anchor) for asked in self.asked)  # [member, ...] each
        return tree_map(lambda x: x.flatten(0, 1), self.members.each(self.act_once, seen, numbers))

    def act_once(self, obs: Tree, numbers: tuple[Tensor, ...]) -> Act:
        with provided_noise(numbers):
            return self.stacked.act(obs)


class StackedExecutor(Executor):
    """The plain executor of a stack; the first update of each kind is eager, which notes what random numbers it takes."""

    algorithm: StackedAlgorithm  # pyrefly: ignore (narrower than the base)

    def __init__(self, algorithm: StackedAlgorithm, phase: Phase, execution: ExecutionMode) -> None:
        super().__init__(algorithm, phase, execution)
        self.begun: dict[Methods, UpdateStep] = {}

    def step_for(self, methods: Methods, a_pass: Pass) -> UpdateStep:
        if methods not in self.begun:
            self.begun[methods] = build_update(
                self.algorithm,
                self.experience,
                methods,
                compiled=False,
                device=self.execution.device,
                precision=self.execution.precision,
            )
            return self.begun[methods]
        # torch's generators, which draw on the CPU, are no part of compiled code
        if self.execution.device.type == "cpu" and any(self.algorithm.together.asked.values()):
            return self.begun[methods]
        return super().step_for(methods, a_pass)
