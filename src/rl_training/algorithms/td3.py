"""Twin Delayed DDPG (Fujimoto et al., 2018, arXiv:1802.09477); with its options off it is DDPG (arXiv:1509.02971)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from rl_training.algorithms.continuous import ContinuousAlgorithm, TargetedConfig
from rl_training.algorithms.target_networks import TargetNetworks, frozen_copy
from rl_training.core import Absent, Loss, Schedule, StepBatch, Tree, register
from rl_training.core.noise import noise_like
from rl_training.core.ranges import Count, NonNegative, PositiveSchedule
from rl_training.models import DeterministicPolicy, ObservationNormalizer


@dataclass(frozen=True, kw_only=True)
class TD3Config(TargetedConfig):
    """TD3's settings, with Stable-Baselines3's names and defaults; noise is in units of half the action range."""

    absent = {
        "target_update_interval": Absent("targets move with the actor, every policy_delay updates", 1, "policy_delay")
    }

    learning_rate: PositiveSchedule = Schedule(1e-3, 1e-3)
    policy_delay: Count = 2  # critic updates per actor and target update
    target_policy_noise: NonNegative = 0.2
    target_noise_clip: NonNegative = 0.5
    action_noise: Literal["gaussian", "ou", "none"] = "gaussian"  # how it explores
    action_noise_std: NonNegative = 0.1


@dataclass(frozen=True, kw_only=True)
class DDPGConfig(TD3Config):
    """DDPG's settings: one critic, no delay, no noise in the targets."""

    policy_delay: Count = 1
    target_policy_noise: NonNegative = 0.0
    n_critics: Count = 1


class TD3Algorithm(ContinuousAlgorithm[TD3Config]):
    """TD3: critics learn the smaller target value of the target actor's noisy action; the actor moves less often."""

    may_differ = ("actor_learning_rate", "action_noise_std", "target_noise_clip")
    why_not_stacked = None
    policy: DeterministicPolicy  # pyrefly: ignore (narrower than the base, and never reassigned)

    def build_policy(self, normalizer: ObservationNormalizer) -> DeterministicPolicy:
        c, size = self.config, self.action_size
        noise, spec = {"noise": c.action_noise, "noise_std": c.action_noise_std}, self.spec.seen_by("policy")
        return DeterministicPolicy(spec, normalizer, self.build_actor(size), size, **noise)

    def build_targets(self) -> None:
        super().build_targets()
        self.target_actor = frozen_copy(self.policy.network)
        if self.config.share_features_extractor:
            self.target_actor.borrow(self.targets.encoder)

    def target_networks(self) -> TargetNetworks:
        actors: tuple[nn.Module, nn.Module] = (self.target_actor, self.policy.network)
        if self.config.share_features_extractor:  # the encoder moves with the critics
            actors = (self.target_actor.net, self.policy.network.net)
        pairs = [(self.targets, self.critics), actors]
        return TargetNetworks(pairs, self.config.tau, self.config.policy_delay)

    def next_value(self, batch: StepBatch) -> Tensor:
        features, seen = self.next_features(batch.next_obs)
        return self.targets.read(seen, self.next_action(features)).squeeze(-1).amin(0)

    def next_features(self, next_obs: Tree) -> tuple[Tensor, Tensor]:
        """Returns the features for target actor and target critics; an encoder that they share runs once."""
        obs = self.critic_view(next_obs)
        features = self.target_actor.encode(obs)
        return features, features if self.config.share_features_extractor else self.targets.encode(obs)

    def next_action(self, features: Tensor) -> Tensor:
        """Returns the target actor's actions [batch, size] in [-1, 1], with clipped noise, for its features."""
        c, action = self.config, torch.tanh(self.target_actor.read(features))
        if c.target_policy_noise:
            noise = c.target_policy_noise * noise_like("normal", action)
            action = (action + noise.clamp(-c.target_noise_clip, c.target_noise_clip)).clamp(-1, 1)
        return action

    def actor_loss(self, batch: StepBatch) -> Loss:
        features, seen = self.actor_features(batch.obs)
        q = self.critics.read(seen, self.policy.choose(features), slice(1)).squeeze(-1)
        loss = self.weighted_loss(-q.squeeze(0), batch)
        return Loss(loss, {"actor_loss": loss.detach()})


register("td3", TD3Algorithm, TD3Config, "Twin Delayed DDPG.", "core")
register("ddpg", TD3Algorithm, DDPGConfig, "Deep Deterministic Policy Gradient.", "core")
