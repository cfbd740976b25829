"""The environments of several members as one, and their steps by one policy."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from rl_training.core import Policy, Transition, Tree, tree_map
from rl_training.core.noise import provided_noise
from rl_training.envs import NativeEnv
from rl_training.envs.episode_columns import EpisodeColumns
from rl_training.runtime.compilation import compile_graph
from rl_training.runtime.native_collector import Block, Counts, Draws, NativeCollector, count_episodes
from rl_training.runtime.stacked_algorithm import StackedPolicy
from rl_training.runtime.stacked_numbers import MemberNumbers
from rl_training.runtime.worth_compiling import CompileMode


class StackedEnv(NativeEnv):
    """The native environments of several members as one."""

    def __init__(self, members: Sequence[NativeEnv]) -> None:
        first = members[0]
        limit, number = first.max_episode_steps, sum(env.num_envs for env in members)
        super().__init__(first.dynamics, number, max_episode_steps=limit, device=first.device)
        self.members, self.column_names = members, first.column_names
        self.state = torch.cat([env.state for env in members])
        self.elapsed = torch.cat([env.elapsed for env in members])

    def reset(self, seed: int) -> Tree:
        """Returns the observations of the members' states, which it leaves as they are."""
        return self.dynamics.observe(self.state)


class StackedCollector(NativeCollector):
    """The collectors of several members as one, with steps [time, member * env]; episodes are counted by the members."""

    env: StackedEnv  # pyrefly: ignore (narrower than the base, and never reassigned)

    def __init__(self, members: Sequence[NativeCollector], policy: StackedPolicy, numbers: MemberNumbers) -> None:
        """Goes on from where the members stand."""
        self.members, self.number, self.numbers = members, len(members), numbers
        self.drawn: Draws | None = None  # for the steps that are traced
        super().__init__(StackedEnv([member.env for member in members]), policy, seed=0)
        self.policy = policy
        self.first = torch.cat([member.first for member in members])

    def execute(self, mode: CompileMode) -> None:
        super().execute(mode)
        self.run_count, self.draw_steps = self.count, self.numbers.for_steps
        if mode is True:
            self.run_count = compile_graph(self.count, self.device)
            if self.device.type != "cpu":  # where generators of torch draw
                self.draw_steps = compile_graph(self.numbers.for_steps, self.device)

    def counted(self) -> Counts:
        if self.counts is not None:
            return self.counts
        theirs = [member.counted() for member in self.members]
        return Counts(*(torch.stack(each) for each in zip(*theirs, strict=True)))

    def collect(self, policy: Policy, num_steps: int) -> Transition:
        assert isinstance(policy, StackedPolicy)
        self.asked = policy.asked
        return super().collect(policy, num_steps)

    def recorded_block(self, policy: Policy, carry: tuple, uniform: Draws) -> Block:
        return (super().recorded_block if policy is self.policy else self.block)(policy, carry, uniform)

    @torch.no_grad()
    def trace(self, policy: Policy, num_steps: int) -> Transition:
        assert isinstance(policy, StackedPolicy)
        self.drawn, self.used = self.draw_steps(num_steps, policy.asked), 0
        try:
            return super().trace(policy, num_steps)
        finally:
            self.drawn = None

    def draw(self, size: int) -> Draws:
        if self.drawn is None:
            return self.numbers.for_steps(size, self.asked)
        start, self.used = self.used, self.used + size
        return tree_map(lambda x: x[start : start + size], self.drawn)

    def block(self, policy: Policy, carry: tuple, uniform: Draws) -> Block:
        env, acting = uniform
        with provided_noise([numbers[time] for time in range(len(env)) for numbers in acting]):
            return super().block(policy, carry, env)

    def track_episodes(self, steps: Transition, game: Sequence = ()) -> None:
        said = {time: self.parts(columns, 0) for time, columns in self.columns.items()}
        for index, (member, mine) in enumerate(zip(self.members, self.parts(steps, 1), strict=True)):
            member.latest, member.columns = mine, {time: parts[index] for time, parts in said.items()}
            member.track_episodes(mine)

    def count_traced(self, num_steps: int) -> None:
        for member in self.members:
            member.count_traced(num_steps)

    def count(self, counts: Counts, steps: Transition, columns: EpisodeColumns) -> Counts:
        """Returns counts [member, ...] with the steps [time, member * env] added, as `count_episodes` does for one."""
        shaped = tree_map(lambda x: x.unflatten(1, (self.number, -1)), (steps, columns))
        return torch.vmap(count_episodes, (0, 1, 1))(counts, *shaped)

    def parts(self, tree: Transition | EpisodeColumns, dim: int) -> list:
        """Returns every member's part of a tree of tensors, in which the rows of all stand along `dim`."""
        size = self.num_envs // self.number
        return [tree_map(lambda x, s=s: x.narrow(dim, s * size, size), tree) for s in range(self.number)]

    def hand_out(self) -> None:
        """Makes the state of every member a view of the state of all."""
        size = self.num_envs // self.number
        for index, member in enumerate(self.members):
            mine = slice(index * size, (index + 1) * size)
            member.env.state, member.env.elapsed, member.first = (
                x[mine] for x in (self.env.state, self.env.elapsed, self.first)
            )
            member.obs = member.env.dynamics.observe(member.env.state)
            member.counts = None if self.counts is None else Counts(*(count[index] for count in self.counts))
