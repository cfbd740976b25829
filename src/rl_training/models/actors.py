"""Policies for bounded arrays of actions: they act in [-1, 1] and are rescaled at the environment."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn

from rl_training.core import Act, Policy, Space, Spec, Tree
from rl_training.core.noise import noise_like
from rl_training.core.policy import Memory, Preference
from rl_training.functional import DiagGaussian, SquashedGaussian
from rl_training.models.encoders import Encoder, build_encoder
from rl_training.models.normalizer import ObservationNormalizer
from rl_training.models.recurrent import forget

LOG_STD_RANGE = (-20.0, 2.0)
OU_PULL, OU_TIME = 0.15, 0.01  # Ornstein-Uhlenbeck noise as in DDPG's code: mean reversion and time per step


class Actor(nn.Module):
    """An encoder followed by a network: maps normalised observations to the numbers that define actions."""

    def __init__(self, obs: Space, build_net: Callable[[int], nn.Module], encoder: str | None = None) -> None:
        super().__init__()
        self.encoder = build_encoder(obs, factory=encoder, ortho_init=False)
        self.net = build_net(self.encoder.features_dim)
        self.borrows = False

    def borrow(self, encoder: Encoder) -> None:
        """Sets the encoder to one that other losses train; the actor's features of it carry no gradients."""
        self.encoder, self.borrows = encoder, True

    def encode(self, obs: Tree) -> Tensor:
        """Returns the features of normalised observations, one vector for every row."""
        if self.borrows and torch.is_grad_enabled():
            with torch.no_grad():
                return self.encoder(obs)
        return self.encoder(obs)

    def read(self, features: Tensor, *, train: bool = False) -> Tensor:
        """Returns the numbers that define actions, for features from `encode`; `train` counts for subclasses."""
        return self.net(features)

    def forward(self, obs: Tree, *, train: bool = False) -> Tensor:
        return self.read(self.encode(obs), train=train)


class RenormActor(Actor):
    """An actor with batch renormalisation of its layers.

    A call with `train=True` normalises by the batch and updates the running averages; other calls normalise by these.
    """

    def read(self, features: Tensor, *, train: bool = False) -> Tensor:
        return self.net(features, train=train).squeeze(0)


class DeterministicPolicy(Policy):
    """A policy of one action per observation; exploration adds noise, independent or drifting (Ornstein-Uhlenbeck)."""

    squashed = True

    def __init__(
        self,
        spec: Spec,
        normalizer: ObservationNormalizer,
        network: Actor,
        action_size: int,
        *,
        noise: Literal["gaussian", "ou", "none"],
        noise_std: float,
    ) -> None:
        super().__init__(spec)
        self.normalizer, self.network = normalizer, network
        self.action_size, self.noise, self.noise_std = action_size, noise, noise_std

    def initial_memory(self, num: int) -> Memory:
        """Returns a tuple of zeros [num, action_size], at which Ornstein-Uhlenbeck noise starts; () for other noise."""
        return (torch.zeros(num, self.action_size, device=self.device),) if self.noise == "ou" else ()

    def encode(self, obs: Tree) -> Tensor:
        """Returns the encoder's features of observations before normalisation, one vector for every row."""
        return self.network.encode(self.normalizer(obs))

    def choose(self, features: Tensor) -> Tensor:
        """Returns the action [batch, size] for every row of `features`, without noise."""
        return torch.tanh(self.network.read(features))

    def action(self, obs: Tree) -> Tensor:
        return self.choose(self.encode(obs))

    def act(self, obs: Tree, memory: Memory = (), first: Tensor | None = None, *, explore: bool = True) -> Act:
        action = self.action(obs)
        if explore and self.noise == "ou":
            (state,) = forget(memory, first) if memory else (torch.zeros_like(action),)
            step = self.noise_std * math.sqrt(OU_TIME) * noise_like("normal", action)
            state = state - OU_PULL * OU_TIME * state + step
            memory, action = (state,), action + state
        elif explore and self.noise == "gaussian":
            action = action + self.noise_std * noise_like("normal", action)
        unknown = torch.full_like(action[..., 0], math.nan)  # a clipped or drifting action has no density
        return Act(action.clamp(-1, 1), unknown, memory)

    def prefer(self, obs: Tree, memory: Memory = (), first: Tensor | None = None) -> Preference:
        return Preference(self.action(obs), memory)


class SquashedGaussianPolicy(Policy):
    """A policy that draws from a normal, whose mean and deviation an actor gives, and pushes draws through tanh."""

    squashed = True

    def __init__(self, spec: Spec, normalizer: ObservationNormalizer, network: Actor) -> None:
        super().__init__(spec)
        self.normalizer, self.network = normalizer, network

    def encode(self, obs: Tree) -> Tensor:
        """Returns the encoder's features of observations before normalisation, one vector for every row."""
        return self.network.encode(self.normalizer(obs))

    def choices(self, features: Tensor, *, train: bool = False) -> SquashedGaussian:
        """Returns the distribution over actions for every row of `features`."""
        mean, log_std = self.network.read(features, train=train).chunk(2, -1)
        return SquashedGaussian(mean, log_std.clamp(*LOG_STD_RANGE))

    def distribution(self, obs: Tree, *, train: bool = False) -> SquashedGaussian:
        return self.choices(self.encode(obs), train=train)

    def act(self, obs: Tree, memory: Memory = (), first: Tensor | None = None, *, explore: bool = True) -> Act:
        distribution = self.distribution(obs)
        if explore:
            return Act(*distribution.draw(), memory)
        return Act(distribution.mode(), distribution.log_prob_before(distribution.mean), memory)

    def prefer(self, obs: Tree, memory: Memory = (), first: Tensor | None = None) -> Preference:
        distribution = self.distribution(obs)
        return Preference(distribution.mode(), memory, distribution)


class ClippedGaussianPolicy(Policy):
    """A policy that draws from a normal around a tanh mean with learned deviations, and clips draws to [-1, 1].

    Actions of data at the bounds have a finite density, which those of a normal pushed through tanh have not.
    """

    squashed = True

    def __init__(
        self,
        spec: Spec,
        normalizer: ObservationNormalizer,
        network: Actor,
        action_size: int,
        *,
        log_std_range: tuple[float, float],
    ) -> None:
        super().__init__(spec)
        self.normalizer, self.network, self.log_std_range = normalizer, network, log_std_range
        self.log_std_logit = nn.Parameter(torch.zeros(action_size))  # starts in the middle of the range

    def distribution(self, obs: Tree) -> DiagGaussian:
        """Returns the normal distribution of actions per row of observations; its draws are not yet clipped."""
        low, high = self.log_std_range
        mean = torch.tanh(self.network(self.normalizer(obs)))
        return DiagGaussian(mean, low + (high - low) * self.log_std_logit.sigmoid())

    def act(self, obs: Tree, memory: Memory = (), first: Tensor | None = None, *, explore: bool = True) -> Act:
        distribution = self.distribution(obs)
        action = distribution.sample() if explore else distribution.mode()
        inside = (action.abs() <= 1).all(-1)
        log_prob = torch.where(inside, distribution.log_prob(action), math.nan)  # a clipped action has no density
        return Act(action.clamp(-1, 1), log_prob, memory)

    def prefer(self, obs: Tree, memory: Memory = (), first: Tensor | None = None) -> Preference:
        distribution = self.distribution(obs)
        return Preference(distribution.mode(), memory, distribution)
