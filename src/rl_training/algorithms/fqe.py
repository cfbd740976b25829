"""Fitted Q evaluation: a fixed policy's return, learned from data (Le, Voloshin and Yue, 2019, arXiv:1903.08738)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from rl_training.algorithms.target_networks import follow, frozen_copy
from rl_training.core import (
    Adam,
    Algorithm,
    AlgorithmConfig,
    Box,
    Discrete,
    Loss,
    Pass,
    Periodic,
    Policy,
    Schedule,
    Spec,
    Step,
    StepBatch,
    Tree,
)
from rl_training.core.ranges import Count, PositiveSchedule, PositiveShare
from rl_training.functional import weighted_mean
from rl_training.models import (
    Critics,
    EnsembleMLP,
    MeanHead,
    ObservationNormalizer,
    QNetwork,
    StochasticPolicy,
)


@dataclass(frozen=True, kw_only=True)
class FQEConfig(AlgorithmConfig):
    """Settings of fitted Q evaluation, not of the policy that is evaluated."""

    learning_rate: PositiveSchedule = Schedule(1e-3, 0.0)
    batch_size: Count = 256
    tau: PositiveShare = 0.1  # values spread by one step per 1 / tau updates
    net_arch: tuple[Count, ...] = (256, 256)
    activation_fn: Literal["tanh", "relu", "elu", "gelu", "silu", "leaky_relu"] = "relu"
    normalize_observation: bool = True
    deterministic: bool = False  # evaluate the policy's most likely actions


class FQEAlgorithm(Algorithm[FQEConfig, StepBatch]):
    """Fitted Q evaluation: a Q-network that learns the returns of a fixed policy from data."""

    def __init__(self, config: FQEConfig, spec: Spec, target: Policy) -> None:
        super().__init__(config, spec)
        c = config
        self.policy = frozen_copy(target)
        self.normalizer = ObservationNormalizer(spec.obs, enabled=c.normalize_observation, clip=10.0)
        match spec.action:
            case Discrete(num):
                self.network = QNetwork(spec.obs, num, c.net_arch, MeanHead("mse"), activation_fn=c.activation_fn)
            case Box():

                def net(inputs: int) -> EnsembleMLP:
                    return EnsembleMLP(1, inputs, c.net_arch, 1, activation_fn=c.activation_fn)

                self.network = Critics(spec.obs, spec.action.size, net)
            case _:
                raise ValueError(f"fitted Q evaluation needs Discrete or Box actions, not {type(spec.action).__name__}")
        self.follower = frozen_copy(self.network)
        self.optimizers["q"] = Adam([(self.network.parameters(), c.learning_rate)])

    def passes(self) -> tuple[Pass, ...]:
        return (Pass(1, self.config.batch_size, periodic=(Periodic("update_follower", 1),)),)

    def update(self, batch: StepBatch) -> Step:
        return self.minimize(self.loss, batch, "q")

    def update_follower(self, batch: StepBatch) -> Step:
        follow(self.follower, self.network, self.config.tau)
        return Step({})

    def loss(self, batch: StepBatch) -> Loss:
        with torch.no_grad():
            target = batch.reward + batch.discount * self.expected(self.follower, batch.next_obs)
        q = self.q(self.network, batch.obs, batch.action)
        loss = weighted_mean((q - target).square(), batch.weight)
        return Loss(loss, {"loss": loss.detach(), "q_mean": weighted_mean(q.detach(), batch.weight)})

    def q(self, network: torch.nn.Module, obs: Tree, action: Tensor) -> Tensor:
        seen = self.normalizer(obs)
        if isinstance(network, QNetwork):
            return network(seen).squeeze(-1).gather(-1, action.unsqueeze(-1)).squeeze(-1)
        return network(seen, action).reshape(-1)

    def expected(self, network: torch.nn.Module, obs: Tree) -> Tensor:
        """Returns the value [batch] of observations by a Q-network: the policy's mean of Q over discrete actions.

        For Box actions it is Q of one action of the policy, drawn unless `deterministic` is set.
        """
        if isinstance(network, QNetwork):
            q = network(self.normalizer(obs)).squeeze(-1)
            return (action_probabilities(self.policy, obs, q.shape[-1], self.config.deterministic) * q).sum(-1)
        action, convert = self.policy.act(obs, explore=not self.config.deterministic).action, self.policy.to_env
        return self.q(network, obs, convert.inverse(convert(action)))  # as the environment would take it

    def values(self, obs: Tree) -> Tensor:
        return self.expected(self.network, obs)

    @property
    def observes(self) -> bool:
        return self.normalizer.enabled

    def observe(self, obs: Tree, valid: Tensor) -> None:
        self.normalizer.update(obs, valid)


def action_probabilities(policy: Policy, obs: Tree, num: int, deterministic: bool) -> Tensor:
    """Returns the policy's probabilities [batch, num] of `num` discrete actions.

    If it is deterministic, or asked to be, the preferred action has 1 and others 0.
    """
    if isinstance(policy, StochasticPolicy) and not deterministic:
        return policy.distribution(obs).log_probs.exp()  # pyrefly: ignore (categorical, as the actions are discrete)
    return F.one_hot(policy.act(obs, explore=False).action, num).to(torch.float32)
