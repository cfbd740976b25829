"""Value heads: forms in which Q-networks estimate returns, as a mean, probabilities of atoms, or quantiles."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from rl_training.functional import project_distribution, quantile_huber, regression_loss


class ValueHead(nn.Module, ABC):
    """A base class of heads, without weights, that read a network's outputs z as an estimate of the return.

    They define its mean and its loss; `outputs` is how many numbers they read per action.
    """

    outputs: int

    @abstractmethod
    def mean(self, z: Tensor) -> Tensor:
        """Returns the expected return [...] that the outputs z [..., outputs] of a network stand for."""

    @abstractmethod
    def loss(self, z: Tensor, fractions: Tensor, next_z: Tensor, reward: Tensor, discount: Tensor) -> Tensor:
        """Returns the loss [batch] of outputs `z` of the taken action, for targets reward + discount * `next_z`.

        `z` and `next_z` are [batch, outputs], `reward` and `discount` [batch]. `fractions`, [n] or [batch, n], are
        those of the quantiles in `z`; other heads ignore them.
        """

    def td_error(self, z: Tensor, next_z: Tensor, reward: Tensor, discount: Tensor, loss: Tensor) -> Tensor:
        """Returns the absolute error [batch] of the expected return, the priority in prioritised replay.

        `z` and `next_z` are [batch, outputs], of the taken and of the next action.
        """
        return (reward + discount * self.mean(next_z) - self.mean(z)).abs()


class MeanHead(ValueHead):
    """A head, without weights, that reads a network's one output per action as the return (Mnih et al., 2015)."""

    outputs = 1

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind

    def mean(self, z: Tensor) -> Tensor:
        return z.squeeze(-1)

    def loss(self, z: Tensor, fractions: Tensor, next_z: Tensor, reward: Tensor, discount: Tensor) -> Tensor:
        return regression_loss(self.mean(z), reward + discount * self.mean(next_z), self.kind)


class CategoricalHead(ValueHead):
    """A head, without weights, that reads a network's outputs as logits of the return's distribution over fixed atoms.

    The atoms lie evenly from `v_min` to `v_max` (C51: Bellemare et al., 2017, arXiv:1707.06887).
    """

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
        """Returns `loss` [batch], the cross-entropy, unchanged, as priority in prioritised replay.

        Rainbow's divergence is lower by the target's entropy.
        """
        return loss


class QuantileHead(ValueHead):
    """A head, without weights, that reads a network's outputs as the return's quantiles at fixed midpoints.

    QR-DQN: Dabney et al., 2018, arXiv:1710.10044. For IQN, `loss` gets other fractions.
    """

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
    """A layer from quantile fractions [...] to factors [..., features] (IQN: Dabney et al., 2018, arXiv:1806.06923)."""

    def __init__(self, features: int, num_cosines: int) -> None:
        super().__init__()
        self.num_cosines = num_cosines
        self.layer = nn.Linear(num_cosines, features)

    def forward(self, fractions: Tensor) -> Tensor:
        order = torch.arange(self.num_cosines, device=fractions.device)
        return self.layer((math.pi * order * fractions.unsqueeze(-1)).cos()).relu()
