"""The environments of several members as one, and their steps by one policy."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from rl_training.core import Policy, Transition, Tree, tree_map
from rl_training.core.noise import given
from rl_training.envs import NativeEnv
from rl_training.envs.episode_columns import EpisodeColumns
from rl_training.runtime.compilation import compile_graph
from rl_training.runtime.native_collector import Block, Counts, Draws, NativeCollector, count_episodes
from rl_training.runtime.stacked_algorithm import StackedPolicy
from rl_training.runtime.worth_compiling import CompileMode


class StackedEnv(NativeEnv):
    """The native environments of several members as one; each draws from its own generator, as it does alone."""

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

    def draw(self) -> Tensor:
        return torch.cat([env.draw() for env in self.members])


class StackedCollector(NativeCollector):
    """The collectors of several members as one, with steps [time, member * env]; episodes are counted by the members."""

    env: StackedEnv  # pyrefly: ignore (narrower than the base, and never reassigned)

    def __init__(
        self, members: Sequence[NativeCollector], policy: StackedPolicy, generators: Sequence[torch.Generator]
    ) -> None:
        """Goes on from where the members stand; `generators` are those that their policies draw from."""
        self.members, self.number, self.acting = members, len(members), generators
        super().__init__(StackedEnv([member.env for member in members]), policy, seed=0)
        self.policy = policy
        self.first = torch.cat([member.first for member in members])

    def execute(self, mode: CompileMode) -> None:
        super().execute(mode)
        self.run_count = compile_graph(self.count, self.device) if mode is True else self.count

    def counted(self) -> Counts:
        if self.counts is not None:
            return self.counts
        theirs = [member.counted() for member in self.members]
        return Counts(*(torch.stack(each) for each in zip(*theirs, strict=True)))

    def draw(self, size: int) -> Draws:
        """Draws the random numbers of `size` steps: those of the environments, and each request of the policies."""
        steps = [
            [torch.stack([asked.draw(g) for g in self.acting]) for asked in self.policy.asked] for _ in range(size)
        ]
        return super().draw(size), tuple(torch.stack(numbers) for numbers in zip(*steps, strict=True))

    def block(self, policy: Policy, carry: tuple, uniform: Draws) -> Block:
        env, acting = uniform
        with given([numbers[time] for time in range(len(env)) for numbers in acting]):
            return super().block(policy, carry, env)

    def track_episodes(self, steps: Transition, game: Sequence = ()) -> None:
        said = {time: self.parts(columns, 0) for time, columns in self.columns.items()}
        for index, (member, mine) in enumerate(zip(self.members, self.parts(steps, 1), strict=True)):
            member.latest, member.columns = mine, {time: parts[index] for time, parts in said.items()}
            member.track_episodes(mine)

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
