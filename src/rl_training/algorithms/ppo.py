"""Proximal Policy Optimization (Schulman et al., 2017, arXiv:1707.06347)."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TypeVar

from torch import Tensor, nn

from rl_training.algorithms.on_policy import OnPolicyAlgorithm, OnPolicyConfig
from rl_training.core import Adam, Loss, Metrics, Needs, Pass, RolloutBatch, Schedule, Scheduled, Spec, Step, Supply
from rl_training.core.optimizer import Group, Optimizer
from rl_training.core.ranges import Count, NonNegative, Positive, PositiveSchedule, RealSchedule
from rl_training.core.registry import register
from rl_training.functional import approx_kl, clip_fraction, clipped_surrogate, clipped_value_loss, weighted_mean


@dataclass(frozen=True, kw_only=True)
class ActorCriticConfig(OnPolicyConfig):
    """Settings of PPO and A2C: policy, value and entropy in one loss, with one optimizer."""

    vf_learning_rate: PositiveSchedule | None = None  # None: the same
    ent_coef: RealSchedule = Schedule(0.0, 0.0)
    vf_coef: NonNegative = 0.5  # times the mean squared error, without a half
    max_grad_norm: Positive | None = 0.5


ConfigT = TypeVar("ConfigT", bound=ActorCriticConfig)


class ActorCriticAlgorithm(OnPolicyAlgorithm[ConfigT]):
    """Base of PPO and A2C: minimises policy loss + vf_coef * value loss - ent_coef * entropy."""

    may_differ = ("vf_learning_rate", "ent_coef", "vf_coef", "max_grad_norm")

    def build_optimizers(self, policy: list[nn.Parameter], value: list[nn.Parameter]) -> None:
        c = self.config
        self.ent_coef = Scheduled(c.ent_coef)
        groups: list[Group] = [(policy + value, c.learning_rate)]
        if c.vf_learning_rate is not None:
            groups = [(policy, c.learning_rate), (value, c.vf_learning_rate)]
        self.optimizers["all"] = self.build_optimizer(groups)

    @abstractmethod
    def build_optimizer(self, groups: list[Group]) -> Optimizer: ...

    @abstractmethod
    def policy_loss(
        self, log_ratio: Tensor, log_prob: Tensor, advantage: Tensor, weight: Tensor
    ) -> tuple[Tensor, Metrics]:
        """Returns the policy's loss, 0-dim, and metrics, for arguments with one number per row.

        `log_ratio` is the actions' new `log_prob` minus that under the policy that acted.
        """

    def update(self, batch: RolloutBatch) -> Step:
        return self.minimize(self.loss, batch, "all")

    def loss(self, batch: RolloutBatch) -> Loss:
        weight, advantage = batch.weight, self.batch_advantage(batch)
        policy_features, critic_features = self.both_features(batch.obs)
        distribution = self.distribution_of(policy_features, batch)
        log_prob = distribution.log_prob(batch.action)
        log_ratio = log_prob - batch.log_prob
        policy_loss, metrics = self.policy_loss(log_ratio, log_prob, advantage, weight)
        value_loss = self.value_loss(self.values_of(critic_features, batch), batch)
        entropy_loss = -weighted_mean(distribution.entropy(), weight)
        loss = policy_loss + self.config.vf_coef * value_loss + self.ent_coef() * entropy_loss
        parts = {"policy_gradient_loss": policy_loss, "value_loss": value_loss, "entropy_loss": entropy_loss}
        return Loss(loss, {name: part.detach() for name, part in (parts | metrics | {"loss": loss}).items()})


@dataclass(frozen=True, kw_only=True)
class PPOConfig(ActorCriticConfig):
    """PPO's settings, with Stable-Baselines3's names and defaults."""

    needs = Needs("rollout", {"n_steps": 2048})

    learning_rate: PositiveSchedule = Schedule(3e-4, 3e-4)
    batch_size: Count = 64
    n_epochs: Count = 10
    clip_range: PositiveSchedule = Schedule(0.2, 0.2)
    clip_range_vf: PositiveSchedule | None = None  # None: no value clipping
    target_kl: Positive | None = None  # stop the iteration at 1.5 times this
    adam_eps: Positive = 1e-5

    def check(self, supply: Supply) -> None:
        super().check(supply)
        supply.check_batch_size(self.batch_size)
        if self.normalize_advantage and (self.batch_size == 1 or supply.num_rows % self.batch_size == 1):
            raise ValueError(
                f"algorithm.batch_size={self.batch_size} leaves a minibatch of one sample out of {supply.num_rows}, whose advantage "
                "cannot be normalised: choose another batch_size or set normalize_advantage=false"
            )


class PPOAlgorithm(ActorCriticAlgorithm[PPOConfig]):
    """PPO: several epochs of clipped policy improvement on each rollout."""

    may_differ = ("clip_range", "clip_range_vf", "target_kl", "adam_eps")
    why_not_stacked = None

    def __init__(self, config: PPOConfig, spec: Spec) -> None:
        super().__init__(config, spec)
        self.clip_range = Scheduled(config.clip_range)
        self.clip_range_vf = Scheduled(config.clip_range_vf) if config.clip_range_vf is not None else None

    def build_optimizer(self, groups: list[Group]) -> Optimizer:
        return Adam(groups, eps=self.config.adam_eps, max_grad_norm=self.config.max_grad_norm)

    def passes(self) -> tuple[Pass, ...]:
        return (Pass(self.config.n_epochs, self.config.batch_size),)

    def policy_loss(
        self, log_ratio: Tensor, log_prob: Tensor, advantage: Tensor, weight: Tensor
    ) -> tuple[Tensor, Metrics]:
        ratio = log_ratio.exp()
        objective = clipped_surrogate(ratio, advantage, self.clip_range())
        metrics = {
            "approx_kl": weighted_mean(approx_kl(log_ratio), weight),
            "clip_fraction": weighted_mean(clip_fraction(ratio, self.clip_range()), weight),
        }
        return -weighted_mean(objective, weight), metrics

    def value_loss(self, value: Tensor, batch: RolloutBatch) -> Tensor:
        if self.clip_range_vf is None:
            return super().value_loss(value, batch)
        error = clipped_value_loss(value, batch.value, batch.target, self.clip_range_vf())
        return weighted_mean(error, batch.weight)

    def diagnostics(self) -> Metrics:
        return super().diagnostics() | {"clip_range": self.clip_range().clone()}

    def wants_stop(self, metrics: Metrics) -> Tensor | None:
        return None if self.config.target_kl is None else metrics["approx_kl"] > 1.5 * self.config.target_kl


register("ppo", PPOAlgorithm, PPOConfig, "Proximal Policy Optimization.", "core")
