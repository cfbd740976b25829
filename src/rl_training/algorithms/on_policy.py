"""Base of on-policy methods: an actor, a critic, and generalized advantages from complete rollouts."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Literal, TypeVar

import torch
from torch import Tensor, nn

from rl_training.algorithms.normalizing import NormalizingAlgorithm, NormalizingConfig
from rl_training.algorithms.rollout_features import encode_rollout
from rl_training.core import Box, Metrics, Needs, Policy, RolloutBatch, Rows, Space, Spec, Transition, Tree
from rl_training.core.ranges import Count, Real, Share
from rl_training.functional import Distribution, explained_variance, gae, normalize_advantage, weighted_mean
from rl_training.models import MLP, ActionHead, ObservationNormalizer, StochasticPolicy, build_encoder, encode_mask
from rl_training.models.trunk import Trunk, encode, learns, share_layers


@dataclass(frozen=True)
class NetArch:
    """Widths of hidden layers: shared ones, then those of the policy (pi) and of the value function (vf) alone."""

    pi: tuple[Count, ...] = (64, 64)
    vf: tuple[Count, ...] = (64, 64)
    shared: tuple[Count, ...] = ()

    @classmethod
    def from_list(cls, sizes: tuple[int, ...]) -> NetArch:
        """Returns the architecture for a list of widths, which policy and value function each get for themselves."""
        return cls(pi=sizes, vf=sizes)


@dataclass(frozen=True, kw_only=True)
class RolloutConfig(NormalizingConfig):
    """Settings of methods that learn from rollouts; each method's `needs` has its default length of rollouts."""

    needs = Needs("rollout")


@dataclass(frozen=True, kw_only=True)
class OnPolicyConfig(RolloutConfig):
    """Settings that on-policy methods with an actor and a critic share: advantages, networks and initialisation."""

    gae_lambda: Share = 0.95
    normalize_advantage: bool = True
    net_arch: NetArch = NetArch()
    activation_fn: Literal["tanh", "relu", "elu", "gelu", "silu", "leaky_relu"] = "tanh"
    ortho_init: bool = True
    log_std_init: Real = 0.0
    share_features_extractor: bool = True  # one encoder for both, if they see the same; matters where it learns


ConfigT = TypeVar("ConfigT", bound=OnPolicyConfig)


