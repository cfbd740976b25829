"""Implicit Q-learning (Kostrikov et al., 2021, arXiv:2110.06169): values of the data's own actions, none of others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor, nn

from rl_training.algorithms.advantage_weighted import AdvantageWeightedAlgorithm, AdvantageWeightedConfig
from rl_training.core import Loss, StepBatch, Supply, Tree, register
from rl_training.core.ranges import NonNegative, Range
from rl_training.functional import expectile_loss
from rl_training.models import MLP, ObservationNormalizer, build_encoder

Expectile = Annotated[float, Range(above=0, max=1)]


@dataclass(frozen=True, kw_only=True)
class IQLConfig(AdvantageWeightedConfig):
    """IQL's settings, with the paper's defaults for locomotion."""

    expectile: Expectile = 0.7  # 0.5: the data's own value; towards 1: that of its best actions
    beta: NonNegative = 3.0

    def check(self, supply: Supply) -> None:
        super().check(supply)
        check_expectile(self.expectile)


def check_expectile(expectile: float) -> None:
    if expectile == 1:
        raise ValueError("algorithm.expectile=1 never lowers a value: use a number below 1, such as 0.9")


class IQLAlgorithm(AdvantageWeightedAlgorithm[IQLConfig]):
    """IQL: a value network learns an expectile of the values of the data's actions, and the policy clones these."""

    log_std_range = (-5.0, 2.0)

    def build_networks(self, normalizer: ObservationNormalizer) -> None:
        super().build_networks(normalizer)
        c = self.config
        encoder = build_encoder(self.spec.seen_by("critic").obs, factory=c.encoder, ortho_init=False)
        style = {"activation_fn": c.activation_fn, "ortho_init": False}
        self.value = nn.Sequential(encoder, MLP(encoder.features_dim, c.critic_widths, 1, **style))
        self.add_optimizer("critic", [*self.critics.parameters(), *self.value.parameters()], self.betas)

    def critic_loss(self, batch: StepBatch, *, train: bool = True) -> Loss:
        critics = super().critic_loss(batch, train=train)
        loss = self.weighted_loss(expectile_loss(self.advantage(batch), self.config.expectile), batch)
        return Loss(critics.value + loss, critics.metrics | {"value_loss": loss.detach()}, critics.rows)

    def next_value(self, batch: StepBatch) -> Tensor:
        return self.values(batch.next_obs)

    def advantage(self, batch: StepBatch) -> Tensor:
        with torch.no_grad():
            q = self.targets(self.critic_view(batch.obs), batch.action).squeeze(-1).amin(0)
        return q - self.values(batch.obs)

    def values(self, obs: Tree) -> Tensor:
        return self.value(self.critic_view(obs)).squeeze(-1)


register("iql", IQLAlgorithm, IQLConfig, "Implicit Q-learning from a dataset.", "core")
