"""Soft Actor-Critic with a learned temperature (Haarnoja et al., 2018, arXiv:1812.05905).

REDQ (Chen et al., 2021, arXiv:2101.05982) is its options: more critics, a random few of them in every target, their
mean for the actor, many updates per step. Layer norm and dropout in the critics make it DroQ (arXiv:2110.02034); layer
norm and a dataset that fills half of every batch make it RLPD (Ball et al., 2023, arXiv:2302.02948).
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from torch import Tensor, nn

from rl_training.algorithms.continuous import ContinuousAlgorithm, ContinuousConfig, TargetedConfig
from rl_training.algorithms.target_networks import TargetNetworks
from rl_training.core import Loss, Needs, Step, StepBatch, Supply, register
from rl_training.core.noise import noise_like
from rl_training.core.ranges import Count, PositiveSchedule, Range, Real
from rl_training.functional import weighted_mean
from rl_training.models import ObservationNormalizer, SquashedGaussianPolicy


@dataclass(frozen=True, kw_only=True)
class SoftConfig(ContinuousConfig):
    """Settings of the temperature (the weight of entropy) in SAC, TQC and CrossQ."""

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
        """Returns the initial temperature that a text names: 1 for "auto", x for "auto_x", and 0 for any other text."""
        match = re.fullmatch(r"auto(?:_(\d*\.?\d+(?:e[-+]?\d+)?))?", text)
        return 0.0 if match is None else float(match[1] or 1)

    @property
    def ent_coef_init(self) -> float:
        return self.starts_at(self.ent_coef) if isinstance(self.ent_coef, str) else self.ent_coef


@dataclass(frozen=True, kw_only=True)
class SoftTargetedConfig(SoftConfig, TargetedConfig):
    """Settings of the temperature (the weight of entropy) and of the target networks in SAC and TQC."""

    target_update_interval: Count = 1  # updates, not env steps
    critic_subset: Count | None = None  # critics drawn for a target; None: all

    def check(self, supply: Supply) -> None:
        super().check(supply)
        if self.critic_subset is not None and self.critic_subset > self.n_critics:
            raise ValueError(
                f"algorithm.critic_subset={self.critic_subset} is more than n_critics={self.n_critics}: lower it"
            )


@dataclass(frozen=True, kw_only=True)
class SACConfig(SoftTargetedConfig):
    """SAC's settings, with Stable-Baselines3's names and defaults."""

    actor_critics: Literal["min", "mean"] = "min"  # of the critics' values, what the actor climbs


@dataclass(frozen=True, kw_only=True)
class REDQConfig(SACConfig):
    """REDQ's settings, with the paper's defaults."""

    needs = Needs("replay", {"train_freq": 1, "learning_starts": 5_000})

    gradient_steps: Annotated[int, Range(min=-1)] = 20
    policy_delay: Count = 20
    n_critics: Count = 10
    critic_subset: Count | None = 2
    actor_critics: Literal["min", "mean"] = "mean"


@dataclass(frozen=True, kw_only=True)
class RLPDConfig(REDQConfig):
    """RLPD's settings, the paper's: REDQ with layer norm in the critics and half of every batch from a dataset."""

    needs = REDQConfig.needs._replace(dataset=True)

    critic_layer_norm: bool = True


class SACAlgorithm(ContinuousAlgorithm[SACConfig]):
    """SAC: values count the policy's entropy as reward, at a temperature that keeps the entropy at a target."""

    may_differ = ("actor_learning_rate", "ent_coef", "ent_coef_learning_rate", "target_entropy")
    why_not_stacked = None
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

    def target_networks(self) -> TargetNetworks | None:
        return TargetNetworks([(self.targets, self.critics)], self.config.tau, self.config.target_update_interval)

    @property
    def ent_coef(self) -> Tensor:
        return self.log_ent_coef.detach().exp()

    def next_value(self, batch: StepBatch) -> Tensor:
        action, log_prob = self.policy.distribution(batch.next_obs).draw()
        q = self.targets(self.critic_view(batch.next_obs), action, self.members()).squeeze(-1)
        return q.amin(0) - self.ent_coef * log_prob

    def members(self) -> Tensor | None:
        """Returns the indices of randomly drawn critics for one target, `critic_subset` of them; None for all."""
        c = self.config
        if c.critic_subset is None or c.critic_subset == c.n_critics:
            return None
        return noise_like("uniform", self.log_ent_coef.new_empty(c.n_critics)).topk(c.critic_subset).indices

    def update_actor(self, batch: StepBatch) -> Step:
        actor = self.minimize(self.actor_loss, batch, "actor")
        if not isinstance(self.config.ent_coef, str):
            return Step(actor.metrics)
        drawn = batch._replace(columns=batch.columns | actor.rows)
        temperature = self.minimize(lambda rows: self.ent_coef_loss(rows.columns["log_prob"], rows), drawn, "ent_coef")
        return Step(actor.metrics | temperature.metrics)

    def actor_loss(self, batch: StepBatch) -> Loss:
        features, seen = self.actor_features(batch.obs)
        action, log_prob = self.policy.choices(features, train=True).draw()
        loss = self.weighted_loss(self.ent_coef * log_prob - self.actor_value(seen, action), batch)
        entropy = -weighted_mean(log_prob.detach(), batch.weight)
        metrics = {"actor_loss": loss.detach(), "entropy": entropy}
        return Loss(loss, metrics, {"log_prob": log_prob.detach()})

    def actor_value(self, features: Tensor, action: Tensor, *, train: bool = True) -> Tensor:
        """Returns the value [batch] of `action` [batch, size] that the actor raises: the critics' minimum or mean.

        `features` are those of the observations from the critics' encoder.
        """
        q = self.critics.read(features, action, train=train).squeeze(-1)
        return q.amin(0) if self.config.actor_critics == "min" else q.mean(0)

    def ent_coef_loss(self, log_prob: Tensor, batch: StepBatch) -> Loss:
        """Returns the loss that raises `ent_coef` while the policy's entropy is below its target, else lowers it."""
        loss = -self.log_ent_coef * self.weighted_loss(log_prob + self.target_entropy, batch)
        return Loss(loss, {"ent_coef_loss": loss.detach(), "ent_coef": self.ent_coef})


register("sac", SACAlgorithm, SACConfig, "Soft Actor-Critic.", "core")
register("redq", SACAlgorithm, REDQConfig, "SAC with many critics and many updates per step.")
register("rlpd", SACAlgorithm, RLPDConfig, "SAC from a dataset and the agent's own steps, half and half.")