class OnPolicyAlgorithm(NormalizingAlgorithm[ConfigT, RolloutBatch]):
    """Base of on-policy methods: builds policy and value networks and computes advantages; a method adds its losses."""

    may_differ = ("gae_lambda",)
    critic_apart = True
    policy: StochasticPolicy  # pyrefly: ignore (narrower than the base, and never reassigned)

    def __init__(self, config: ConfigT, spec: Spec) -> None:
        super().__init__(config, spec)
        self.build_networks()
        policy_parameters = list(self.policy.parameters())
        value_parameters = [p for p in self.parameters() if all(p is not other for other in policy_parameters)]
        self.build_optimizers(policy_parameters, value_parameters)

    @abstractmethod
    def build_optimizers(self, policy: list[nn.Parameter], value: list[nn.Parameter]) -> None:
        """Sets `self.optimizers` for the parameters of policy and value function; shared ones are in `policy` only."""

    @property
    def style(self) -> dict:
        """Returns the keyword arguments `activation_fn` and `ortho_init` for building an MLP."""
        return {name: getattr(self.config, name) for name in ("activation_fn", "ortho_init")}

    def build_networks(self) -> None:
        normalizer = self.build_normalizer()
        trunk, trunk_dim = self.build_trunk(self.spec.seen_by("policy").obs)
        self.policy = self.build_policy(normalizer, trunk, trunk_dim)  # pyrefly: ignore (of the kind that it builds)
        self.value_trunk, value_dim = self.build_value_trunk(trunk, trunk_dim)
        self.value_head = MLP(self.build_value_core(value_dim), self.config.net_arch.vf, 1, **self.style)

    def build_policy(self, normalizer: ObservationNormalizer, trunk: nn.Module, trunk_dim: int) -> Policy:
        return StochasticPolicy(self.spec.seen_by("policy"), normalizer, trunk, self.build_head(trunk_dim))

    def build_head(self, inputs: int) -> ActionHead:
        c = self.config
        return ActionHead(inputs, c.net_arch.pi, self.spec.action, log_std_init=c.log_std_init, **self.style)

    def build_value_trunk(self, trunk: nn.Module, trunk_dim: int) -> tuple[nn.Module, int]:
        """Returns the critic's encoder, with the shared layers if any, and its output width: `trunk`, or a new one.

        Raises a ValueError if layers are to be shared though policy and critic see different observations.
        """
        c, seen = self.config, self.spec.seen_by("critic").obs
        if seen == self.spec.seen_by("policy").obs:
            return (trunk, trunk_dim) if c.share_features_extractor or c.net_arch.shared else self.build_trunk(seen)
        if c.net_arch.shared:
            raise ValueError(
                f"algorithm.net_arch.shared={list(c.net_arch.shared)} are layers that policy and critic share, and "
                "env.obs_groups lets them see different observations: use net_arch.pi and net_arch.vf"
            )
        return self.build_trunk(seen)

    def build_trunk(self, seen: Space) -> tuple[nn.Module, int]:
        c = self.config
        encoder = build_encoder(seen, factory=c.encoder, ortho_init=c.ortho_init)
        if not c.net_arch.shared:
            return encoder, encoder.features_dim
        shared = MLP(encoder.features_dim, c.net_arch.shared, **self.style)
        return Trunk(encoder, shared), shared.features_dim

    def build_value_core(self, inputs: int) -> int:
        """Returns the input width of the critic's last layers; methods with memory build its recurrent layers here."""
        return inputs

    def critic_features(self, obs: Tree) -> Tensor:
        """Returns the features of observations from the critic's encoder, one vector for every row."""
        return encode(self.value_trunk, self.critic_view(obs))

    def both_features(self, obs: Tree) -> tuple[Tensor, Tensor]:
        """Returns the features for policy and critic; an encoder that they share runs once."""
        seen = self.policy.encode(obs)
        return seen, seen if self.value_trunk is self.policy.trunk else self.critic_features(obs)

    def value(self, obs: Tree) -> Tensor:
        return self.value_from(self.critic_features(obs))

    def value_from(self, features: Tensor) -> Tensor:
        """Returns the value for every row of features from the critic's encoder."""
        return self.value_head(share_layers(self.value_trunk, features)).squeeze(-1)

    def distribution_of(self, features: Tensor, batch: RolloutBatch) -> Distribution:
        """Returns the distribution over actions for a batch and its features from the policy's encoder."""
        return self.policy.choices(features, encode_mask(batch.obs))

    def values_of(self, features: Tensor, batch: RolloutBatch) -> Tensor:
        """Returns the value of every row of a batch from its features, which the critic's encoder gave."""
        return self.value_from(features)

    def batch_distribution(self, batch: RolloutBatch) -> Distribution:
        """Returns the policy's distribution over actions for every row of a batch, with gradients."""
        return self.distribution_of(self.policy.encode(batch.obs), batch)

    def batch_value(self, batch: RolloutBatch) -> Tensor:
        """Returns the critic's value of the observation in every row of a batch, with gradients."""
        return self.values_of(self.critic_features(batch.obs), batch)

    def batch_advantage(self, batch: RolloutBatch) -> Tensor:
        """Returns the advantage in every row of a batch, normalised over all ranks if `normalize_advantage` is set."""
        if self.config.normalize_advantage:
            return normalize_advantage(batch.advantage, batch.weight, self.ranks)
        return batch.advantage

    def rollout_values(self, rollout: Transition) -> tuple[Tensor, Tensor]:
        """Returns two tensors [time, env]: the values of a rollout's observations, and of their true successors."""
        features, next_features = self.rollout_features(rollout)
        return self.value_from(features), self.value_from(next_features)

    def rollout_features(self, rollout: Transition) -> tuple[Tensor, Tensor]:
        """Returns the critic's features [time, env, ...] of a rollout's observations and of their true successors."""
        return encode_rollout(self.critic_features, rollout, again=self.fixed_shapes or not learns(self.value_trunk))

    def estimate(self, rollout: Transition, value: Tensor, next_value: Tensor) -> tuple[Tensor, Tensor, Rows]:
        """Returns advantages and value targets by GAE, [time, env], and a dict of more columns for losses, {} here."""
        advantage = gae(
            rollout.reward,
            value,
            next_value,
            rollout.terminated,
            rollout.truncated,
            gamma=self.config.gamma,
            gae_lambda=self.config.gae_lambda,
        )
        return advantage, advantage + value, {}

    @torch.no_grad()
    def prepare(self, rollout: Transition) -> tuple[RolloutBatch, Metrics]:
        value, next_value = self.rollout_values(rollout)
        advantage, target, columns = self.estimate(rollout, value, next_value)
        weight, columns = rollout.valid.to(advantage.dtype), rollout.columns | columns
        batch = RolloutBatch(rollout.obs, rollout.action, rollout.log_prob, advantage, value, target, weight, columns)
        metrics = {"explained_variance": explained_variance(value, target, weight)}
        return batch, self.diagnostics() | metrics

    def diagnostics(self) -> Metrics:
        """Returns metrics: the learning rate and, for Box actions, the mean standard deviation of the policy."""
        optimizer = self.optimizer(next(iter(self.optimizers)))
        metrics = {"learning_rate": optimizer.learning_rates[0]().clone()}
        if isinstance(self.spec.action, Box):
            metrics["std"] = self.policy.head.log_std.exp().mean()
        return metrics

    def value_loss(self, value: Tensor, batch: RolloutBatch) -> Tensor:
        return weighted_mean((value - batch.target).square(), batch.weight)
