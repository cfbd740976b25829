"""Base of actor-critic methods with replay, for continuous actions: an actor, critics and their target networks."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Annotated, TypeVar

import torch
from torch import Tensor

from rl_training.algorithms.normalizing import check_same_view
from rl_training.algorithms.off_policy import OffPolicyAlgorithm, OffPolicyConfig
from rl_training.algorithms.target_networks import TargetNetworks, frozen_copy
from rl_training.core import (
    Box,
    Discrete,
    Loss,
    Metrics,
    Needs,
    Periodic,
    Policy,
    Schedule,
    Spec,
    Step,
    StepBatch,
    Tree,
)
from rl_training.core.ranges import Count, Positive, PositiveSchedule, PositiveShare, Range
from rl_training.core.registry import ALGORITHMS
from rl_training.models import MLP, Actor, Critics, EnsembleMLP, ObservationNormalizer, dormant_share


@dataclass(frozen=True, kw_only=True)
class ContinuousConfig(OffPolicyConfig):
    """Settings of actor-critics with replay for continuous actions; names and defaults are Stable-Baselines3's."""

    needs = Needs("replay", {"train_freq": 1})

    learning_rate: PositiveSchedule = Schedule(3e-4, 3e-4)
    actor_learning_rate: PositiveSchedule | None = None  # None: the same
    batch_size: Count = 256
    policy_delay: Count = 1  # critic updates per actor update
    max_grad_norm: Positive | None = None
    net_arch: tuple[Count, ...] = (256, 256)
    critic_net_arch: tuple[Count, ...] | None = None  # None: as net_arch
    n_critics: Count = 2
    share_features_extractor: bool = False  # one encoder, trained by the critics; the actor's features are detached

    @property
    def critic_widths(self) -> tuple[int, ...]:
        return self.net_arch if self.critic_net_arch is None else self.critic_net_arch


@dataclass(frozen=True, kw_only=True)
class TargetedConfig(ContinuousConfig):
    """Settings of methods with target critics, which are slower copies of the critics."""

    tau: PositiveShare = 0.005  # share by which the copies move
    critic_layer_norm: bool = False
    critic_dropout: Annotated[float, Range(min=0, max=0.9)] = 0.0


LARGEST = 1e30  # bounds beyond this are none: their distance would overflow
ConfigT = TypeVar("ConfigT", bound=TargetedConfig)


