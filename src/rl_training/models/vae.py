"""A model of a dataset's actions, and a network that perturbs the actions it proposes.

The model is a conditional variational autoencoder (Sohn et al., 2015; Kingma and Welling, 2014, arXiv:1312.6114) for bounded actions.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from rl_training.core import Space, Tree
from rl_training.models.encoders import build_encoder
from rl_training.models.mlp import MLP

LOG_STD_RANGE = (-4.0, 15.0)  # of the posterior


class ActionVAE(nn.Module):
    """A variational autoencoder of a dataset's actions; it decodes observations and latents to actions before tanh."""

    def __init__(
        self,
        obs: Space,
        action_size: int,
        hidden: Sequence[int],
        *,
        activation_fn: str = "relu",
        encoder: str | None = None,
        latent_clip: float = 0.5,
    ) -> None:
        super().__init__()
        self.latent_size, self.latent_clip = 2 * action_size, latent_clip
        self.encoder = build_encoder(obs, factory=encoder, ortho_init=False)
        features, style = self.encoder.features_dim, {"activation_fn": activation_fn, "ortho_init": False}
        self.posterior = MLP(features + action_size, hidden, 2 * self.latent_size, **style)
        self.decoder = MLP(features + self.latent_size, hidden, action_size, **style)

    def losses(self, obs: Tree, action: Tensor) -> tuple[Tensor, Tensor]:
        """Returns two losses [batch]: the rebuilt actions' squared error, and the latents' KL from a standard normal.

        `obs` is normalised and `action` [batch, size] in [-1, 1]; both losses are means over components.
        """
        features = self.encoder(obs)
        mean, log_std = self.posterior(torch.cat([features, action], -1)).chunk(2, -1)
        log_std = log_std.clamp(*LOG_STD_RANGE)
        latent = mean + log_std.exp() * torch.randn_like(mean)
        error = (torch.tanh(self.before(features, latent)) - action).square().mean(-1)
        divergence = 0.5 * (mean.square() + (2 * log_std).exp() - 1) - log_std
        return error, divergence.mean(-1)

    def before(self, features: Tensor, latent: Tensor) -> Tensor:
        """Returns actions before tanh [..., size] for encoded `features` [..., n] and latents [..., latent_size]."""
        return self.decoder(torch.cat([features, latent], -1))

    def propose(self, obs: Tree, latent: Tensor) -> Tensor:
        """Returns actions before tanh, [batch, several, size], for latents [batch, several, latent_size].

        `obs` is normalised and [batch, ...]: one observation for the `several` latents of its row.
        """
        return self.before(for_several(self.encoder(obs), latent.shape[1]), latent)

    def draw_latents(self, *shape: int) -> Tensor:
        """Returns normal draws [*shape, latent_size] clipped to `latent_clip`, where the decoder saw the most data."""
        device = next(self.decoder.parameters()).device
        return torch.randn(*shape, self.latent_size, device=device).clamp(-self.latent_clip, self.latent_clip)


class Perturbation(nn.Module):
    """A network that moves given actions by at most `limit`, by the observation, and clips them to [-1, 1]."""

    def __init__(
        self,
        obs: Space,
        action_size: int,
        hidden: Sequence[int],
        *,
        limit: float,
        activation_fn: str = "relu",
        encoder: str | None = None,
    ) -> None:
        super().__init__()
        self.limit = limit
        self.encoder = build_encoder(obs, factory=encoder, ortho_init=False)
        inputs = self.encoder.features_dim + action_size
        self.net = MLP(inputs, hidden, action_size, activation_fn=activation_fn, ortho_init=False)

    def forward(self, obs: Tree, action: Tensor) -> Tensor:
        """Returns the actions, [batch, several, size], each moved by at most `limit` and clipped to [-1, 1].

        `obs` is normalised and [batch, ...]: one observation for the `several` actions of its row.
        """
        features = for_several(self.encoder(obs), action.shape[1])
        moved = action + self.limit * torch.tanh(self.net(torch.cat([features, action], -1)))
        return moved.clamp(-1, 1)


def for_several(features: Tensor, num: int) -> Tensor:
    """Returns `features` [batch, features] repeated for `num` actions, as a view [batch, num, features]."""
    return features.unsqueeze(1).expand(-1, num, -1)
