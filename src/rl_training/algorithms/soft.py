"""Base of SAC, TQC and CrossQ: a stochastic actor whose entropy counts as reward, at a learned temperature."""

from __future__ import annotations

import math
import re
from abc import abstractmethod
from dataclasses import dataclass
from typing import Annotated, Literal, TypeVar

import torch
from torch import Tensor, nn

from rl_training.algorithms.continuous import ContinuousAlgorithm, ContinuousConfig, TargetedAlgorithm, TargetedConfig
from rl_training.core import Loss, Step, StepBatch, Supply, Tree
from rl_training.core.ranges import Count, PositiveSchedule, Range, Real
from rl_training.functional import weighted_mean
from rl_training.models import ObservationNormalizer, SquashedGaussianPolicy


@dataclass(frozen=True, kw_only=True)
class SoftConfig(ContinuousConfig):
    """Settings of the temperature."""

    ent_coef: Annotated[float | str, Range(above=0)] = "auto"  # "auto": learned; "auto_0.1": starting there
    ent_coef_learning_rate: PositiveSchedule | None = None  # None: as learning_rate
    target_entropy: Real | Literal["auto"] = "auto"  # auto: minus the number of actions

    def check(self, supply: Supply) -> None:
        super().check(supply)
        if isinstance(self.ent_coef, str) and not 0 < self.starts_at(self.ent_coef) < math.inf:
            raise ValueError(
                f"algorithm.ent_coef={self.ent_coef!r} is not understood: use 'auto', 'auto_0.1' (learned, starting at 0.1) or "
                "a number above 0"
            )

    @staticmethod
    def starts_at(text: str) -> float:
        """Returns the initial temperature in "auto" (1) or "auto_<number>"; 0 if the text is neither."""
        match = re.fullmatch(r"auto(?:_(\d*\.?\d+(?:e[-+]?\d+)?))?", text)
        return 0.0 if match is None else float(match[1] or 1)

    @property
    def ent_coef_init(self) -> float:
        return self.starts_at(self.ent_coef) if isinstance(self.ent_coef, str) else self.ent_coef


@dataclass(frozen=True, kw_only=True)
class SoftTargetedConfig(SoftConfig, TargetedConfig):
    """Settings of methods with a temperature and target networks."""

    target_update_interval: Count = 1  # updates, not env steps
    critic_subset: Count | None = None  # critics drawn for a target; None: all

    def check(self, supply: Supply) -> None:
        super().check(supply)
        if self.critic_subset is not None and self.critic_subset > self.n_critics:
            raise ValueError(
                f"algorithm.critic_subset={self.critic_subset} is more than n_critics={self.n_critics}: lower it"
            )


SoftT = TypeVar("SoftT", bound=SoftConfig)
SoftTargetedT = TypeVar("SoftTargetedT", bound=SoftTargetedConfig)


class SoftAlgorithm(ContinuousAlgorithm[SoftT]):
    """Base whose values count the policy's entropy as reward; the temperature keeps that entropy at a target."""

    policy: SquashedGaussianPolicy  # pyrefly: ignore (narrower than the base, and never reassigned)
    loss_scale = 0.5

    def build_networks(self, normalizer: ObservationNormalizer) -> None:
        super().build_networks(normalizer)
        c = self.config
        self.log_ent_coef = nn.Parameter(torch.tensor(math.log(c.ent_coef_init)))
        self.target_entropy = -1.0 * self.action_size if c.target_entropy == "auto" else c.target_entropy
        self.add_optimizer("ent_coef", [self.log_ent_coef], rate=c.ent_coef_learning_rate)

    def build_policy(self, normalizer: ObservationNormalizer) -> SquashedGaussianPolicy:
        return SquashedGaussianPolicy(self.spec.seen_by("policy"), normalizer, self.build_actor(2 * self.action_size))

    @property
    def ent_coef(self) -> Tensor:
        return self.log_ent_coef.detach().exp()

    def update_actor(self, batch: StepBatch) -> Step:
        actor = self.minimize(self.actor_loss, batch, "actor")
        if not isinstance(self.config.ent_coef, str):
            return Step(actor.metrics)
        log_prob = actor.rows["log_prob"]
        temperature = self.minimize(lambda batch: self.ent_coef_loss(log_prob, batch), batch, "ent_coef")
        return Step(actor.metrics | temperature.metrics)

    def actor_loss(self, batch: StepBatch) -> Loss:
        action, log_prob = self.policy.distribution(batch.obs, train=True).draw()
        loss = self.weighted_loss(self.ent_coef * log_prob - self.actor_value(batch.obs, action), batch)
        entropy = -weighted_mean(log_prob.detach(), batch.weight)
        metrics = {"actor_loss": loss.detach(), "entropy": entropy}
        return Loss(loss, metrics, {"log_prob": log_prob.detach()})

    @abstractmethod
    def actor_value(self, obs: Tree, action: Tensor, *, train: bool = True) -> Tensor:
        """Returns the critics' value of the actor's actions, which the actor maximises."""

    def ent_coef_loss(self, log_prob: Tensor, batch: StepBatch) -> Loss:
        """Returns the loss that raises the temperature while the entropy is below its target, else lowers it."""
        loss = -self.log_ent_coef * self.weighted_loss(log_prob + self.target_entropy, batch)
        return Loss(loss, {"ent_coef_loss": loss.detach(), "ent_coef": self.ent_coef})

    def mode(self, obs: Tree) -> Tensor:
        return self.policy.distribution(obs).mode()


class SoftTargetedAlgorithm(SoftAlgorithm[SoftTargetedT], TargetedAlgorithm[SoftTargetedT]):
    """Base with a temperature and target critics, of which an update may use a random subset."""

    @property
    def target_interval(self) -> int:
        return self.config.target_update_interval

    def members(self) -> Tensor | None:
        """Returns the critics that make this update's target, for all its rows; None: all critics."""
        c = self.config
        if c.critic_subset is None or c.critic_subset == c.n_critics:
            return None
        return torch.rand(c.n_critics, device=self.log_ent_coef.device).topk(c.critic_subset).indices
