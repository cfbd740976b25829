"""Batch-constrained Q-learning for continuous actions (Fujimoto et al., 2019, arXiv:1812.02900)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from rl_training.algorithms.continuous import ContinuousAlgorithm, TargetedConfig, action_size
from rl_training.algorithms.target_networks import TargetNetworks, frozen_copy
from rl_training.core import Absent, Loss, Schedule, Step, StepBatch, Supply, register
from rl_training.core.ranges import Count, NonNegative, Positive, PositiveSchedule, Share
from rl_training.functional import weighted_mean
from rl_training.models import ActionVAE, Critics, ObservationNormalizer, Perturbation, ProposalPolicy


@dataclass(frozen=True, kw_only=True)
class BCQConfig(TargetedConfig):
    """BCQ's settings, with the authors' defaults."""

    absent = {
        "target_update_interval": Absent("targets move with the actor, every policy_delay updates", 1, "policy_delay"),
    }

    n_actions: Count | None = None  # that the model of the data proposes, to act; None: 100
    n_target_actions: Count | None = None  # for a target; None: n_actions, or 10 if that is None too
    perturbation: NonNegative = 0.05  # by how much they may be moved, in units of half the action range
    min_weight: Share = 0.75  # of the smallest critic in a target; the rest is the largest's
    vae_net_arch: tuple[Count, ...] = (750, 750)
    vae_beta: NonNegative = 0.5  # weight of the latents' divergence
    vae_learning_rate: PositiveSchedule | None = None  # None: the same
    latent_clip: Positive = 0.5  # of the latents that propose
    learning_rate: PositiveSchedule = Schedule(1e-3, 1e-3)
    batch_size: Count = 100
    net_arch: tuple[Count, ...] = (400, 300)

    def check(self, supply: Supply) -> None:
        super().check(supply)
        if self.share_features_extractor:
            raise ValueError(
                "algorithm.share_features_extractor=True is not for BCQ, whose networks for actions have encoders of their own: "
                "drop it"
            )

    @property
    def num_actions(self) -> int:
        """Returns how many actions the model of the data proposes when the policy acts: `n_actions`, or if None 100."""
        return self.n_actions or 100

    @property
    def num_target_actions(self) -> int:
        """Returns how many actions the model of the data proposes for a target value.

        That is `n_target_actions`, or if None `n_actions`, or if that is None too 10.
        """
        return self.n_target_actions or self.n_actions or 10


class BCQAlgorithm(ContinuousAlgorithm[BCQConfig]):
    """BCQ: Q-learning among actions that a model of the data proposes and a second network slightly moves."""

    critic_apart = False  # the policy asks its critic
    policy: ProposalPolicy  # pyrefly: ignore (narrower than the base, and never reassigned)

    def build_networks(self, normalizer: ObservationNormalizer) -> None:
        c = self.config
        self.action_size = action_size(self.spec, "BCQ")
        self.critics = Critics(self.spec.seen_by("critic").obs, self.action_size, self.build_critic_net, c.encoder)
        self.policy = self.build_policy(normalizer)
        self.build_targets()
        self.add_optimizer("critic", self.critics.parameters(), self.betas)
        self.add_optimizer("actor", self.policy.perturbation.parameters(), self.betas, c.actor_learning_rate)
        self.add_optimizer("vae", self.policy.vae.parameters(), self.betas, c.vae_learning_rate)

    def build_policy(self, normalizer: ObservationNormalizer) -> ProposalPolicy:
        c, size, spec = self.config, self.action_size, self.spec.seen_by("policy")
        style = {"activation_fn": c.activation_fn, "encoder": c.encoder}
        vae = ActionVAE(spec.obs, size, c.vae_net_arch, latent_clip=c.latent_clip, **style)
        perturbation = Perturbation(spec.obs, size, c.net_arch, limit=c.perturbation, **style)
        return ProposalPolicy(spec, normalizer, vae, perturbation, self.critics, c.num_actions)

    def build_targets(self) -> None:
        super().build_targets()
        self.target_perturbation = frozen_copy(self.policy.perturbation)

    def target_networks(self) -> TargetNetworks:
        pairs = [(self.targets, self.critics), (self.target_perturbation, self.policy.perturbation)]
        return TargetNetworks(pairs, self.config.tau, self.config.policy_delay)

    def update(self, batch: StepBatch) -> Step:
        vae = self.minimize(self.vae_loss, batch, "vae")
        critic = self.minimize(self.critic_loss, batch, "critic")
        return Step(vae.metrics | critic.metrics, critic.rows)

    def vae_loss(self, batch: StepBatch) -> Loss:
        error, divergence = self.policy.vae.losses(self.critic_view(batch.obs), batch.action)
        loss = self.weighted_loss(error + self.config.vae_beta * divergence, batch)
        return Loss(loss, {"vae_loss": loss.detach(), "vae_error": weighted_mean(error.detach(), batch.weight)})

    def next_value(self, batch: StepBatch) -> Tensor:
        c, obs = self.config, self.critic_view(batch.next_obs)
        latents = self.policy.vae.draw_latents(len(batch.weight), c.num_target_actions)
        q = self.targets.of_several(obs, self.policy.propose(obs, latents, self.target_perturbation)).squeeze(-1)
        return soft_minimum(q, c.min_weight).amax(-1)

    def actor_loss(self, batch: StepBatch) -> Loss:
        obs = self.critic_view(batch.obs)
        with torch.no_grad():
            proposed = torch.tanh(self.policy.vae.propose(obs, self.policy.vae.draw_latents(len(batch.weight), 1)))
        action = self.policy.perturbation(obs, proposed)
        loss = self.weighted_loss(-self.critics(obs, action.squeeze(1), slice(1)).flatten(), batch)
        moved = weighted_mean((action - proposed).detach().abs().mean((1, 2)), batch.weight)
        return Loss(loss, {"actor_loss": loss.detach(), "moved": moved})


def soft_minimum(q: Tensor, min_weight: float) -> Tensor:
    """Returns [...] from values [critic, ...]: `min_weight` * the smallest + (1 - `min_weight`) * the largest."""
    return min_weight * q.amin(0) + (1 - min_weight) * q.amax(0)


register("bcq", BCQAlgorithm, BCQConfig, "Q-learning among actions that a model of the data proposes.", "core")
