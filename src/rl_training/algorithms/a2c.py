"""Advantage Actor-Critic (Mnih et al., 2016, arXiv:1602.01783), synchronous.

One full-batch step per rollout; equal to PPO with one epoch, one minibatch and no normalisation (arXiv:2205.09123).
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from rl_training.algorithms.ppo import ActorCriticAlgorithm, ActorCriticConfig
from rl_training.core import Adam, Metrics, Needs, Optimizer, Pass, RMSprop, Schedule, Supply, register
from rl_training.core.optimizer import Group
from rl_training.core.ranges import Positive, PositiveSchedule, Share
from rl_training.functional import weighted_mean


@dataclass(frozen=True, kw_only=True)
class A2CConfig(ActorCriticConfig):
    """A2C's settings, with Stable-Baselines3's names and defaults."""

    needs = Needs("rollout", {"n_steps": 5})

    learning_rate: PositiveSchedule = Schedule(7e-4, 7e-4)
    gae_lambda: Share = 1.0
    normalize_advantage: bool = False
    use_rms_prop: bool = True  # False: Adam
    rms_prop_eps: Positive = 1e-5  # also Adam's eps
    rms_prop_tf: bool = False  # eps inside the root, average started at one

    def check(self, supply: Supply) -> None:
        super().check(supply)
        if self.rms_prop_tf and not self.use_rms_prop:
            raise ValueError("algorithm.rms_prop_tf=true has no effect with use_rms_prop=false: set use_rms_prop=true")
        if self.normalize_advantage and supply.num_rows == 1:
            raise ValueError(
                "algorithm.normalize_advantage=true needs more than one sample per rollout: raise n_steps or n_envs"
            )


class A2CAlgorithm(ActorCriticAlgorithm[A2CConfig]):
    """A2C: one policy-gradient step on each rollout."""

    may_differ = ("rms_prop_eps",)
    why_not_stacked = None

    def build_optimizer(self, groups: list[Group]) -> Optimizer:
        c = self.config
        if not c.use_rms_prop:
            return Adam(groups, eps=c.rms_prop_eps, max_grad_norm=c.max_grad_norm)
        return RMSprop(groups, eps=c.rms_prop_eps, tf_like=c.rms_prop_tf, max_grad_norm=c.max_grad_norm)

    def passes(self) -> tuple[Pass, ...]:
        return (Pass(rounds=1, batch_size=None),)

    def policy_loss(
        self, log_ratio: Tensor, log_prob: Tensor, advantage: Tensor, weight: Tensor
    ) -> tuple[Tensor, Metrics]:
        return -weighted_mean(advantage * log_prob, weight), {}


register("a2c", A2CAlgorithm, A2CConfig, "Advantage Actor-Critic.", "core")
