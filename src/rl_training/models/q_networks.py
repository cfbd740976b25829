"""Q-networks: features, then for every action what the value head reads; dueling streams and noise are options."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from rl_training.core import Space, Tree
from rl_training.models.encoders import build_encoder
from rl_training.models.mlp import MLP, NoisyMLP
from rl_training.models.value_heads import FractionEmbedding, ValueHead


class QNetwork(nn.Module):
    """Encoder, shared layers, and the last hidden layer with the output: twice if dueling, noisy if asked for.

    With `num_cosines` the head's numbers are quantiles at fractions that come with every call (IQN).
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
        """Returns [batch, action, outputs]; for IQN, outputs are the quantiles at `fractions` [batch, n]."""
        features = self.encoder(obs)
        if self.trunk is not None:
            features = self.trunk(features)
        if self.embedding is not None:
            assert fractions is not None
            features = features.unsqueeze(-2) * self.embedding(fractions)
        z = self.run(self.advantage, features, noise).unflatten(-1, (self.num_actions, self.outputs))
        if self.value is not None:
            value = self.run(self.value, features, noise).unsqueeze(-2)
            z = value + z - z.mean(-2, keepdim=True)
        return z if self.embedding is None else z.squeeze(-1).transpose(-1, -2)

    def run(self, stream: nn.Module, features: Tensor, noise: bool) -> Tensor:
        return stream(features, noise=noise) if isinstance(stream, NoisyMLP) else stream(features)

    def activations(self, obs: Tree) -> Iterator[Tensor]:
        """The hidden layers' outputs, without noise; for IQN those of the trunk."""
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
    """The share of hidden units that hardly fire beside their layer (Sokar et al., 2023, arXiv:2302.12902)."""
    scores = []
    for layer in layers:
        size = layer.abs().flatten(0, -2).mean(0)
        scores.append(size / size.mean().clamp(min=1e-9))
    if not scores:
        return torch.zeros(())
    return (torch.cat(scores) <= threshold).float().mean()
