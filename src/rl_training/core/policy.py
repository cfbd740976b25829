"""A policy acts: the only part that collectors, evaluators and servers hold."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

from torch import Tensor, nn

from rl_training.core.tree import Tree

Memory = tuple[Tensor, ...]  # what a recurrent policy carries from step to step; () otherwise


class Act(NamedTuple):
    """What a policy chose, one row per environment."""

    action: Tensor
    log_prob: Tensor  # of the action under the policy as it acted
    memory: Memory = ()


class Policy(nn.Module, ABC):
    """Maps observations to actions. Never reads environments, files or clocks."""

    squashed: bool = False  # True: acts in [-1, 1] and is rescaled at the environment; False: clipped there

    def initial_memory(self, num: int) -> Memory:
        return ()

    @abstractmethod
    def act(self, obs: Tree, memory: Memory = (), first: Tensor | None = None, *, explore: bool = True) -> Act:
        """Chooses one action per row; `first` marks rows whose memory starts afresh."""
