"""TD3+BC: TD3 whose actor also imitates the data (Fujimoto and Gu, 2021, arXiv:2106.06860)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from rl_training.algorithms.td3 import TD3Algorithm, TD3Config
from rl_training.core import Loss, Ranks, Schedule, StepBatch, register
from rl_training.core.ranges import NonNegative, PositiveSchedule
from rl_training.functional import weighted_mean


@dataclass(frozen=True, kw_only=True)
class TD3BCConfig(TD3Config):
    """TD3+BC's settings: those of TD3 and the weight of the critic's values; defaults are the paper's, for data."""

    alpha: NonNegative = 2.5  # of the critic's values, whose mean size is made 1, beside the distance from the data
    learning_rate: PositiveSchedule = Schedule(3e-4, 3e-4)
    normalize_observation: bool = True


class TD3BCAlgorithm(TD3Algorithm):
    """TD3+BC: TD3 with the squared distance from the data's actions in the actor's loss."""

    why_not_stacked = "is for logged data, which a stack does not learn from"
    config: TD3BCConfig  # pyrefly: ignore (narrower than the base)

    def actor_loss(self, batch: StepBatch) -> Loss:
        features, seen = self.actor_features(batch.obs)
        action = self.policy.choose(features)
        q = self.critics.read(seen, action, slice(1)).flatten()
        far = (action - batch.action).square().mean(-1)
        loss = self.weighted_loss(far - self.config.alpha * of_mean_size_one(q, batch, self.ranks), batch)
        return Loss(loss, {"actor_loss": loss.detach(), "bc_loss": weighted_mean(far.detach(), batch.weight)})


def of_mean_size_one(q: Tensor, batch: StepBatch, ranks: Ranks) -> Tensor:
    """Returns values `q` [batch] divided by their mean size over all ranks, which cancels the scale of rewards."""
    size = ranks.mean(weighted_mean(q.detach().abs(), batch.weight), batch.weight)
    return q / size.clamp(min=1e-8)


register("td3_bc", TD3BCAlgorithm, TD3BCConfig, "TD3 from data, whose actor stays near the data's actions.", "core")
