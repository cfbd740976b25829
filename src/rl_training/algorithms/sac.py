"""Soft Actor-Critic with a learned temperature (Haarnoja et al., 2018, arXiv:1812.05905).

REDQ (Chen et al., 2021, arXiv:2101.05982) is its options: more critics, a random few of them in every target, their
mean for the actor, many updates per step. Layer norm and dropout in the critics make it DroQ (arXiv:2110.02034); layer
norm and a dataset that fills half of every batch make it RLPD (Ball et al., 2023, arXiv:2302.02948).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from torch import Tensor

from rl_training.algorithms.soft import SoftTargetedAlgorithm, SoftTargetedConfig
from rl_training.core import Needs, StepBatch, Tree, register
from rl_training.core.ranges import Count, Range


@dataclass(frozen=True, kw_only=True)
class SACConfig(SoftTargetedConfig):
    """SAC's settings, with Stable-Baselines3's names and defaults."""

    actor_critics: Literal["min", "mean"] = "min"  # of the critics' values, what the actor climbs


@dataclass(frozen=True, kw_only=True)
class REDQConfig(SACConfig):
    """REDQ's settings, the paper's."""

    needs = Needs("replay", {"train_freq": 1, "learning_starts": 5_000})

    gradient_steps: Annotated[int, Range(min=-1)] = 20
    policy_delay: Count = 20
    n_critics: Count = 10
    critic_subset: Count | None = 2
    actor_critics: Literal["min", "mean"] = "mean"


@dataclass(frozen=True, kw_only=True)
class RLPDConfig(REDQConfig):
    """RLPD's settings, the paper's: REDQ with layer norm in the critics, and half of every batch from the dataset."""

    needs = REDQConfig.needs._replace(dataset=True)

    critic_layer_norm: bool = True


class SACAlgorithm(SoftTargetedAlgorithm[SACConfig]):
    """SAC: the smallest target value trains the critics; the actor maximises their smallest value or their mean."""

    def next_value(self, batch: StepBatch) -> Tensor:
        action, log_prob = self.policy.distribution(batch.next_obs).draw()
        q = self.targets(self.critic_view(batch.next_obs), action, self.members()).squeeze(-1)
        return q.amin(0) - self.ent_coef * log_prob

    def actor_value(self, obs: Tree, action: Tensor, *, train: bool = True) -> Tensor:
        q = self.critics(self.critic_view(obs), action, train=train).squeeze(-1)
        return q.amin(0) if self.config.actor_critics == "min" else q.mean(0)


class RLPDAlgorithm(SACAlgorithm):
    """RLPD: SAC with other settings and a dataset in every batch."""


register("sac", SACAlgorithm, SACConfig, "Soft Actor-Critic.", "core")
register("redq", SACAlgorithm, REDQConfig, "SAC with many critics and many updates per step.")
register("rlpd", RLPDAlgorithm, RLPDConfig, "SAC from a dataset and the agent's own steps, half and half.")
