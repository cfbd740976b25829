"""BEAR: SAC whose policy stays within the support of the data (Kumar et al., 2019, arXiv:1906.00949)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from torch import Tensor, nn

from rl_training.algorithms.bcq import soft_minimum
from rl_training.algorithms.cql import several
from rl_training.algorithms.sac import SACAlgorithm, SACConfig
from rl_training.core import Loss, Schedule, Step, StepBatch, Tree, register
from rl_training.core.ranges import Count, Natural, NonNegative, Positive, PositiveSchedule, Range, Several, Share
from rl_training.functional import SquashedGaussian, squared_mmd, weighted_mean
from rl_training.models import ActionVAE, BestOfPolicy, ObservationNormalizer

LOG_ALPHA_RANGE = (-5.0, 10.0)


@dataclass(frozen=True, kw_only=True)
class BEARConfig(SACConfig):
    """BEAR's settings: those of SAC, with defaults for learning from data, and of the distance from the data."""

    mmd_threshold: Positive = 0.05  # that the distance is held at
    mmd_kernel: Literal["laplacian", "gaussian"] = "gaussian"
    mmd_sigma: Positive = 20.0  # width of the kernel
    n_mmd_actions: Several = 4  # of policy and data, which are compared
    alpha_init: Positive = 100.0  # weight of the distance, which is learned; it starts on the safe side
    alpha_learning_rate: PositiveSchedule = Schedule(1e-3, 1e-3)
    warmup_updates: Natural = 40_000  # in which the policy learns nothing but to be near the data
    n_target_actions: Count = 10  # of the policy, whose best is a target's
    n_actions: Count = 100  # of the policy, whose best is done without exploration
    min_weight: Share = 0.75  # of the smallest critic in a target; the rest is the largest's
    vae_net_arch: tuple[Count, ...] = (750, 750)
    vae_beta: NonNegative = 0.5  # weight of the latents' divergence
    vae_learning_rate: PositiveSchedule | None = Schedule(3e-5, 3e-5)  # slow enough for the policy to follow the model
    latent_clip: Positive = 0.5  # of the latents that stand for the data
    actor_learning_rate: PositiveSchedule | None = Schedule(1e-3, 1e-3)
    ent_coef: Annotated[float | str, Range(above=0)] = 1e-3  # next to nothing: the paper rewards no entropy


