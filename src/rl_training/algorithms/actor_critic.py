"""What PPO and A2C share: an actor, a critic, generalized advantages, and one joint loss."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Literal, TypeVar

import torch
from torch import Tensor, nn

from rl_training.core import (
    Algorithm,
    AlgorithmConfig,
    Batch,
    Box,
    Metrics,
    Optimizer,
    Schedule,
    Scheduled,
    Spec,
    Step,
    Transition,
)
from rl_training.core.optimizer import Group
from rl_training.functional import explained_variance, gae, normalize_advantage, weighted_mean
from rl_training.models import MLP, ObservationNormalizer, StochasticPolicy, build_encoder


@dataclass(frozen=True)
class NetArch:
    """Hidden layers: shared by both, then the policy's own and the value function's own."""

    pi: tuple[int, ...] = field(default=(64, 64), metadata={"min": 1})
    vf: tuple[int, ...] = field(default=(64, 64), metadata={"min": 1})
    shared: tuple[int, ...] = field(default=(), metadata={"min": 1})

    @classmethod
    def from_list(cls, sizes: tuple[int, ...]) -> NetArch:
        """The short form: the same layers for both."""
        return cls(pi=sizes, vf=sizes)


@dataclass(frozen=True, kw_only=True)
class ActorCriticConfig(AlgorithmConfig):
    """Settings that every on-policy actor-critic has."""

    n_steps: int = field(metadata={"min": 1})  # per environment and rollout
    learning_rate: Schedule = field(metadata={"above": 0})
    vf_learning_rate: Schedule | None = field(default=None, metadata={"above": 0})  # None: the same
    gamma: float = field(default=0.99, metadata={"min": 0, "max": 1})
    gae_lambda: float = field(default=0.95, metadata={"min": 0, "max": 1})
    ent_coef: Schedule = Schedule(0.0, 0.0)
    vf_coef: float = field(default=0.5, metadata={"min": 0})  # times the mean squared error, without a half
    max_grad_norm: float | None = field(default=0.5, metadata={"above": 0})
    normalize_advantage: bool = True
    normalize_observation: bool = False  # by running mean and variance, inside the policy
    clip_observation: float = field(default=10.0, metadata={"above": 0})  # after normalisation
    normalize_reward: bool = False  # by the running deviation of the discounted return, in the rollout
    clip_reward: float = field(default=10.0, metadata={"above": 0})  # after normalisation
    net_arch: NetArch = NetArch()
    activation_fn: Literal["tanh", "relu", "elu", "gelu", "silu", "leaky_relu"] = "tanh"
    ortho_init: bool = True
    log_std_init: float = 0.0
    share_features_extractor: bool = True  # one encoder for both; matters where it learns (images, factories)
    encoder: str | None = None  # 'package.module:factory' called with the observation space


ConfigT = TypeVar("ConfigT", bound=ActorCriticConfig)


class ActorCriticAlgorithm(Algorithm[ConfigT]):
    """Learns a policy and a value function from complete rollouts."""

    learns_from = "rollout"
    policy: StochasticPolicy

    def __init__(self, config: ConfigT, spec: Spec) -> None:
        super().__init__(config, spec)
        c = config
        style = {"activation_fn": c.activation_fn, "ortho_init": c.ortho_init}
        normalizer = ObservationNormalizer(spec.obs, enabled=c.normalize_observation, clip=c.clip_observation)
        trunk, trunk_dim = self.build_trunk()
        self.policy = StochasticPolicy(
            spec, normalizer, trunk, trunk_dim, c.net_arch.pi, log_std_init=c.log_std_init, **style
        )
        self.value_trunk = trunk if c.share_features_extractor or c.net_arch.shared else self.build_trunk()[0]
        self.value_head = MLP(trunk_dim, c.net_arch.vf, 1, **style)
        policy_parameters = list(self.policy.parameters())
        value_parameters = [p for p in self.parameters() if all(p is not other for other in policy_parameters)]
        groups: list[Group] = [(policy_parameters + value_parameters, c.learning_rate)]
        if c.vf_learning_rate is not None:
            groups = [(policy_parameters, c.learning_rate), (value_parameters, c.vf_learning_rate)]
        self.ent_coef = Scheduled(c.ent_coef)
        self.optimizers["all"] = self.build_optimizer(groups)

    @abstractmethod
    def build_optimizer(self, groups: list[Group]) -> Optimizer: ...

    @abstractmethod
    def policy_loss(
        self, log_ratio: Tensor, log_prob: Tensor, advantage: Tensor, weight: Tensor
    ) -> tuple[Tensor, Metrics]:
        """Returns the policy's loss and what to log of it."""

    def build_trunk(self) -> tuple[nn.Module, int]:
        c = self.config
        encoder = build_encoder(self.spec.obs, factory=c.encoder, ortho_init=c.ortho_init)
        if not c.net_arch.shared:
            return encoder, encoder.features_dim
        shared = MLP(encoder.features_dim, c.net_arch.shared, activation_fn=c.activation_fn, ortho_init=c.ortho_init)
        return nn.Sequential(encoder, shared), shared.features_dim

    def value(self, obs: Tensor | dict[str, Tensor]) -> Tensor:
        return self.value_head(self.value_trunk(self.policy.normalizer(obs))).squeeze(-1)

    @torch.no_grad()
    def prepare(self, rollout: Transition) -> tuple[Batch, Metrics]:
        value, next_value = self.value(rollout.obs), self.value(rollout.next_obs)
        advantage = gae(
            rollout.reward,
            value,
            next_value,
            rollout.terminated,
            rollout.truncated,
            gamma=self.config.gamma,
            gae_lambda=self.config.gae_lambda,
        )
        extras = {"log_prob": rollout.log_prob, "advantage": advantage, "value": value, "return": advantage + value}
        batch = Batch(rollout.obs, rollout.action, rollout.valid.to(advantage.dtype), extras)
        return batch, self.diagnostics() | {"explained_variance": explained_variance(value, advantage + value)}

    def diagnostics(self) -> Metrics:
        """What the schedules and the policy's spread are in this iteration."""
        metrics = {"learning_rate": self.optimizer("all").learning_rates[0]().clone()}
        if isinstance(self.spec.action, Box):
            metrics["std"] = self.policy.head.log_std.exp().mean()
        return metrics

    def update(self, batch: Batch) -> Step:
        return Step(self.minimize(self.loss, batch, "all"))

    def loss(self, batch: Batch) -> tuple[Tensor, Metrics]:
        weight, advantage = batch.weight, batch.extras["advantage"]
        if self.config.normalize_advantage:
            advantage = normalize_advantage(advantage, weight)
        distribution = self.policy.distribution(batch.obs)
        log_prob = distribution.log_prob(batch.action)
        log_ratio = log_prob - batch.extras["log_prob"]
        policy_loss, metrics = self.policy_loss(log_ratio, log_prob, advantage, weight)
        value_loss = self.value_loss(self.value(batch.obs), batch)
        entropy_loss = -weighted_mean(distribution.entropy(), weight)
        loss = policy_loss + self.config.vf_coef * value_loss + self.ent_coef() * entropy_loss
        parts = {
            "policy_gradient_loss": policy_loss,
            "value_loss": value_loss,
            "entropy_loss": entropy_loss,
            "loss": loss,
        }
        return loss, {name: part.detach() for name, part in (parts | metrics).items()}

    def value_loss(self, value: Tensor, batch: Batch) -> Tensor:
        return weighted_mean((value - batch.extras["return"]).square(), batch.weight)

    def observe(self, steps: Transition) -> None:
        self.policy.normalizer.update(steps.obs, steps.valid)
