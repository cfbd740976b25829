"""Batch-constrained Q-learning for discrete actions (Fujimoto et al., 2019, arXiv:1910.01708)."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from rl_training.algorithms.dqn import DQNAlgorithm, DQNConfig
from rl_training.algorithms.off_policy import num_actions
from rl_training.core import Loss, Schedule, Step, StepBatch, register
from rl_training.core.ranges import Count, NonNegative, PositiveSchedule, Share
from rl_training.functional import weighted_mean
from rl_training.models import MLP, Actor, ObservationNormalizer, PlausibleActions, encode_mask, forbid


@dataclass(frozen=True, kw_only=True)
class DiscreteBCQConfig(DQNConfig):
    """Discrete BCQ's settings: Double DQN's, with defaults for learning from data, and of likely actions."""

    threshold: Share = 0.3  # of the likeliest action's probability; 0: DQN, 1: cloning
    logits_penalty: NonNegative = 0.01  # weight of the squared logits in the imitator's loss
    double: bool = True
    learning_rate: PositiveSchedule = Schedule(3e-4, 3e-4)
    batch_size: Count = 256
    target_update_interval: Count = 500  # updates, while learning from data
    net_arch: tuple[Count, ...] = (256, 256)


class DiscreteBCQAlgorithm(DQNAlgorithm):
    """DQN whose best action, in targets and without exploration, is sought among those likely enough in the data."""

    why_not_stacked = "is for logged data, which a stack does not learn from"
    config: DiscreteBCQConfig  # pyrefly: ignore (narrower than the base)

    def build_networks(self, normalizer: ObservationNormalizer) -> None:
        super().build_networks(normalizer)
        self.add_optimizer("imitator", self.plausible.parameters())

    def build_plausible(self) -> PlausibleActions:
        c, num = self.config, num_actions(self.spec, "DiscreteBCQ")

        def net(inputs: int) -> MLP:
            return MLP(inputs, c.net_arch, num, activation_fn=c.activation_fn, ortho_init=False)

        return PlausibleActions(Actor(self.spec.seen_by("policy").obs, net, c.encoder), c.threshold)

    @property
    def plausible(self) -> PlausibleActions:
        plausible = self.policy.plausible
        assert plausible is not None
        return plausible

    def update(self, batch: StepBatch) -> Step:
        q = super().update(batch)
        imitator = self.minimize(self.imitation_loss, batch, "imitator")
        return Step(q.metrics | imitator.metrics, q.rows)

    def imitation_loss(self, batch: StepBatch) -> Loss:
        logits = self.plausible.logits(self.normalizer(batch.obs))
        log_probs = torch.log_softmax(forbid(logits, encode_mask(batch.obs)), -1)
        unlikelihood = -log_probs.gather(-1, batch.action.unsqueeze(-1)).squeeze(-1)
        loss = self.weighted_loss(unlikelihood + self.config.logits_penalty * logits.square().mean(-1), batch)
        return Loss(loss, {"imitator_loss": weighted_mean(unlikelihood.detach(), batch.weight)})


register("discrete_bcq", DiscreteBCQAlgorithm, DiscreteBCQConfig, "DQN among actions that the data take often enough.")
