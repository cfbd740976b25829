"""Base of IQL and AWAC: a policy that clones the data's actions, weighted by the critics' advantage of each."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, TypeVar

import torch
from torch import Tensor

from rl_training.algorithms.continuous import ContinuousAlgorithm, TargetedConfig
from rl_training.algorithms.target_networks import TargetNetworks
from rl_training.core import Loss, StepBatch
from rl_training.core.ranges import NonNegative, Positive
from rl_training.functional import advantage_weights, weighted_mean
from rl_training.models import ClippedGaussianPolicy, ObservationNormalizer


@dataclass(frozen=True, kw_only=True)
class AdvantageWeightedConfig(TargetedConfig):
    """Settings of methods that clone the data's actions with weights exp(beta * advantage)."""

    beta: NonNegative = 1.0  # weights are exp(beta * advantage); 0 is behaviour cloning
    max_weight: Positive = 100.0  # larger ones count as this


WeightedT = TypeVar("WeightedT", bound=AdvantageWeightedConfig)


class AdvantageWeightedAlgorithm(ContinuousAlgorithm[WeightedT]):
    """Base of IQL and AWAC: a policy that clones the data's actions, weighted by exp(beta * advantage), and critics."""

    policy: ClippedGaussianPolicy  # pyrefly: ignore (narrower than the base, and never reassigned)
    log_std_range: ClassVar[tuple[float, float]]

    def build_policy(self, normalizer: ObservationNormalizer) -> ClippedGaussianPolicy:
        spec, size = self.spec.seen_by("policy"), self.action_size
        return ClippedGaussianPolicy(spec, normalizer, self.build_actor(size), size, log_std_range=self.log_std_range)

    def target_networks(self) -> TargetNetworks:
        return TargetNetworks([(self.targets, self.critics)], self.config.tau, every=1)

    @abstractmethod
    def advantage(self, batch: StepBatch) -> Tensor:
        """Returns the advantage [batch] of the data's actions, by the critics."""

    def weigh(self, advantage: Tensor, batch: StepBatch) -> Tensor:
        """Returns the weights [batch] with which the data's actions are cloned."""
        return advantage_weights(advantage, self.config.beta, self.config.max_weight)

    def actor_loss(self, batch: StepBatch) -> Loss:
        with torch.no_grad():
            weight = self.weigh(self.advantage(batch), batch)
        log_prob = self.policy.distribution(batch.obs).log_prob(batch.action)
        loss = self.weighted_loss(-weight * log_prob, batch)
        metrics = {"actor_loss": loss.detach(), "advantage_weight": weighted_mean(weight, batch.weight)}
        return Loss(loss, metrics)
