"""Soft Actor-Critic for discrete actions (Christodoulou, 2019, arXiv:1910.07207)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from torch import Tensor, nn

from rl_training.algorithms.normalizing import check_same_view
from rl_training.algorithms.off_policy import OffPolicyAlgorithm, OffPolicyConfig, num_actions
from rl_training.algorithms.target_networks import TargetNetworks, frozen_copy
from rl_training.core import Loss, Metrics, Schedule, Step, StepBatch, Tree, register
from rl_training.core.ranges import Count, Positive, PositiveSchedule, PositiveShare, Range
from rl_training.functional import Categorical, regression_loss, weighted_mean
from rl_training.models import (
    ActionHead,
    MeanHead,
    ObservationNormalizer,
    QNetwork,
    StochasticPolicy,
    build_encoder,
    dormant_share,
    encode_mask,
)


@dataclass(frozen=True, kw_only=True)
class DiscreteSACConfig(OffPolicyConfig):
    """Discrete SAC's settings; names as for SAC in Stable-Baselines3."""

    learning_rate: PositiveSchedule = Schedule(3e-4, 3e-4)
    batch_size: Count = 64
    tau: PositiveShare = 0.005
    target_update_interval: Count = 1  # env steps
    max_grad_norm: Positive | None = None
    ent_coef: Annotated[Literal["auto"] | float, Range(above=0)] = "auto"  # auto: learned
    ent_coef_init: Positive = 1.0  # where a learned one starts
    target_entropy_ratio: PositiveShare = 0.89  # of the uniform policy's
    share_features_extractor: bool = False  # one encoder, trained by the critics; the actor's features are detached


