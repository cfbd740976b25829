"""CrossQ (Bhatt et al., 2024, arXiv:1902.05605): SAC without target networks, by batch normalisation in the critics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from rl_training.algorithms.sac import SACAlgorithm, SoftConfig
from rl_training.core import Absent, Loss, Schedule, StepBatch, Supply, register, tree_map
from rl_training.core.ranges import Count, Natural, PositiveSchedule, PositiveShare
from rl_training.models import Actor, RenormActor, RenormMLP

NO_TARGETS, NORMALISED = "it has no target networks", "its critics have batch normalisation"


@dataclass(frozen=True, kw_only=True)
class CrossQConfig(SoftConfig):
    """CrossQ's settings, with sb3-contrib's names and defaults."""

    absent = {
        "tau": Absent(NO_TARGETS, 0.005),
        "target_update_interval": Absent(NO_TARGETS, 1),
        "critic_subset": Absent(NO_TARGETS, None),
        "critic_layer_norm": Absent(NORMALISED, False),
        "critic_dropout": Absent(NORMALISED, 0.0),
    }

    learning_rate: PositiveSchedule = Schedule(1e-3, 1e-3)
    policy_delay: Count = 3
    critic_net_arch: tuple[Count, ...] | None = (1024, 1024)
    actor_critics: Literal["min", "mean"] = "min"  # of the critics' values, what the actor climbs
    batch_norm_momentum: PositiveShare = 0.01
    renorm_warmup_steps: Natural = 100_000  # updates with plain batch normalisation

    def check(self, supply: Supply) -> None:
        super().check(supply)
        if self.batch_size < 2:
            raise ValueError(f"algorithm.batch_size={self.batch_size} has no variance to normalise by: use 2 or more")


class CrossQAlgorithm(SACAlgorithm):
    """CrossQ: SAC without target networks, whose critics normalise present and next actions as one batch."""

    config: CrossQConfig  # pyrefly: ignore (SAC's, without those of targets)
    betas = (0.5, 0.999)
    why_not_stacked = "moves the statistics of batches inside of its losses"
    why_not_shared = "its networks normalise by the statistics of a whole batch"

    def build_critic_net(self, inputs: int) -> RenormMLP:
        c = self.config
        return self.renormed(c.n_critics, inputs, c.critic_widths, self.outputs)

    def build_actor(self, outputs: int) -> Actor:
        c = self.config
        seen = self.spec.seen_by("policy").obs
        return RenormActor(seen, lambda inputs: self.renormed(1, inputs, c.net_arch, outputs), c.encoder)

    def renormed(self, num: int, inputs: int, hidden: tuple[int, ...], outputs: int) -> RenormMLP:
        c = self.config
        norm = {"momentum": c.batch_norm_momentum, "warmup_steps": c.renorm_warmup_steps}
        return RenormMLP(num, inputs, hidden, outputs, activation_fn=c.activation_fn, **norm)

    def build_targets(self) -> None:
        """Builds no target networks, which batch normalisation makes unnecessary."""

    def target_networks(self) -> None:
        return None

    def critic_loss(self, batch: StepBatch, *, train: bool = True) -> Loss:
        obs = tree_map(lambda *parts: torch.cat(parts), self.critic_view(batch.obs), self.critic_view(batch.next_obs))
        features = self.critics.encode(obs)
        with torch.no_grad():
            shared = self.config.share_features_extractor
            there = features.chunk(2)[1] if shared else self.policy.encode(batch.next_obs)
            next_action, next_log_prob = self.policy.choices(there).draw()
        both = self.critics.read(features, torch.cat([batch.action, next_action]), train=train)
        q, next_q = both.squeeze(-1).chunk(2, 1)
        next_value = next_q.detach().amin(0) - self.ent_coef * next_log_prob
        return self.regression(q, batch.reward + batch.discount * next_value, batch)

    def actor_value(self, features: Tensor, action: Tensor, *, train: bool = True) -> Tensor:
        return super().actor_value(features, action, train=False)  # which leaves the statistics alone


register("crossq", CrossQAlgorithm, CrossQConfig, "SAC with batch normalisation instead of target networks.", "core")
