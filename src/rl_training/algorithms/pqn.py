"""Parallelised Q-Network (Gallici et al., 2024, arXiv:2407.04811): Q-learning without replay or target network.

Layer normalisation makes it stable, many environments make the data diverse, lambda-returns make it fast.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from rl_training.algorithms.normalizing import NormalizingAlgorithm
from rl_training.algorithms.off_policy import num_actions
from rl_training.algorithms.on_policy import RolloutConfig
from rl_training.core import Loss, Metrics, Needs, Pass, RAdam, Schedule, Spec, Step, Supply, Transition, Tree, register
from rl_training.core.ranges import Count, Positive, PositiveSchedule, PositiveShare, Share
from rl_training.functional import lambda_returns, regression_loss, weighted_mean
from rl_training.models import MeanHead, QNetwork, QPolicy


@dataclass(frozen=True, kw_only=True)
class PQNConfig(RolloutConfig):
    """PQN's settings; the names of those of exploration are DQN's."""

    needs = Needs("rollout", {"n_steps": 128})

    learning_rate: PositiveSchedule = Schedule(2.5e-4, 0.0)
    q_lambda: Share = 0.65
    batch_size: Count = 128
    n_epochs: Count = 4
    layer_norm: bool = True
    exploration_fraction: PositiveShare = 0.5
    exploration_initial_eps: Share = 1.0
    exploration_final_eps: Share = 0.05
    max_grad_norm: Positive | None = 10.0
    net_arch: tuple[Count, ...] = (120, 84)
    activation_fn: Literal["tanh", "relu", "elu", "gelu", "silu", "leaky_relu"] = "relu"

    def check(self, supply: Supply) -> None:
        supply.check_batch_size(self.batch_size)


class Targets(NamedTuple):
    """A batch for PQN's regression, made from a rollout: observations, actions and their target values."""

    obs: Tree
    action: Tensor
    target: Tensor  # for the action's value: the lambda-return
    weight: Tensor


class PQNAlgorithm(NormalizingAlgorithm[PQNConfig, Targets]):
    """PQN: Q-learning by epochs of regression on lambda-returns, which are computed once per rollout."""

    policy: QPolicy  # pyrefly: ignore (narrower than the base, and never reassigned)

    def __init__(self, config: PQNConfig, spec: Spec) -> None:
        super().__init__(config, spec)
        c = config
        network = QNetwork(
            spec.obs,
            num_actions(spec, "PQN"),
            c.net_arch,
            MeanHead("mse"),
            activation_fn=c.activation_fn,
            layer_norm=c.layer_norm,
            ortho_init=True,
            encoder=c.encoder,
        )
        self.policy = QPolicy(
            spec,
            self.build_normalizer(),
            network,
            exploration="epsilon",
            epsilon=Schedule(c.exploration_initial_eps, c.exploration_final_eps, c.exploration_fraction),
            temperature=Schedule(1.0, 1.0),
        )
        self.optimizers["q"] = RAdam([(network.parameters(), c.learning_rate)], max_grad_norm=c.max_grad_norm)

    def passes(self) -> tuple[Pass, ...]:
        return (Pass(self.config.n_epochs, self.config.batch_size),)

    @torch.no_grad()
    def prepare(self, rollout: Transition) -> tuple[Targets, Metrics]:
        target = lambda_returns(
            rollout.reward,
            self.values(rollout.next_obs),
            rollout.terminated,
            rollout.truncated,
            gamma=self.config.gamma,
            lam=self.config.q_lambda,
        )
        batch = Targets(rollout.obs, rollout.action, target, rollout.valid.to(target.dtype))
        rate = self.optimizer("q").learning_rates[0]().clone()
        return batch, {"learning_rate": rate, "epsilon": self.policy.epsilon().clone()}

    def update(self, batch: Targets) -> Step:
        return self.minimize(self.loss, batch, "q")

    def loss(self, batch: Targets) -> Loss:
        q = self.policy.q_values(batch.obs).gather(-1, batch.action.unsqueeze(-1)).squeeze(-1)
        loss = weighted_mean(regression_loss(q, batch.target, "mse"), batch.weight)
        error = weighted_mean((q - batch.target).abs(), batch.weight)
        q_mean = weighted_mean(q, batch.weight)
        return Loss(loss, {"loss": loss.detach(), "q_mean": q_mean.detach(), "td_error": error.detach()})

    def values(self, obs: Tree) -> Tensor:
        return self.policy.values(obs)


register("pqn", PQNAlgorithm, PQNConfig, "Q-learning from many environments, without replay or targets.", "core")
