"""APPO: PPO on steps of an older policy, corrected by V-trace towards a target network, as RLlib defines it.

The clipped objective keeps the policy near the target network instead of the policy that acted (arXiv:1912.00167).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from rl_training.algorithms.impala import VTraceConfig, corrected
from rl_training.algorithms.ppo import PPOAlgorithm, PPOConfig
from rl_training.algorithms.target_networks import follow, frozen_copy
from rl_training.core import Metrics, RolloutBatch, Rows, Spec, Transition, register
from rl_training.core.ranges import Count
from rl_training.functional import normalize_advantage, weighted_mean
from rl_training.models import StochasticPolicy


@dataclass(frozen=True, kw_only=True)
class APPOConfig(PPOConfig, VTraceConfig):
    """APPO's settings: those of PPO, with the same defaults, and of V-trace, which corrects for older policies."""

    target_update_interval: Count = 1  # rollouts; 1: the target is the policy as it was before the epochs, as in PPO


class APPOAlgorithm(PPOAlgorithm):
    """APPO: PPO's clipped improvement near a target network, on rollouts of older policies that V-trace corrects."""

    why_not_stacked = "learns from rollouts of older policies, which samplers collect meanwhile"
    corrects_lag = True
    config: APPOConfig  # pyrefly: ignore (narrower than the base, and never reassigned)
    num_rollouts: Tensor

    def __init__(self, config: APPOConfig, spec: Spec) -> None:
        super().__init__(config, spec)
        trunk, head = frozen_copy(self.policy.trunk), frozen_copy(self.policy.head)
        self.target = StochasticPolicy(self.policy.spec, self.normalizer, trunk, head)
        self.register_buffer("num_rollouts", torch.zeros((), dtype=torch.int64))

    def estimate(self, rollout: Transition, value: Tensor, next_value: Tensor) -> tuple[Tensor, Tensor, Rows]:
        due = self.num_rollouts % self.config.target_update_interval == 0
        follow(self.target, self.policy, due.to(value.dtype))
        self.num_rollouts += 1
        log_prob = self.target.distribution(rollout.obs).log_prob(rollout.action)
        estimates = corrected(self.config, rollout, log_prob, value, next_value)
        return estimates.advantage, estimates.target, {"target_log_prob": log_prob, "rho": estimates.rho}

    def prepare(self, rollout: Transition) -> tuple[RolloutBatch, Metrics]:
        batch, metrics = super().prepare(rollout)
        rho = weighted_mean(batch.columns["rho"], batch.weight)
        return batch._replace(log_prob=batch.columns["target_log_prob"]), metrics | {"rho": rho}

    def batch_advantage(self, batch: RolloutBatch) -> Tensor:
        rho, advantage = batch.columns["rho"], batch.advantage
        if self.config.normalize_advantage:
            advantage = normalize_advantage(advantage, batch.weight * rho)
        return rho * advantage


register("appo", APPOAlgorithm, APPOConfig, "PPO corrected for the age of the acting policy.", "contrib")
