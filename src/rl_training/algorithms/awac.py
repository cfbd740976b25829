"""Advantage-weighted actor-critic (Nair et al., 2020, arXiv:2006.09359)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from rl_training.algorithms.advantage_weighted import AdvantageWeightedAlgorithm, AdvantageWeightedConfig
from rl_training.core import StepBatch, register
from rl_training.core.ranges import Count


@dataclass(frozen=True, kw_only=True)
class AWACConfig(AdvantageWeightedConfig):
    """AWAC's settings, with the paper's defaults for locomotion; the paper's lambda is 1 / beta."""

    n_actions: Count = 1  # of the policy, which the data's action is compared with
    weights: Literal["clipped", "softmax"] = "clipped"  # softmax: over the batch, times its size
    batch_size: Count = 1024
    net_arch: tuple[Count, ...] = (256, 256, 256, 256)


class AWACAlgorithm(AdvantageWeightedAlgorithm[AWACConfig]):
    """AWAC: critics learn the policy's values; the policy clones the data's actions, better ones more."""

    log_std_range = (-6.0, 0.0)
    why_not_shared = "its weights may be a softmax over the whole batch"

    def next_value(self, batch: StepBatch) -> Tensor:
        action = self.policy.distribution(batch.next_obs).sample().clamp(-1, 1)
        return self.targets(self.critic_view(batch.next_obs), action).squeeze(-1).amin(0)

    def advantage(self, batch: StepBatch) -> Tensor:
        distribution = self.policy.distribution(batch.obs)
        mean = distribution.mean.unsqueeze(1).expand(-1, self.config.n_actions, -1)
        drawn = distribution._replace(mean=mean).sample().clamp(-1, 1)
        actions = torch.cat([batch.action.unsqueeze(1), drawn], 1)
        q = self.critics.of_several(self.critic_view(batch.obs), actions).squeeze(-1).amin(0)
        return q[:, 0] - q[:, 1:].mean(-1)

    def weigh(self, advantage: Tensor, batch: StepBatch) -> Tensor:
        if self.config.weights == "clipped":
            return super().weigh(advantage, batch)
        counts = batch.weight > 0
        logits = torch.where(counts, self.config.beta * advantage, -math.inf)
        return logits.softmax(0) * counts.sum()


register("awac", AWACAlgorithm, AWACConfig, "Advantage-weighted actor-critic, from a dataset and online.", "core")
