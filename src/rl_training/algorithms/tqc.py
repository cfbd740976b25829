"""Truncated Quantile Critics (Kuznetsov et al., 2020, arXiv:2005.04269)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from rl_training.algorithms.sac import SACAlgorithm, SoftTargetedConfig
from rl_training.core import Absent, Loss, StepBatch, Supply, register
from rl_training.core.ranges import Count, Natural
from rl_training.functional import quantile_huber, truncated_mixture
from rl_training.models import ObservationNormalizer


@dataclass(frozen=True, kw_only=True)
class TQCConfig(SoftTargetedConfig):
    """TQC's settings, with sb3-contrib's names and defaults."""

    absent = {"actor_critics": Absent("its actor climbs the mean of all quantiles", "min")}

    n_quantiles: Count = 25
    top_quantiles_to_drop_per_net: Natural = 2

    def check(self, supply: Supply) -> None:
        super().check(supply)
        if self.top_quantiles_to_drop_per_net >= self.n_quantiles:
            raise ValueError(
                f"algorithm.top_quantiles_to_drop_per_net={self.top_quantiles_to_drop_per_net} leaves nothing of "
                f"n_quantiles={self.n_quantiles}: lower it"
            )


class TQCAlgorithm(SACAlgorithm):
    """TQC: SAC whose critics learn the return's quantiles; targets drop the largest of the pooled quantiles."""

    config: TQCConfig  # pyrefly: ignore (SAC's, without `actor_critics`)
    fractions: Tensor

    def build_networks(self, normalizer: ObservationNormalizer) -> None:
        num = self.outputs = self.config.n_quantiles
        super().build_networks(normalizer)
        self.register_buffer("fractions", (torch.arange(num) + 0.5) / num)

    def next_value(self, batch: StepBatch) -> Tensor:
        """Returns the quantiles of the next value, [batch, kept], without the largest and with the entropy added."""
        action, log_prob = self.policy.distribution(batch.next_obs).draw()
        quantiles = self.targets(self.critic_view(batch.next_obs), action, self.members())
        kept = truncated_mixture(quantiles, self.config.top_quantiles_to_drop_per_net)
        return kept - (self.ent_coef * log_prob).unsqueeze(-1)

    def critic_loss(self, batch: StepBatch, *, train: bool = True) -> Loss:
        with torch.no_grad():
            target = batch.reward.unsqueeze(-1) + batch.discount.unsqueeze(-1) * self.next_value(batch)
        current = self.critics(self.critic_view(batch.obs), batch.action, train=train)  # [critic, batch, quantile]
        loss = quantile_huber(current, self.fractions, target.expand(len(current), -1, -1), 1.0)
        mean = self.weighted_loss(loss.mean(0) / self.config.n_quantiles, batch)  # over quantiles, as sb3-contrib
        error = (current.mean(-1) - target.mean(-1)).abs().mean(0)
        return self.critic_result(mean, current, error, batch)

    def actor_value(self, features: Tensor, action: Tensor, *, train: bool = True) -> Tensor:
        return self.critics.read(features, action, train=train).mean((0, -1))


register("tqc", TQCAlgorithm, TQCConfig, "SAC whose critics learn truncated quantiles of the return.", "core")
