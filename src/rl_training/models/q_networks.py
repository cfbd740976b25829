"""Q-networks, and policies that act by them.

A network: features, then for every action what the value head reads; dueling streams and noise are options. Its policy is
greedy, with epsilon, Boltzmann or parameter noise to explore.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from rl_training.core import Act, Policy, Schedule, Scheduled, Space, Spec, Tree
from rl_training.core.noise import noise_is_provided, noise_like
from rl_training.core.policy import Memory, Preference
from rl_training.functional import Categorical
from rl_training.models.encoders import build_encoder, encode_mask
from rl_training.models.mlp import MLP, NoisyMLP
from rl_training.models.normalizer import ObservationNormalizer
from rl_training.models.value_heads import FractionEmbedding, ValueHead

FEW = 16  # rows that Python goes through faster than torch


class QNetwork(nn.Module):
    """A network from normalised observations to `head.outputs` numbers per action, from which `head` estimates returns.

    Dueling streams and noisy layers are options. With `num_cosines` the numbers are quantiles at the fractions that
    every call gets (IQN).
    """

    def __init__(
        self,
        obs: Space,
        num_actions: int,
        net_arch: Sequence[int],
        head: ValueHead,
        *,
        dueling: bool = False,
        noisy: bool = False,
        noisy_sigma: float = 0.5,
        num_cosines: int = 0,
        activation_fn: str = "relu",
        layer_norm: bool = False,
        ortho_init: bool = False,
        encoder: str | None = None,
    ) -> None:
        super().__init__()
        self.num_actions, self.head, self.dueling, self.noisy = num_actions, head, dueling, noisy
        self.outputs = 1 if num_cosines else head.outputs
        self.encoder = build_encoder(obs, factory=encoder, ortho_init=ortho_init)
        split = dueling or noisy or num_cosines > 0
        style = {"activation_fn": activation_fn, "layer_norm": layer_norm, "ortho_init": ortho_init}
        shared, hidden = (net_arch[:-1], net_arch[-1:]) if split else ((), net_arch)
        self.trunk = MLP(self.encoder.features_dim, shared, **style) if shared else None
        features = self.trunk.features_dim if self.trunk is not None else self.encoder.features_dim
        self.embedding = FractionEmbedding(features, num_cosines) if num_cosines else None

        def stream(outputs: int) -> MLP | NoisyMLP:
            if noisy:
                return NoisyMLP(features, hidden, outputs, activation_fn=activation_fn, sigma=noisy_sigma)
            return MLP(features, hidden, outputs, **style)

        self.advantage = stream(num_actions * self.outputs)
        self.value = stream(self.outputs) if dueling else None

    def forward(self, obs: Tree, fractions: Tensor | None = None, *, noise: bool = True) -> Tensor:
        """Returns [batch, action, outputs]; for IQN, outputs are the n quantiles at `fractions` [batch, n].

        `noise` counts for noisy layers only: without it they use their mean weights.
        """
        return self.read(self.encoder(obs), fractions, noise=noise)

    def read(self, features: Tensor, fractions: Tensor | None = None, *, noise: bool = True) -> Tensor:
        """Returns [batch, action, outputs], as for observations, for their features from `encoder`."""
        if self.trunk is not None:
            features = self.trunk(features)
        if self.embedding is not None:
            assert fractions is not None
            features = features.unsqueeze(-2) * self.embedding(fractions)
        z = self.run(self.advantage, features, noise)
        z = z.reshape(*z.shape[:-1], self.num_actions, self.outputs)
        if self.value is not None:
            value = self.run(self.value, features, noise).unsqueeze(-2)
            z = value + z - z.mean(-2, keepdim=True)
        return z if self.embedding is None else z.squeeze(-1).transpose(-1, -2)

    def run(self, stream: MLP | NoisyMLP, features: Tensor, noise: bool) -> Tensor:
        """Returns the output of the layers `stream` by their `forward`, which is cheaper than calling the module."""
        return stream.forward(features, noise=noise) if isinstance(stream, NoisyMLP) else stream.forward(features)

    def activations(self, obs: Tree) -> Iterator[Tensor]:
        """Yields hidden layers' outputs [batch, units], without noise; for IQN, only of those before the fractions."""
        features = self.encoder(obs)
        trunk = list(self.trunk.layers(features)) if self.trunk is not None else []
        yield from trunk
        if self.embedding is not None:
            return
        for stream in (self.advantage, self.value):
            if stream is not None:
                x = trunk[-1] if trunk else features
                layers = stream.layers(x, noise=False) if isinstance(stream, NoisyMLP) else stream.layers(x)
                yield from list(layers)[:-1]


