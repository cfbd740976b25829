"""Implicit Q-learning (Kostrikov et al., 2021, arXiv:2110.06169) for discrete actions."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from rl_training.algorithms.iql import Expectile, check_expectile
from rl_training.algorithms.off_policy import OffPolicyAlgorithm, OffPolicyConfig, num_actions
from rl_training.algorithms.target_networks import TargetNetworks, frozen_copy
from rl_training.core import Loss, Metrics, Schedule, Step, StepBatch, Supply, Tree, register
from rl_training.core.ranges import Count, NonNegative, Positive, PositiveSchedule, PositiveShare
from rl_training.functional import advantage_weights, expectile_loss, weighted_mean
from rl_training.models import (
    MLP,
    ActionHead,
    MeanHead,
    ObservationNormalizer,
    QNetwork,
    StochasticPolicy,
    build_encoder,
    dormant_share,
)


@dataclass(frozen=True, kw_only=True)
class DiscreteIQLConfig(OffPolicyConfig):
    """Discrete IQL's settings; names as for IQL."""

    expectile: Expectile = 0.7  # 0.5: the data's own value; towards 1: that of its best actions
    beta: NonNegative = 3.0  # weights are exp(beta * advantage); 0 is behaviour cloning
    max_weight: Positive = 100.0  # larger ones count as this
    learning_rate: PositiveSchedule = Schedule(3e-4, 3e-4)
    batch_size: Count = 256
    tau: PositiveShare = 0.005
    target_update_interval: Count = 1  # updates
    max_grad_norm: Positive | None = None
    net_arch: tuple[Count, ...] = (256, 256)

    def check(self, supply: Supply) -> None:
        super().check(supply)
        check_expectile(self.expectile)


class DiscreteIQLAlgorithm(OffPolicyAlgorithm[DiscreteIQLConfig]):
    """Discrete IQL: two critics and a value network that learn from the data's actions only, and a cloning policy."""

    critic_apart = True
    policy: StochasticPolicy  # pyrefly: ignore (narrower than the base, and never reassigned)

    def build_networks(self, normalizer: ObservationNormalizer) -> None:
        c, num = self.config, num_actions(self.spec, "DiscreteIQL")
        spec, seen = self.spec.seen_by("policy"), self.spec.seen_by("critic").obs
        style = {"activation_fn": c.activation_fn, "ortho_init": False}
        encoder, sight = (build_encoder(obs, factory=c.encoder, ortho_init=False) for obs in (spec.obs, seen))
        head = ActionHead(encoder.features_dim, c.net_arch, spec.action, **style)
        self.policy = StochasticPolicy(spec, normalizer, encoder, head)
        self.critics = nn.ModuleList(
            QNetwork(seen, num, c.net_arch, MeanHead("mse"), activation_fn=c.activation_fn, encoder=c.encoder)
            for _ in range(2)
        )
        self.targets = frozen_copy(self.critics)
        self.value = nn.Sequential(sight, MLP(sight.features_dim, c.net_arch, 1, **style))
        self.add_optimizer("critic", [*self.critics.parameters(), *self.value.parameters()])
        self.add_optimizer("actor", self.policy.parameters())

    def update(self, batch: StepBatch) -> Step:
        critic = self.minimize(self.critic_loss, batch, "critic")
        actor = self.minimize(self.actor_loss, batch, "actor")
        return Step(critic.metrics | actor.metrics, critic.rows)

    def target_networks(self) -> TargetNetworks:
        return TargetNetworks([(self.targets, self.critics)], self.config.tau, self.config.target_update_interval)

    def q_of_data(self, critics: nn.Module, batch: StepBatch) -> Tensor:
        """Returns the values [critic, batch] of the batch's actions by `critics`, the online or the target networks."""
        assert isinstance(critics, nn.ModuleList)
        obs, action = self.critic_view(batch.obs), batch.action.unsqueeze(-1)
        return torch.stack([critic(obs).squeeze(-1).gather(-1, action).squeeze(-1) for critic in critics])

    def values(self, obs: Tree) -> Tensor:
        return self.value(self.critic_view(obs)).squeeze(-1)

    def advantage(self, batch: StepBatch) -> Tensor:
        with torch.no_grad():
            q = self.q_of_data(self.targets, batch).amin(0)
        return q - self.values(batch.obs)

    def critic_loss(self, batch: StepBatch) -> Loss:
        with torch.no_grad():
            target = batch.reward + batch.discount * self.values(batch.next_obs)
        q = self.q_of_data(self.critics, batch)
        loss = self.weighted_loss((q - target).square().sum(0), batch)
        critics = self.critic_result(loss, q, (q - target).abs().mean(0), batch)
        value_loss = self.weighted_loss(expectile_loss(self.advantage(batch), self.config.expectile), batch)
        return Loss(loss + value_loss, critics.metrics | {"value_loss": value_loss.detach()}, critics.rows)

    def actor_loss(self, batch: StepBatch) -> Loss:
        with torch.no_grad():
            weight = advantage_weights(self.advantage(batch), self.config.beta, self.config.max_weight)
        distribution = self.policy.distribution(batch.obs)
        loss = self.weighted_loss(-weight * distribution.log_prob(batch.action), batch)
        entropy = weighted_mean(distribution.entropy().detach(), batch.weight)
        mean_weight = weighted_mean(weight, batch.weight)
        return Loss(loss, {"actor_loss": loss.detach(), "entropy": entropy, "advantage_weight": mean_weight})

    def diagnose(self, batch: StepBatch) -> Metrics:
        metrics, network = self.critic_loss(batch).metrics, self.critics[0]
        assert isinstance(network, QNetwork)
        dormant = dormant_share(network.activations(self.critic_view(batch.obs)))
        return {"td_error": metrics["td_error"], "dormant_units": dormant}


register("discrete_iql", DiscreteIQLAlgorithm, DiscreteIQLConfig, "Implicit Q-learning for discrete actions.")
