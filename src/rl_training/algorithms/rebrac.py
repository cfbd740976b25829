"""ReBRAC: TD3 whose actor and targets both stay near the data, each by a weight of its own.

Tarasov et al. (2023), arXiv:2305.09836.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from rl_training.algorithms.td3 import TD3Algorithm, TD3Config
from rl_training.algorithms.td3_bc import of_mean_size_one
from rl_training.core import Column, Loss, StepBatch, register
from rl_training.core.ranges import Count, NonNegative
from rl_training.functional import weighted_mean


@dataclass(frozen=True, kw_only=True)
class ReBRACConfig(TD3Config):
    """ReBRAC's settings: those of TD3, and weights of distances from the data; defaults are the paper's."""

    actor_beta: NonNegative = 0.001  # weight of the actor's squared distance from the data's actions
    critic_beta: NonNegative = 0.01  # the same for the next actions, in the critics' targets
    normalize_q: bool = True  # the actor's values are divided by their mean size
    batch_size: Count = 1024
    net_arch: tuple[Count, ...] = (256, 256, 256)
    critic_layer_norm: bool = True


class ReBRACAlgorithm(TD3Algorithm):
    """ReBRAC: TD3 with squared distances from the data's actions in the actor's loss and the critics' targets."""

    why_not_stacked = "is for logged data, which a stack does not learn from"
    config: ReBRACConfig  # pyrefly: ignore (narrower than the base)

    @property
    def columns(self) -> tuple[Column, ...]:
        return (Column("next_action", source="episode"),)

    def next_value(self, batch: StepBatch) -> Tensor:
        features, seen = self.next_features(batch.next_obs)
        action = self.next_action(features)
        far = (action - batch.columns["next_action"]).square().sum(-1)
        return self.targets.read(seen, action).squeeze(-1).amin(0) - self.config.critic_beta * far

    def actor_loss(self, batch: StepBatch) -> Loss:
        c, (features, seen) = self.config, self.actor_features(batch.obs)
        action = self.policy.choose(features)
        q = self.critics.read(seen, action).squeeze(-1).amin(0)
        far = (action - batch.action).square().sum(-1)
        value = of_mean_size_one(q, batch, self.ranks) if c.normalize_q else q
        loss = self.weighted_loss(c.actor_beta * far - value, batch)
        return Loss(loss, {"actor_loss": loss.detach(), "bc_loss": weighted_mean(far.detach(), batch.weight)})


register("rebrac", ReBRACAlgorithm, ReBRACConfig, "TD3 from data, with distances from the data in both losses.", "core")
