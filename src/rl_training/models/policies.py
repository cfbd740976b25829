"""Stochastic policies: features to a distribution over the action space."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from rl_training.core import Act, Box, Dict, Discrete, MultiBinary, MultiDiscrete, Policy, Space, Spec, Tree
from rl_training.core.policy import Memory, Preference
from rl_training.functional import Bernoulli, Categorical, DiagGaussian, Distribution, MultiCategorical
from rl_training.models.encoders import encode_mask
from rl_training.models.mlp import MLP
from rl_training.models.normalizer import ObservationNormalizer
from rl_training.models.recurrent import RecurrentCore, forget
from rl_training.models.trunk import encode, share_layers


class ActionHead(nn.Module):
    """A policy's last layers, from features to a distribution over actions; a Gaussian's deviations are parameters."""

    def __init__(
        self,
        inputs: int,
        hidden: Sequence[int],
        space: Space,
        *,
        activation_fn: str = "tanh",
        ortho_init: bool = True,
        log_std_init: float = 0.0,
    ) -> None:
        super().__init__()
        self.space = space
        if isinstance(space, Dict):
            raise ValueError(f"a policy cannot act in {space}: use Box, Discrete, MultiDiscrete or MultiBinary")
        if isinstance(space, Box):
            self.log_std = nn.Parameter(torch.full((space.size,), log_std_init))
        # The small gain makes the first policy close to uniform.
        self.net = MLP(inputs, hidden, space.size, activation_fn=activation_fn, ortho_init=ortho_init, output_gain=0.01)

    def forward(self, features: Tensor, mask: Tensor | None) -> Distribution:
        output = self.net(features)
        match self.space:
            case Discrete():
                return Categorical.from_logits(output, mask)
            case MultiDiscrete(nums):
                return MultiCategorical.from_logits(output, nums, mask)
            case MultiBinary():
                return Bernoulli(output)
            case _:
                return DiagGaussian(output, self.log_std)


class StochasticPolicy(Policy):
    """A policy that draws from a distribution: normaliser, trunk (encoder and shared layers) and action head."""

    def __init__(self, spec: Spec, normalizer: ObservationNormalizer, trunk: nn.Module, head: ActionHead) -> None:
        super().__init__(spec)
        self.normalizer, self.trunk, self.head = normalizer, trunk, head

    def encode(self, obs: Tree) -> Tensor:
        """Returns the encoder's features of observations before normalisation, one vector for every row."""
        return encode(self.trunk, self.normalizer(obs))

    def choices(self, features: Tensor, mask: Tensor | None) -> Distribution:
        """Returns the distribution over actions for every row of `features`; `mask` marks the allowed actions."""
        return self.head(share_layers(self.trunk, features), mask)

    def distribution(self, obs: Tree) -> Distribution:
        """Returns the distribution over actions for every row of an observation."""
        return self.choices(self.encode(obs), encode_mask(obs))

    def act(self, obs: Tree, memory: Memory = (), first: Tensor | None = None, *, explore: bool = True) -> Act:
        return choose(self.distribution(obs), memory, explore)

    def prefer(self, obs: Tree, memory: Memory = (), first: Tensor | None = None) -> Preference:
        distribution = self.distribution(obs)
        return Preference(distribution.mode(), memory, distribution)


class RecurrentPolicy(Policy):
    """A policy with memory that draws from a distribution: normaliser, encoder, recurrent core and action head."""

    def __init__(
        self, spec: Spec, normalizer: ObservationNormalizer, trunk: nn.Module, core: RecurrentCore, head: ActionHead
    ) -> None:
        super().__init__(spec)
        self.normalizer, self.trunk, self.core, self.head = normalizer, trunk, core, head

    def initial_memory(self, num: int) -> Memory:
        return self.core.initial(num)

    def act(self, obs: Tree, memory: Memory = (), first: Tensor | None = None, *, explore: bool = True) -> Act:
        return choose(*self.advance(obs, memory, first), explore)

    def prefer(self, obs: Tree, memory: Memory = (), first: Tensor | None = None) -> Preference:
        distribution, memory = self.advance(obs, memory, first)
        return Preference(distribution.mode(), memory, distribution)

    def advance(self, obs: Tree, memory: Memory, first: Tensor | None) -> tuple[Distribution, Memory]:
        """Returns the distributions of one step, for observations [batch, ...], and the new memory.

        The bool mask `first` [batch] marks rows whose memory is reset before; None marks none.
        """
        features = share_layers(self.trunk, self.encode(obs))
        output, memory = self.core.advance(features, forget(memory, first))
        return self.head(output, encode_mask(obs)), memory

    def encode(self, obs: Tree) -> Tensor:
        """Returns the encoder's features of observations before normalisation, one vector for every row."""
        return encode(self.trunk, self.normalizer(obs))

    def choices(self, features: Tensor, mask: Tensor | None, memory: Memory) -> Distribution:
        """Returns the distributions [time, batch] for features [time, batch, ...] that go on from `memory`.

        `mask` marks the allowed actions. Memory is not reset within these sequences.
        """
        return self.head(self.core(share_layers(self.trunk, features), memory), mask)


def choose(distribution: Distribution, memory: Memory, explore: bool) -> Act:
    """Returns an Act of actions, drawn if `explore`, else most likely, with log-probabilities and `memory`."""
    action = distribution.sample() if explore else distribution.mode()
    return Act(action, distribution.log_prob(action), memory)
