"""Policies, which map observations to actions: all that collectors, evaluators and servers hold of an algorithm."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor, nn

from rl_training.core.converters import ActionConverter, ObservationConverter
from rl_training.core.noise import noise_like
from rl_training.core.spaces import Box, Discrete, Spec
from rl_training.core.tree import Tree, tree_leaves

Memory = tuple[Tensor, ...]  # what a recurrent policy carries from step to step; () otherwise


class Act(NamedTuple):
    """A policy's choice, one row per environment: actions in its own units, log-probabilities, and new memory."""

    action: Tensor  # of a team, a dict with a tensor [env, agents, ...] per group
    log_prob: Tensor  # of the action under the policy as it acted; of a team [env, agents]
    memory: Memory = ()


class Preference(NamedTuple):
    """A policy's deterministic choice: actions in its own units, new memory, and the distribution or values behind them."""

    action: Tensor
    memory: Memory = ()
    distribution: tuple = ()  # named tensors [batch, ...]: parameters of a distribution, or values; () if there are none


class Decision(NamedTuple):
    """Actions for the environment, one row per observation, and the memory to pass with the next observations."""

    action: Tensor  # in the environment's units and data type
    memory: Memory = ()


class Policy(nn.Module, ABC):
    """A module that maps observations to actions, with the conversion from and to the environment's units.

    `act` returns actions in the policy's own units, for learning; `decide` uses the environment's units throughout, for
    use outside the library. Calling the policy is the same as `decide` without exploration.
    """

    squashed: bool = False  # True: acts in [-1, 1] and is rescaled at the environment; False: clipped there
    anchor: Tensor

    def __init__(self, spec: Spec) -> None:
        super().__init__()
        self.spec = spec
        self.from_env = ObservationConverter(spec.obs)
        self.to_env = ActionConverter(spec.action, squashed=self.squashed)
        self.register_buffer("anchor", torch.zeros(()), persistent=False)  # moves with the networks, if there are any

    @property
    def device(self) -> torch.device:
        return self.anchor.device

    def initial_memory(self, num: int) -> Memory:
        return ()

    @abstractmethod
    def act(self, obs: Tree, memory: Memory = (), first: Tensor | None = None, *, explore: bool = True) -> Act:
        """Returns an action per row in the policy's units, its log-probability, and the new memory.

        `obs` comes from `from_env`; the bool mask `first` [batch] marks rows whose memory is reset before acting.
        """

    def prefer(self, obs: Tree, memory: Memory = (), first: Tensor | None = None) -> Preference:
        """Returns the action of `act` without exploration, and what it was chosen by; leaves out the log-probability.

        Policies override it to do less work than `act`, or to show their distribution, which exported files return.
        """
        act = self.act(obs, memory, first, explore=False)
        return Preference(act.action, act.memory)

    @torch.no_grad()
    def decide(self, obs: Tree, memory: Memory = (), first: Tensor | None = None, *, explore: bool = False) -> Decision:
        """Returns actions in the environment's units, and new memory, for tensors of its observations, a row each.

        Without `memory`, every row is the first of its episode; the bool mask `first` [batch] marks such rows.
        No gradients are recorded.
        """
        self.from_env.check(obs)
        return self.decide_checked(obs, memory, first, explore=explore)

    def decide_checked(self, obs: Tree, memory: Memory, first: Tensor | None, *, explore: bool) -> Decision:
        """Returns the result of `decide` for observations that were checked already; gradients are recorded, if enabled."""
        seen = self.from_env.convert(obs)
        memory = memory or self.initial_memory(next(tree_leaves(seen)).shape[0])
        chosen = self.act(seen, memory, first) if explore else self.prefer(seen, memory, first)
        return Decision(self.to_env.forward(chosen.action), chosen.memory)

    def forward(self, obs: Tree, memory: Memory = (), first: Tensor | None = None) -> tuple[Tensor, Memory]:
        """Returns the action and memory of `decide` without exploration, as a plain tuple.

        An exported program can so be loaded without this library.
        """
        return tuple(self.decide(obs, memory, first))


class UniformPolicy(Policy):
    """A policy of uniformly random allowed actions; off-policy methods fill their replay with it before they learn."""

    squashed = True

    def __init__(self, spec: Spec) -> None:
        super().__init__(spec)
        assert isinstance(spec.action, Box | Discrete)
        self.action = spec.action

    def act(self, obs: Tree, memory: Memory = (), first: Tensor | None = None, *, explore: bool = True) -> Act:
        leaf = next(tree_leaves(obs))
        if isinstance(self.action, Box):
            uniform = noise_like("uniform", torch.empty(leaf.shape[0], self.action.size, device=leaf.device))
            return Act(2 * uniform - 1, torch.full_like(uniform[:, 0], -self.action.size * math.log(2)), memory)
        mask = obs.get("action_mask") if isinstance(obs, dict) else None
        allowed = torch.ones(leaf.shape[0], self.action.num, device=leaf.device) if mask is None else mask.float()
        action = (allowed * (1 + noise_like("uniform", allowed))).argmax(-1)
        return Act(action, -allowed.sum(-1).log(), memory)
