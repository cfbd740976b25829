"""Trunks, which policies and critics put before their heads: an encoder and, if there are any, layers that both share."""

from __future__ import annotations

from torch import Tensor, nn

from rl_training.core import Tree


class Trunk(nn.Sequential):
    """An encoder followed by layers that policy and critic share; without such layers, an encoder is a trunk itself."""

    @property
    def features_dim(self) -> int:
        """Returns the width of the last shared layer's output."""
        return self[1].features_dim  # pyrefly: ignore (an MLP)


def encode(trunk: nn.Module, obs: Tree) -> Tensor:
    """Returns the encoder's features of normalised observations, before any shared layers."""
    return (trunk[0] if isinstance(trunk, Trunk) else trunk)(obs)


def share_layers(trunk: nn.Module, features: Tensor) -> Tensor:
    """Returns the features after the trunk's shared layers; `features` itself if it has none."""
    return trunk[1](features) if isinstance(trunk, Trunk) else features


def learns(trunk: nn.Module) -> bool:
    """Returns True if the trunk's encoder has parameters, so that running it costs more than a copy."""
    return next((trunk[0] if isinstance(trunk, Trunk) else trunk).parameters(), None) is not None