class DiscreteSACAlgorithm(OffPolicyAlgorithm[DiscreteSACConfig]):
    """Discrete SAC: two critics, an actor and a temperature; expectations over the actions are exact."""

    may_differ = ("target_entropy_ratio",)
    critic_apart = True
    why_not_stacked = None
    policy: StochasticPolicy  # pyrefly: ignore (narrower than the base, and never reassigned)

    def build_networks(self, normalizer: ObservationNormalizer) -> None:
        c, num = self.config, num_actions(self.spec, "DiscreteSAC")
        spec, seen = self.spec.seen_by("policy"), self.spec.seen_by("critic").obs
        encoder = build_encoder(spec.obs, factory=c.encoder, ortho_init=False)
        style = {"activation_fn": c.activation_fn, "ortho_init": False}
        head = ActionHead(encoder.features_dim, c.net_arch, spec.action, **style)
        self.policy = StochasticPolicy(spec, normalizer, encoder, head)
        first, second = (
            QNetwork(seen, num, c.net_arch, MeanHead("mse"), activation_fn=c.activation_fn, encoder=c.encoder)
            for _ in range(2)
        )
        second.encoder = first.encoder  # both learn from one encoder's features
        self.critics = nn.ModuleList([first, second])
        if c.share_features_extractor:
            check_same_view(self.spec)
            self.policy.trunk = first.encoder
        self.targets = frozen_copy(self.critics)
        start = c.ent_coef_init if c.ent_coef == "auto" else c.ent_coef
        self.log_ent_coef = nn.Parameter(torch.tensor(math.log(start)))
        self.num_actions = num
        self.add_optimizer("critic", self.critics.parameters())
        self.add_optimizer("actor", (head if c.share_features_extractor else self.policy).parameters())
        self.add_optimizer("ent_coef", [self.log_ent_coef])

    def update(self, batch: StepBatch) -> Step:
        critic = self.minimize(self.critic_loss, batch, "critic")
        metrics = critic.metrics | self.minimize(self.actor_loss, batch, "actor").metrics
        if self.config.ent_coef == "auto":
            metrics |= self.minimize(self.ent_coef_loss, batch, "ent_coef").metrics
        return Step(metrics, critic.rows)

    def target_networks(self) -> TargetNetworks:
        c = self.config
        return TargetNetworks([(self.targets, self.critics)], c.tau, c.target_update_interval, "env_steps")

    @property
    def ent_coef(self) -> Tensor:
        return self.log_ent_coef.detach().exp()

    def target_entropy(self, obs: Tree) -> Tensor | float:
        """Returns the target of the policy's entropy: a share of that of uniform choice, a float for all rows.

        With an action mask, it is a tensor [batch] for a choice among the allowed actions.
        """
        mask = encode_mask(obs)
        most = math.log(self.num_actions) if mask is None else mask.sum(-1).clamp(min=1).float().log()
        return self.config.target_entropy_ratio * most

    def policy_features(self, obs: Tree) -> Tensor:
        """Returns the features of observations for the policy, without gradients if the critics train its encoder."""
        if self.config.share_features_extractor and torch.is_grad_enabled():
            with torch.no_grad():
                return self.policy.encode(obs)
        return self.policy.encode(obs)

    def distribution(self, obs: Tree) -> Categorical:
        return self.choices(self.policy_features(obs), obs)

    def choices(self, features: Tensor, obs: Tree) -> Categorical:
        """Returns the distribution over actions for the policy's features of `obs`, which have the action mask."""
        distribution = self.policy.choices(features, encode_mask(obs))
        assert isinstance(distribution, Categorical)
        return distribution

    def q_values(self, critics: nn.Module, obs: Tree, features: Tensor | None = None) -> Tensor:
        """Returns the values [critic, batch, action] of all actions by `critics`, the online or the target networks.

        `features` are those of `obs` from the critics' encoder; None: it runs, once for all critics.
        """
        networks = [critic for critic in critics.children() if isinstance(critic, QNetwork)]
        if features is None:
            features = networks[0].encoder(self.critic_view(obs))
        return torch.stack([network.read(features).squeeze(-1) for network in networks])

    def critic_loss(self, batch: StepBatch) -> Loss:
        with torch.no_grad():
            value = soft_value(
                self.q_values(self.targets, batch.next_obs).amin(0), self.distribution(batch.next_obs), self.ent_coef
            )
            target = batch.reward + batch.discount * value
        q = self.q_values(self.critics, batch.obs)
        q = q.gather(-1, batch.action.expand(len(q), -1).unsqueeze(-1)).squeeze(-1)
        loss = self.weighted_loss(regression_loss(q, target.expand_as(q), "mse").sum(0), batch)
        return self.critic_result(loss, q, (q - target).abs().mean(0), batch)

    def actor_loss(self, batch: StepBatch) -> Loss:
        features = self.policy_features(batch.obs)
        distribution = self.choices(features, batch.obs)
        with torch.no_grad():
            shared = features if self.config.share_features_extractor else None
            q = self.q_values(self.critics, batch.obs, shared).amin(0)
        loss = self.weighted_loss(-soft_value(q, distribution, self.ent_coef), batch)
        entropy = weighted_mean(distribution.entropy().detach(), batch.weight)
        return Loss(loss, {"actor_loss": loss.detach(), "entropy": entropy})

    def ent_coef_loss(self, batch: StepBatch) -> Loss:
        """Returns the loss that raises `ent_coef` while the policy's entropy is below its target, else lowers it."""
        with torch.no_grad():
            excess = self.distribution(batch.obs).entropy() - self.target_entropy(batch.obs)
        loss = self.log_ent_coef * self.weighted_loss(excess, batch)
        return Loss(loss, {"ent_coef_loss": loss.detach(), "ent_coef": self.ent_coef})

    def values(self, obs: Tree) -> Tensor:
        return soft_value(self.q_values(self.critics, obs).amin(0), self.distribution(obs), self.ent_coef * 0)

    def diagnose(self, batch: StepBatch) -> Metrics:
        metrics = self.critic_loss(batch).metrics
        network = self.critics[0]
        assert isinstance(network, QNetwork)
        dormant = dormant_share(network.activations(self.critic_view(batch.obs)))
        return {"td_error": metrics["td_error"], "dormant_units": dormant}


def soft_value(q: Tensor, distribution: Categorical, ent_coef: Tensor) -> Tensor:
    """Returns the expectation [batch] of q - ent_coef * log pi under `distribution`, pi, for `q` [batch, action]."""
    return (distribution.log_probs.exp() * (q - ent_coef * distribution.log_probs)).sum(-1)


register("discrete_sac", DiscreteSACAlgorithm, DiscreteSACConfig, "Soft Actor-Critic for discrete actions.", "core")