@torch.no_grad()
def dormant_share(layers: Iterator[Tensor], threshold: float = 0.025) -> Tensor:
    """Returns the share, 0-dim, of units whose mean size is at most `threshold` times that of their layer.

    `layers` are the outputs [..., units] of layers; the share of none is 0.
    Dormant units: Sokar et al., 2023, arXiv:2302.12902.
    """
    scores = []
    for layer in layers:
        size = layer.abs().flatten(0, -2).mean(0)
        scores.append(size / size.mean().clamp(min=1e-9))
    if not scores:
        return torch.zeros(())
    return (torch.cat(scores) <= threshold).float().mean()


class ActionValues(NamedTuple):
    """The expected return of every action, [batch, action], with -inf for those that may not be chosen."""

    q_values: Tensor


class QPolicy(Policy):
    """A policy that takes the allowed action with the highest expected return; to explore, also others.

    With `plausible`, the best is only sought among actions likely in the data. The log-probability is 0 without
    exploration, and not known (NaN) when noisy layers explore.
    """

    def __init__(
        self,
        spec: Spec,
        normalizer: ObservationNormalizer,
        network: QNetwork,
        *,
        exploration: Literal["epsilon", "boltzmann", "noisy"],
        epsilon: Schedule,
        temperature: Schedule,
        num_fractions: int = 0,
        plausible: PlausibleActions | None = None,
    ) -> None:
        super().__init__(spec)
        self.normalizer, self.network, self.plausible = normalizer, network, plausible
        self.exploration, self.num_fractions = exploration, num_fractions
        self.epsilon, self.temperature = Scheduled(epsilon), Scheduled(temperature)

    def q_values(self, obs: Tree, *, noise: bool = False) -> Tensor:
        """Returns the expected return of every action, [batch, action], for observations before normalisation."""
        network, normalizer = self.network, self.normalizer
        seen = normalizer(obs) if normalizer.enabled else obs
        return network.head.mean(network(seen, self.midpoints(obs), noise=noise))

    def values(self, obs: Tree) -> Tensor:
        """Returns the expected return of the best allowed action, [batch], for observations before normalisation."""
        return forbid(self.q_values(obs), self.allowed(obs)).amax(-1)

    def allowed(self, obs: Tree) -> Tensor | None:
        """Returns a mask [batch, action] of the actions that may be chosen as best; None: all."""
        mask = encode_mask(obs)
        return mask if self.plausible is None else self.plausible(self.normalizer(obs), mask)

    def midpoints(self, obs: Tree) -> Tensor | None:
        """Returns the fixed, evenly spread fractions [batch, n] by which an IQN acts; None for other networks."""
        if not self.num_fractions:
            return None
        leaf = next(iter(obs.values())) if isinstance(obs, dict) else obs
        fractions = (torch.arange(self.num_fractions, device=leaf.device) + 0.5) / self.num_fractions
        return fractions.expand(leaf.shape[0], -1)

    def prefer(self, obs: Tree, memory: Memory = (), first: Tensor | None = None) -> Preference:
        q = forbid(self.q_values(obs), self.allowed(obs))
        return Preference(q.argmax(-1), memory, ActionValues(q))

    def act(self, obs: Tree, memory: Memory = (), first: Tensor | None = None, *, explore: bool = True) -> Act:
        allowed = self.allowed(obs)
        q = forbid(self.q_values(obs, noise=explore), allowed)
        greedy = q.argmax(-1)
        if not explore:
            return Act(greedy, torch.zeros_like(q[..., 0]), memory)
        if self.exploration == "epsilon":
            action, log_prob = epsilon_greedy(greedy, self.epsilon.value, q.shape[-1], encode_mask(obs))
        elif self.exploration == "boltzmann":
            distribution = Categorical.from_logits(q / self.temperature(), allowed)
            action = distribution.sample()
            log_prob = distribution.log_prob(action)
        else:
            action, log_prob = greedy, q[..., 0]
        return Act(action, torch.full_like(log_prob, torch.nan) if self.network.noisy else log_prob, memory)


