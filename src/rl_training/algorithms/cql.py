"""Conservative Q-learning for continuous actions (Kumar et al., 2020, arXiv:2006.04779): SAC with a penalty."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from rl_training.algorithms.sac import SACAlgorithm, SACConfig
from rl_training.core import Loss, Metrics, Schedule, Step, StepBatch, Supply, register, tree_map
from rl_training.core.ranges import Count, NonNegative, PositiveSchedule, Real
from rl_training.functional import SquashedGaussian, sampled_conservative_gap
from rl_training.models import ObservationNormalizer

LARGEST_MULTIPLIER = 1e6


@dataclass(frozen=True, kw_only=True)
class CQLConfig(SACConfig):
    """CQL's settings: those of SAC, with defaults for learning from data, and of the penalty on other actions."""

    cql_alpha: NonNegative = 5.0  # weight of the penalty
    n_actions: Count = 10  # drawn for the penalty, of each of three kinds
    target_gap: Real | None = None  # of the penalty: cql_alpha times a learned multiplier keeps it there; None: fixed
    cql_alpha_learning_rate: PositiveSchedule | None = None  # of the multiplier; None: as learning_rate
    # The next action of the targets: the policy's mode, one draw, the best of n_actions draws, or SAC's with its entropy.
    backup: Literal["mode", "sample", "max", "soft"] = "mode"
    actor_learning_rate: PositiveSchedule | None = Schedule(1e-4, 1e-4)
    ent_coef_learning_rate: PositiveSchedule | None = Schedule(1e-4, 1e-4)
    net_arch: tuple[Count, ...] = (256, 256, 256)

    def check(self, supply: Supply) -> None:
        super().check(supply)
        if self.target_gap is not None and self.cql_alpha == 0:
            raise ValueError(
                "algorithm.cql_alpha=0 leaves no penalty whose gap could be kept at target_gap: raise it, or drop target_gap"
            )
        if self.target_gap is None and self.cql_alpha_learning_rate is not None:
            raise ValueError(
                "algorithm.cql_alpha_learning_rate is that of a learned multiplier: set target_gap, or drop it"
            )


class Proposals(NamedTuple):
    """The actions [batch, several, size] for the penalty, and the log-densities [batch, several] of their draws."""

    action: Tensor
    log_density: Tensor


class CQLAlgorithm(SACAlgorithm):
    """CQL: SAC whose critics learn lower values for actions that the data never tried."""

    why_not_stacked = "is for logged data, which a stack does not learn from"
    config: CQLConfig  # pyrefly: ignore (narrower than the base)
    loss_scale = 1.0

    def build_networks(self, normalizer: ObservationNormalizer) -> None:
        super().build_networks(normalizer)
        if self.config.target_gap is not None:
            self.log_multiplier = nn.Parameter(torch.zeros(()))
            self.add_optimizer("cql_alpha", [self.log_multiplier], rate=self.config.cql_alpha_learning_rate)

    @property
    def cql_alpha(self) -> Tensor:
        """Returns the weight of the penalty, 0-dim: `cql_alpha`, times a learned multiplier if `target_gap` is set."""
        if self.config.target_gap is None:
            return torch.full_like(self.log_ent_coef, self.config.cql_alpha, requires_grad=False)
        return self.config.cql_alpha * self.log_multiplier.exp().clamp(max=LARGEST_MULTIPLIER)

    def update(self, batch: StepBatch) -> Step:
        step = super().update(batch)
        if self.config.target_gap is None:
            return step
        gap = step.metrics["conservative_loss"]
        multiplier = self.minimize(lambda batch: self.multiplier_loss(gap), batch, "cql_alpha")
        return Step(step.metrics | multiplier.metrics, step.rows)

    def multiplier_loss(self, gap: Tensor) -> Loss:
        """Returns the loss that raises the penalty's weight while `gap`, 0-dim, is above `target_gap`, or lowers it."""
        assert self.config.target_gap is not None
        loss = -self.cql_alpha * (gap - self.config.target_gap)
        return Loss(loss, {"cql_alpha_loss": loss.detach()})

    def critic_loss(self, batch: StepBatch, *, train: bool = True) -> Loss:
        with torch.no_grad():
            here, there = self.policy_at_both(batch)
            target = batch.reward + batch.discount * self.backup_value(there, batch)
            proposals = self.proposals(here, there)
        action = torch.cat([batch.action.unsqueeze(1), proposals.action], 1)
        q = self.critics.of_several(self.critic_view(batch.obs), action, train=train).squeeze(-1)
        data_q, drawn_q = q[..., 0], q[..., 1:]
        critics = self.regression(data_q, target, batch)
        drawn_q, more = self.compared(drawn_q, batch)
        gap = sampled_conservative_gap(drawn_q, proposals.log_density, data_q)
        gap = self.weighted_loss(gap.mean(0), batch)
        weight = self.cql_alpha.detach()
        more |= {"conservative_loss": gap.detach(), "cql_alpha": weight}
        return Loss(critics.value + weight * self.config.n_critics * gap, critics.metrics | more, critics.rows)

    def compared(self, drawn_q: Tensor, batch: StepBatch) -> tuple[Tensor, Metrics]:
        """Returns the drawn actions' values [critic, batch, several] that the penalty lowers, and metrics to log.

        These are `drawn_q` itself and {}; a subclass may change the values.
        """
        return drawn_q, {}

    def policy_at_both(self, batch: StepBatch) -> tuple[SquashedGaussian, SquashedGaussian]:
        """Returns the policy's distributions at a batch's observations and at its next observations, from one pass."""
        both = tree_map(lambda *parts: torch.cat(parts), batch.obs, batch.next_obs)
        mean, log_std = self.policy.distribution(both)
        (mean, next_mean), (log_std, next_log_std) = mean.chunk(2), log_std.chunk(2)
        return SquashedGaussian(mean, log_std), SquashedGaussian(next_mean, next_log_std)

    def backup_value(self, there: SquashedGaussian, batch: StepBatch) -> Tensor:
        obs, backup = self.critic_view(batch.next_obs), self.config.backup
        if backup == "max":
            action, _ = several(there, self.config.n_actions).draw()
            return self.targets.of_several(obs, action).squeeze(-1).amin(0).amax(-1)
        if backup == "mode":
            return self.targets(obs, there.mode(), self.members()).squeeze(-1).amin(0)
        action, log_prob = there.draw()
        q = self.targets(obs, action, self.members()).squeeze(-1).amin(0)
        return q - self.ent_coef * log_prob if backup == "soft" else q

    def proposals(self, here: SquashedGaussian, there: SquashedGaussian) -> Proposals:
        """Returns, per row, `n_actions` draws from `here`, from `there` and from a uniform, with log-densities."""
        num = self.config.n_actions
        (action, log_prob), (next_action, next_log_prob) = several(here, num).draw(), several(there, num).draw()
        uniform = 2 * torch.rand_like(action) - 1
        log_uniform = torch.full_like(log_prob, -math.log(2) * self.action_size)
        return Proposals(
            torch.cat([action, next_action, uniform], 1), torch.cat([log_prob, next_log_prob, log_uniform], 1)
        )


def several(distribution: SquashedGaussian, num: int) -> SquashedGaussian:
    """Returns the distribution of every row repeated `num` times: [batch, size] becomes [batch, num, size]."""
    mean, log_std = (x.unsqueeze(1).expand(-1, num, -1) for x in distribution)
    return SquashedGaussian(mean, log_std)


register("cql", CQLAlgorithm, CQLConfig, "Conservative Q-learning for continuous actions.", "core")