class BEARAlgorithm(SACAlgorithm):
    """BEAR: SAC whose policy's distance from a model of the data is held at a threshold by a learned weight."""

    why_not_stacked = "is for logged data, which a stack does not learn from"
    config: BEARConfig  # pyrefly: ignore (narrower than the base)
    policy: BestOfPolicy  # pyrefly: ignore (narrower than the base, and never reassigned)
    critic_apart = False  # the policy asks its critic
    updates: Tensor

    def build_networks(self, normalizer: ObservationNormalizer) -> None:
        super().build_networks(normalizer)
        c = self.config
        self.policy.ask(self.critics)
        style = {"activation_fn": c.activation_fn, "encoder": c.encoder, "latent_clip": c.latent_clip}
        self.vae = ActionVAE(self.spec.seen_by("policy").obs, self.action_size, c.vae_net_arch, **style)
        self.log_alpha = nn.Parameter(torch.tensor(math.log(c.alpha_init)))
        self.add_optimizer("vae", self.vae.parameters(), rate=c.vae_learning_rate)
        self.add_optimizer("alpha", [self.log_alpha], rate=c.alpha_learning_rate)
        self.register_buffer("updates", torch.zeros((), dtype=torch.int64))

    def build_policy(self, normalizer: ObservationNormalizer) -> BestOfPolicy:
        actor = self.build_actor(2 * self.action_size)
        spec = self.spec.seen_by("policy")
        return BestOfPolicy(spec, normalizer, actor, self.config.n_actions, self.action_size)

    @property
    def warm(self) -> Tensor:
        """Returns 0.0 during the warm-up and 1.0 after it, as a 0-dim tensor, so that compiled code sees the change."""
        return (self.updates > self.config.warmup_updates).float()

    def update(self, batch: StepBatch) -> Step:
        self.updates.add_(1)
        vae = self.minimize(self.vae_loss, batch, "vae")
        critic = super().update(batch)
        return Step(vae.metrics | critic.metrics, critic.rows)

    def vae_loss(self, batch: StepBatch) -> Loss:
        error, divergence = self.vae.losses(self.critic_view(batch.obs), batch.action)
        loss = self.weighted_loss(error + self.config.vae_beta * divergence, batch)
        return Loss(loss, {"vae_loss": loss.detach(), "vae_error": weighted_mean(error.detach(), batch.weight)})

    def next_value(self, batch: StepBatch) -> Tensor:
        there = several(self.policy.distribution(batch.next_obs), self.config.n_target_actions)
        action, log_prob = there.draw()
        q = self.targets.of_several(self.critic_view(batch.next_obs), action, self.members()).squeeze(-1)
        value, best = soft_minimum(q, self.config.min_weight).max(-1, keepdim=True)
        return (value - self.ent_coef * log_prob.gather(-1, best)).squeeze(-1)

    def update_actor(self, batch: StepBatch) -> Step:
        actor = super().update_actor(batch)
        mmd = actor.metrics["mmd"]
        alpha = self.minimize(lambda batch: self.alpha_loss(mmd), batch, "alpha")
        with torch.no_grad():
            self.log_alpha.clamp_(*LOG_ALPHA_RANGE)
        return Step(actor.metrics | alpha.metrics)

    def actor_loss(self, batch: StepBatch) -> Loss:
        features, seen = self.actor_features(batch.obs)
        distribution = self.policy.choices(features, train=True)
        far = self.distance(distribution, batch.obs)
        action, log_prob = distribution.draw()
        soft = self.ent_coef * log_prob - self.actor_value(seen, action)
        alpha = self.log_alpha.detach().exp()
        loss = self.weighted_loss(self.warm * soft + alpha * (far - self.config.mmd_threshold), batch)
        entropy = -weighted_mean(log_prob.detach(), batch.weight)
        metrics = {"actor_loss": loss.detach(), "entropy": entropy, "mmd": weighted_mean(far.detach(), batch.weight)}
        return Loss(loss, metrics, {"log_prob": log_prob.detach()})

    def distance(self, distribution: SquashedGaussian, obs: Tree) -> Tensor:
        """Returns the maximum mean discrepancy [batch] between actions of the policy and of the data's model.

        Both are drawn, and taken before tanh; `distribution` is the policy's at `obs`.
        """
        c = self.config
        mean, log_std = several(distribution, c.n_mmd_actions)
        drawn = mean + log_std.exp() * torch.randn_like(mean)
        with torch.no_grad():
            data = self.vae.propose(self.critic_view(obs), self.vae.draw_latents(len(mean), c.n_mmd_actions))
        return (squared_mmd(drawn, data, kernel=c.mmd_kernel, sigma=c.mmd_sigma) + 1e-6).sqrt()

    def alpha_loss(self, mmd: Tensor) -> Loss:
        """Returns the loss that raises the weight of the distance `mmd`, 0-dim, if above its threshold, or lowers it.

        It is 0 during the warm-up.
        """
        loss = -self.warm * self.log_alpha.exp() * (mmd - self.config.mmd_threshold)
        return Loss(loss, {"bear_alpha": self.log_alpha.detach().exp()})

    def ent_coef_loss(self, log_prob: Tensor, batch: StepBatch) -> Loss:
        loss, metrics, rows = super().ent_coef_loss(log_prob, batch)
        return Loss(self.warm * loss, metrics, rows)


register("bear", BEARAlgorithm, BEARConfig, "SAC whose policy stays within the support of a model of the data.")