class PlausibleActions(nn.Module):
    """A model of the data's actions, which marks those with more than `threshold` times the likeliest's probability."""

    def __init__(self, imitator: nn.Module, threshold: float) -> None:
        super().__init__()
        self.imitator, self.threshold = imitator, threshold

    def logits(self, obs: Tree) -> Tensor:
        """Returns the logits of the data's actions for normalised observations: [batch, action]."""
        return self.imitator(obs)

    def forward(self, obs: Tree, mask: Tensor | None) -> Tensor | None:
        """Returns a mask [batch, action] of the likeliest allowed action and those near its probability.

        `mask` [batch, action] marks allowed actions (None: all); it is returned as it is if `threshold` is 0.
        """
        if self.threshold == 0:
            return mask
        logits = forbid(self.logits(obs), mask)
        behind = logits - logits.amax(-1, keepdim=True)
        return (behind.exp() > self.threshold) | (behind == 0)


def forbid(q: Tensor, mask: Tensor | None) -> Tensor:
    """Returns the values with -inf for actions that `mask` does not allow; `q` itself if `mask` is None."""
    return q if mask is None else q.masked_fill(~mask.bool(), -torch.inf)


def epsilon_greedy(greedy: Tensor, epsilon: Tensor, num: int, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """Returns two tensors [batch]: any allowed action with probability `epsilon`, else `greedy`, and log-probabilities.

    `mask` [batch, num] marks the allowed ones of `num` actions; None allows all.
    """
    on_host = greedy.device.type == "cpu" and not torch.compiler.is_compiling() and not noise_is_provided()
    if on_host and mask is None and greedy.ndim == 1 and len(greedy) <= FEW:
        return choose_few(greedy, epsilon, num)
    chance, pick = noise_like("uniform", torch.empty(2, *greedy.shape, device=greedy.device))
    if mask is None:
        random, share = (pick * num).long(), epsilon / num
    else:
        allowed = mask.bool()
        share = epsilon / allowed.sum(-1)
        random = (allowed + noise_like("uniform", torch.empty(mask.shape, device=greedy.device))).argmax(-1)
    action = torch.where(chance < epsilon, random, greedy)
    return action, (share + (1 - epsilon) * (action == greedy)).log()


def choose_few(greedy: Tensor, share: Tensor, num: int) -> tuple[Tensor, Tensor]:
    """Returns the result of `epsilon_greedy` without a mask, by plain Python, which is faster for few rows on a CPU.

    `share` is epsilon, 0-dim.
    """
    chances, picks = torch.rand(2, len(greedy)).tolist()
    best, epsilon = greedy.tolist(), share.item()
    chosen = [
        int(np.float32(pick * num)) if chance < epsilon else action
        for chance, pick, action in zip(chances, picks, best, strict=True)
    ]
    return torch.tensor(chosen), log_probability(epsilon, num, tuple(map(operator.eq, chosen, best)))


@lru_cache(maxsize=16)
def log_probability(epsilon: float, num: int, are_greedy: tuple[bool, ...]) -> Tensor:
    """Returns log-probabilities [row] of epsilon-greedy choices among `num` actions; `are_greedy`: by row.

    The result is cached, so callers must not write to it.
    """
    share = torch.tensor(epsilon)
    return (share / num + (1 - share) * torch.tensor(are_greedy)).log()