class ContinuousAlgorithm(OffPolicyAlgorithm[ConfigT]):
    """Base of actor-critics with replay; critics learn from every batch, the actor from every `policy_delay`-th."""

    critic_apart = True
    outputs = 1  # numbers per critic
    loss_scale = 1.0  # of the critics' squared errors
    betas = (0.9, 0.999)  # of Adam, for the networks

    def build_networks(self, normalizer: ObservationNormalizer) -> None:
        c = self.config
        self.action_size = action_size(self.spec, type(c).__name__.removesuffix("Config"))
        self.policy = self.build_policy(normalizer)
        self.critics = Critics(self.spec.seen_by("critic").obs, self.action_size, self.build_critic_net, c.encoder)
        if c.share_features_extractor:
            self.share_encoder()
        self.build_targets()
        self.add_optimizer("critic", self.critics.parameters(), self.betas)
        theirs = set(self.critics.encoder.parameters())  # trained by the critics alone, if shared
        own = [parameter for parameter in self.policy.parameters() if parameter not in theirs]
        self.add_optimizer("actor", own, self.betas, c.actor_learning_rate)

    def share_encoder(self) -> None:
        """Gives the critics' encoder to the actor; raises a ValueError if they see different observations."""
        check_same_view(self.spec)
        actor = self.policy.network
        assert isinstance(actor, Actor)
        actor.borrow(self.critics.encoder)

    @abstractmethod
    def build_policy(self, normalizer: ObservationNormalizer) -> Policy: ...

    def build_actor(self, outputs: int) -> Actor:
        """Returns a new network for the policy, with `outputs` numbers per observation."""
        c = self.config

        def net(inputs: int) -> MLP:
            return MLP(inputs, c.net_arch, outputs, activation_fn=c.activation_fn, ortho_init=False)

        return Actor(self.spec.seen_by("policy").obs, net, c.encoder)

    def build_critic_net(self, inputs: int) -> EnsembleMLP:
        """Returns a new network for all critics together, from [batch, inputs] to [critic, batch, outputs]."""
        c = self.config
        style = {"activation_fn": c.activation_fn, "layer_norm": c.critic_layer_norm, "dropout": c.critic_dropout}
        return EnsembleMLP(c.n_critics, inputs, c.critic_widths, self.outputs, **style)

    def actor_features(self, obs: Tree) -> tuple[Tensor, Tensor]:
        """Returns the features for policy and critics in the actor's loss; an encoder that they share runs once.

        The critics' features carry no gradients, because the critics' loss alone trains their encoder.
        """
        seen = self.policy.encode(obs)  # pyrefly: ignore (policies with an actor have it)
        if self.config.share_features_extractor:
            return seen, seen
        with torch.no_grad():
            return seen, self.critics.encode(self.critic_view(obs))

    def build_targets(self) -> None:
        """Sets `self.targets` to copies of the critics; `target_networks` declares how these follow the critics."""
        self.targets = frozen_copy(self.critics)

    @abstractmethod
    def target_networks(self) -> TargetNetworks | None: ...

    def periodic(self) -> tuple[Periodic, ...]:
        return (Periodic("update_actor", self.config.policy_delay), *super().periodic())

    def update(self, batch: StepBatch) -> Step:
        return self.minimize(self.critic_loss, batch, "critic")

    def update_actor(self, batch: StepBatch) -> Step:
        """Takes one optimization step on the actor's loss; returns metrics."""
        return self.minimize(self.actor_loss, batch, "actor")

    def critic_loss(self, batch: StepBatch, *, train: bool = True) -> Loss:
        """Returns the critics' loss with metrics and TD errors per row (`priority`); evaluations pass train=False."""
        with torch.no_grad():
            target = batch.reward + batch.discount * self.next_value(batch)
        q = self.critics(self.critic_view(batch.obs), batch.action, train=train).squeeze(-1)
        return self.regression(q, target, batch)

    @abstractmethod
    def next_value(self, batch: StepBatch) -> Tensor:
        """Returns the value of the next observations under the policy: [batch], or [batch, n] for n quantiles."""

    def regression(self, q: Tensor, target: Tensor, batch: StepBatch) -> Loss:
        """Returns the loss of values `q` [critic, batch]: squared errors from `target` [batch], weighted by row.

        They are multiplied by `loss_scale`, summed over critics and averaged over rows.
        """
        error = q - target
        loss = self.weighted_loss(self.loss_scale * error.square().sum(0), batch)
        return self.critic_result(loss, q, error.abs().mean(0), batch)

    @abstractmethod
    def actor_loss(self, batch: StepBatch) -> Loss:
        """Returns the actor's loss and metrics for a batch."""

    def mode(self, obs: Tree) -> Tensor:
        """Returns the actions [batch, size], in the policy's units, that the policy takes without exploration."""
        return self.policy.act(obs, explore=False).action

    def values(self, obs: Tree) -> Tensor:
        return self.critics(self.critic_view(obs), self.mode(obs), train=False).mean(-1).amin(0)

    def diagnose(self, batch: StepBatch) -> Metrics:
        metrics = self.critic_loss(batch, train=False).metrics
        dormant = dormant_share(self.critics.activations(self.critic_view(batch.obs), batch.action))
        return {"td_error": metrics["td_error"], "dormant_units": dormant}


def action_size(spec: Spec, name: str) -> int:
    """Returns the size of an action; raises a ValueError, which names method `name`, if it is no bounded float Box."""
    if not isinstance(spec.action, Box):
        others = "DQN, DiscreteSAC or PPO" if isinstance(spec.action, Discrete) else "PPO, A2C or TRPO"
        if isinstance(spec.action, Discrete) and ALGORITHMS.get(f"discrete_{name.lower()}") and name != "SAC":
            others += f", or Discrete{name} with a dataset"
        raise ValueError(
            f"{name} needs Box actions, but this environment has {type(spec.action).__name__}: use {others}"
        )
    if spec.action.dtype != "float32" or len(spec.action.shape) == 0 or spec.action.size == 0:
        raise ValueError(
            f"{name} needs an array of at least one real number as action, but this environment's has dtype "
            f"{spec.action.dtype} and shape {spec.action.shape}: wrap it in gymnasium.wrappers.TransformAction"
        )
    for index, bounds in enumerate(zip(spec.action.low, spec.action.high, strict=True)):
        if not max(map(abs, bounds)) <= LARGEST:
            raise ValueError(
                f"{name} acts between two bounds of at most {LARGEST:g}, but action {index} of this environment has "
                f"low={bounds[0]:g} and high={bounds[1]:g}: give its Box both (gymnasium.wrappers.TransformAction takes another "
                "Box), or use PPO"
            )
    return spec.action.size
