"""Advantage-weighted regression (Peng et al., 2019, arXiv:1910.00177) on rollouts, and a corridor to walk along."""

from dataclasses import dataclass

import gymnasium as gym
import numpy as np
from torch import Tensor

from rl_training.core import Adam, Needs, Optimizer, Pass, Schedule
from rl_training.core.ranges import Count, Positive, PositiveSchedule
from rl_training.extending import ActorCriticAlgorithm, ActorCriticConfig, register_algorithm
from rl_training.functional import weighted_mean


@dataclass(frozen=True, kw_only=True)
class AWRConfig(ActorCriticConfig):
    needs = Needs("rollout", {"n_steps": 64})

    learning_rate: PositiveSchedule = Schedule(1e-3, 1e-3)
    batch_size: Count = 128
    n_epochs: Count = 10
    beta: Positive = 0.5  # temperature: lower trusts advantages more
    max_weight: Positive = 20.0


class AWRAlgorithm(ActorCriticAlgorithm[AWRConfig]):
    """Pulls the policy towards the actions that it took, the more the better they turned out."""

    def build_optimizer(self, groups: list) -> Optimizer:
        return Adam(groups, max_grad_norm=self.config.max_grad_norm)

    def passes(self) -> tuple[Pass, ...]:
        return (Pass(self.config.n_epochs, self.config.batch_size),)

    def policy_loss(self, log_ratio: Tensor, log_prob: Tensor, advantage: Tensor, weight: Tensor) -> tuple:
        attraction = (advantage / self.config.beta).exp().clamp(max=self.config.max_weight)
        return -weighted_mean(attraction * log_prob, weight), {"attraction": weighted_mean(attraction, weight)}


register_algorithm("awr", AWRAlgorithm, AWRConfig, "Advantage-weighted regression on rollouts.")


class Corridor(gym.Env):
    observation_space = gym.spaces.Box(0.0, 1.0, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)  # left, right

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple:
        super().reset(seed=seed)
        self.cell = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: int) -> tuple:
        self.cell = max(self.cell + (1 if action == 1 else -1), 0)
        reached = self.cell == 8
        return np.array([self.cell / 8], np.float32), 1.0 if reached else -0.1, reached, False, {}


gym.register("Corridor-v0", "awr_corridor:Corridor", max_episode_steps=50)
