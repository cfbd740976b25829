"""A collector for some of a run's environments that computes as if all were here, to the last bit."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from rl_training.core import Act, Column, Policy, Tree, tree_map
from rl_training.core.policy import Memory
from rl_training.envs import LocalEnv
from rl_training.runtime import EnvCollector


class SlicedCollector(EnvCollector):
    """A collector that steps some of a run's environments as one process would step all, to the last bit.

    Matrix products round differently for another number of rows, and random numbers are drawn for all rows at once. So
    the policy acts on a batch with a row for every environment of the run, in which copies of its first own row stand
    for the others, and only its own rows are used.
    """

    def __init__(
        self, env: LocalEnv, policy: Policy, *, columns: Sequence[Column], beat: Callable[[], None] = lambda: None
    ) -> None:
        self.rows, self.beat = slice(env.start, env.start + env.num_envs), beat
        after = env.total - self.rows.stop
        self.source = torch.tensor([0] * env.start + list(range(env.num_envs)) + [0] * after)
        super().__init__(env, policy, seed=0, columns=columns)

    def choose(self, policy: Policy, seen: Tree, memory: Memory, first: Tensor) -> Act:
        self.beat()
        everyone = tree_map(lambda x: x[self.source], (seen, memory, first))
        return tree_map(lambda x: x[self.rows], super().choose(policy, *everyone))
