"""What PPO and A2C share: policy, value and entropy in one loss, one optimizer for both networks."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import TypeVar

from torch import Tensor, nn

from rl_training.algorithms.on_policy import OnPolicyAlgorithm, OnPolicyConfig
from rl_training.core import Loss, Metrics, Optimizer, RolloutBatch, Schedule, Scheduled, Step
from rl_training.core.optimizer import Group
from rl_training.functional import normalize_advantage, weighted_mean


@dataclass(frozen=True, kw_only=True)
class ActorCriticConfig(OnPolicyConfig):
    """Settings of a joint loss."""

    vf_learning_rate: Schedule | None = field(default=None, metadata={"above": 0})  # None: the same
    ent_coef: Schedule = Schedule(0.0, 0.0)
    vf_coef: float = field(default=0.5, metadata={"min": 0})  # times the mean squared error, without a half
    max_grad_norm: float | None = field(default=0.5, metadata={"above": 0})


ConfigT = TypeVar("ConfigT", bound=ActorCriticConfig)


class ActorCriticAlgorithm(OnPolicyAlgorithm[ConfigT]):
    """Minimises policy loss + vf_coef * value loss - ent_coef * entropy."""

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
        """Returns the policy's loss and what to log of it."""

    def update(self, batch: RolloutBatch) -> Step:
        return self.minimize(self.loss, batch, "all")

    def loss(self, batch: RolloutBatch) -> Loss:
        weight, advantage = batch.weight, batch.advantage
        if self.config.normalize_advantage:
            advantage = normalize_advantage(advantage, weight)
        distribution = self.batch_distribution(batch)
        log_prob = distribution.log_prob(batch.action)
        log_ratio = log_prob - batch.log_prob
        policy_loss, metrics = self.policy_loss(log_ratio, log_prob, advantage, weight)
        value_loss = self.value_loss(self.batch_value(batch), batch)
        entropy_loss = -weighted_mean(distribution.entropy(), weight)
        loss = policy_loss + self.config.vf_coef * value_loss + self.ent_coef() * entropy_loss
        parts = {"policy_gradient_loss": policy_loss, "value_loss": value_loss, "entropy_loss": entropy_loss}
        return Loss(loss, {name: part.detach() for name, part in (parts | metrics | {"loss": loss}).items()})
