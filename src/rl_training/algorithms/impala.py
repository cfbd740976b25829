"""IMPALA (Espeholt et al., 2018, arXiv:1802.01561): A2C on steps of an older policy, corrected by V-trace."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from rl_training.algorithms.a2c import A2CAlgorithm, A2CConfig
from rl_training.algorithms.ppo import ActorCriticConfig
from rl_training.core import Metrics, Needs, Pass, Rows, Schedule, Supply, Transition, register
from rl_training.core.ranges import Count, NonNegative, Positive, PositiveSchedule, RealSchedule
from rl_training.functional import VTrace, approx_kl, v_trace, weighted_mean


@dataclass(frozen=True, kw_only=True)
class VTraceConfig(ActorCriticConfig):
    """Settings of V-trace in IMPALA and APPO; `gae_lambda` is V-trace's lambda."""

    rho_bar: Positive = 1.0  # largest weight of a step: bounds how far the values are those of the current policy
    c_bar: Positive = 1.0  # largest factor by which a later step counts: bounds the variance

    def check(self, supply: Supply) -> None:
        super().check(supply)
        if self.c_bar > self.rho_bar:
            raise ValueError(
                f"algorithm.c_bar={self.c_bar} is above rho_bar={self.rho_bar}, for which V-trace need not converge: "
                "lower c_bar or raise rho_bar"
            )


def corrected(config: VTraceConfig, rollout: Transition, log_prob: Tensor, value: Tensor, next_value: Tensor) -> VTrace:
    """Returns V-trace estimates [time, env] for the policy under which the rollout's actions have `log_prob`.

    `value` and `next_value`, also [time, env], are those of the rollout's observations and of their true successors.
    """
    return v_trace(
        log_prob - rollout.log_prob,
        rollout.reward,
        value,
        next_value,
        rollout.terminated,
        rollout.truncated,
        gamma=config.gamma,
        lam=config.gae_lambda,
        rho_bar=config.rho_bar,
        c_bar=config.c_bar,
    )


@dataclass(frozen=True, kw_only=True)
class IMPALAConfig(A2CConfig, VTraceConfig):
    """IMPALA's settings, with Stable-Baselines3's names and the paper's defaults, for means over steps, not sums."""

    needs = Needs("rollout", {"n_steps": 20})

    learning_rate: PositiveSchedule = Schedule(6e-4, 0.0)
    batch_size: Count | None = None  # None: one step on the whole rollout
    n_epochs: Count = 1  # more: each rollout is learned from again, as from the paper's replay
    ent_coef: RealSchedule = Schedule(0.01, 0.01)
    vf_coef: NonNegative = 0.25  # the paper's 0.5, times the half in its loss

    def check(self, supply: Supply) -> None:
        super().check(supply)
        if self.batch_size is not None:
            supply.check_batch_size(self.batch_size)


class IMPALAAlgorithm(A2CAlgorithm):
    """IMPALA: A2C on rollouts of older policies, which V-trace weights by the present probability of their actions."""

    why_not_stacked = "learns from rollouts of older policies, which samplers collect meanwhile"
    corrects_lag = True
    config: IMPALAConfig  # pyrefly: ignore (narrower than the base, and never reassigned)

    def passes(self) -> tuple[Pass, ...]:
        return (Pass(self.config.n_epochs, self.config.batch_size),)

    def estimate(self, rollout: Transition, value: Tensor, next_value: Tensor) -> tuple[Tensor, Tensor, Rows]:
        log_prob = self.policy.distribution(rollout.obs).log_prob(rollout.action)
        estimates = corrected(self.config, rollout, log_prob, value, next_value)
        return estimates.advantage, estimates.target, {}

    def policy_loss(
        self, log_ratio: Tensor, log_prob: Tensor, advantage: Tensor, weight: Tensor
    ) -> tuple[Tensor, Metrics]:
        rho = log_ratio.detach().exp().clamp(max=self.config.rho_bar)
        metrics = {"rho": weighted_mean(rho, weight), "approx_kl": weighted_mean(approx_kl(log_ratio), weight)}
        loss, _ = super().policy_loss(log_ratio, log_prob, rho * advantage, weight)
        return loss, metrics


register(
    "impala", IMPALAAlgorithm, IMPALAConfig, "Policy gradients corrected for the age of the acting policy.", "contrib"
)
