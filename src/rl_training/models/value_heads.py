"""What a Q-network says of an action's return: its mean, probabilities of atoms, or quantiles."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from rl_training.functional import project_distribution, quantile_huber, regression_loss


class ValueHead(nn.Module, ABC):
    """Reads `outputs` numbers z per action, and compares those of an action taken with a bootstrapped target."""

    outputs: int

    @abstractmethod
    def mean(self, z: Tensor) -> Tensor:
        """The expected return, from the last dimension of z."""

    @abstractmethod
    def loss(self, z: Tensor, fractions: Tensor, next_z: Tensor, reward: Tensor, discount: Tensor) -> Tensor:
        """The error of every row: z and next_z are [batch, outputs], of the taken and of the next action."""

    def td_error(self, z: Tensor, next_z: Tensor, reward: Tensor, discount: Tensor, loss: Tensor) -> Tensor:
        """How wrong the expected return was; what prioritised replay samples by."""
        return (reward + discount * self.mean(next_z) - self.mean(z)).abs()


class MeanHead(ValueHead):
    """One number per action (Mnih et al., 2015)."""

    outputs = 1

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind

    def mean(self, z: Tensor) -> Tensor:
        return z.squeeze(-1)

    def loss(self, z: Tensor, fractions: Tensor, next_z: Tensor, reward: Tensor, discount: Tensor) -> Tensor:
        return regression_loss(self.mean(z), reward + discount * self.mean(next_z), self.kind)


class CategoricalHead(ValueHead):
    """Logits of fixed atoms (C51: Bellemare et al., 2017, arXiv:1707.06887)."""

    atoms: Tensor

    def __init__(self, num_atoms: int, v_min: float, v_max: float) -> None:
        super().__init__()
        self.outputs = num_atoms
        self.register_buffer("atoms", torch.linspace(v_min, v_max, num_atoms))

    def mean(self, z: Tensor) -> Tensor:
        return (z.softmax(-1) * self.atoms).sum(-1)

    def loss(self, z: Tensor, fractions: Tensor, next_z: Tensor, reward: Tensor, discount: Tensor) -> Tensor:
        target = project_distribution(next_z.softmax(-1), self.atoms, reward, discount)
        return -(target * z.log_softmax(-1)).sum(-1)

    def td_error(self, z: Tensor, next_z: Tensor, reward: Tensor, discount: Tensor, loss: Tensor) -> Tensor:
        """The cross-entropy; Rainbow (arXiv:1710.02298) takes the divergence, which is less by the target's entropy."""
        return loss


class QuantileHead(ValueHead):
    """Quantiles at fixed midpoints (QR-DQN: Dabney et al., 2018, arXiv:1710.10044)."""

    midpoints: Tensor

    def __init__(self, num_quantiles: int, kappa: float) -> None:
        super().__init__()
        self.outputs, self.kappa = num_quantiles, kappa
        self.register_buffer("midpoints", (torch.arange(num_quantiles) + 0.5) / num_quantiles)

    def mean(self, z: Tensor) -> Tensor:
        return z.mean(-1)

    def loss(self, z: Tensor, fractions: Tensor, next_z: Tensor, reward: Tensor, discount: Tensor) -> Tensor:
        target = reward.unsqueeze(-1) + discount.unsqueeze(-1) * next_z
        return quantile_huber(z, fractions, target, self.kappa)


class FractionEmbedding(nn.Module):
    """Turns quantile fractions into factors of the features (IQN: Dabney et al., 2018, arXiv:1806.06923, eq. 4)."""

    def __init__(self, features: int, num_cosines: int) -> None:
        super().__init__()
        self.num_cosines = num_cosines
        self.layer = nn.Linear(num_cosines, features)

    def forward(self, fractions: Tensor) -> Tensor:
        order = torch.arange(self.num_cosines, device=fractions.device)
        return self.layer((math.pi * order * fractions.unsqueeze(-1)).cos()).relu()
