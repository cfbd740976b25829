"""Conservative Q-learning for discrete actions (Kumar et al., 2020, arXiv:2006.04779)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from rl_training.algorithms.dqn import DQNAlgorithm, DQNConfig
from rl_training.core import Metrics, Schedule, StepBatch, register
from rl_training.core.ranges import Count, NonNegative, PositiveSchedule
from rl_training.functional import conservative_gap
from rl_training.models import encode_mask, forbid


@dataclass(frozen=True, kw_only=True)
class DiscreteCQLConfig(DQNConfig):
    """Discrete CQL's settings: those of Double DQN, with defaults for learning from data, and a penalty's weight."""

    cql_alpha: NonNegative = 1.0  # weight of the penalty; 0 is DQN
    double: bool = True
    learning_rate: PositiveSchedule = Schedule(3e-4, 3e-4)
    batch_size: Count = 256
    target_update_interval: Count = 500  # updates, while learning from data
    net_arch: tuple[Count, ...] = (256, 256)


class DiscreteCQLAlgorithm(DQNAlgorithm):
    """DQN with a penalty that lowers the values of all actions relative to those of the data's actions."""

    why_not_stacked = "is for logged data, which a stack does not learn from"
    config: DiscreteCQLConfig  # pyrefly: ignore (narrower than the base)

    def penalty(self, q: Tensor, batch: StepBatch) -> tuple[Tensor | None, Metrics]:
        gap = conservative_gap(forbid(q, encode_mask(batch.obs)), batch.action)
        loss = self.weighted_loss(gap, batch)
        return self.config.cql_alpha * loss, {"conservative_loss": loss.detach()}


register("discrete_cql", DiscreteCQLAlgorithm, DiscreteCQLConfig, "Conservative Q-learning for discrete actions.")
