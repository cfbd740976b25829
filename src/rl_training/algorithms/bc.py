"""Behaviour cloning: the policy under which the data's actions are most likely (Pomerleau, 1991)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rl_training.algorithms.normalizing import NormalizingAlgorithm, NormalizingConfig
from rl_training.core import Adam, Box, Loss, Pass, Schedule, Spec, Step, StepBatch, Supply, register
from rl_training.core.ranges import Count, NonNegative, Positive, PositiveSchedule, Real
from rl_training.functional import DiagGaussian, weighted_mean
from rl_training.models import ActionHead, StochasticPolicy, build_encoder


@dataclass(frozen=True, kw_only=True)
class BCConfig(NormalizingConfig):
    """Behaviour cloning's settings, for supervised learning of a dataset's actions."""

    learning_rate: PositiveSchedule = Schedule(1e-3, 1e-3)
    batch_size: Count = 256
    net_arch: tuple[Count, ...] = (256, 256)
    activation_fn: Literal["tanh", "relu", "elu", "gelu", "silu", "leaky_relu"] = "relu"
    loss: Literal["likelihood", "mse"] = (
        "likelihood"  # mse: of the mean of Box actions, whose spread stays as it starts
    )
    ent_coef: NonNegative = 0.0  # rewards staying uncertain
    log_std_init: Real = 0.0  # of Box actions
    max_grad_norm: Positive | None = None

    def check(self, supply: Supply) -> None:
        if self.loss == "mse" and self.ent_coef:
            raise ValueError(
                f"algorithm.ent_coef={self.ent_coef:g} has no effect with loss='mse', which fits no spread: leave it out"
            )


class BCAlgorithm(NormalizingAlgorithm[BCConfig, StepBatch]):
    """Behaviour cloning: fits the policy to the data's actions by likelihood or squared error; respects masks."""

    policy: StochasticPolicy  # pyrefly: ignore (narrower than the base, and never reassigned)

    def __init__(self, config: BCConfig, spec: Spec) -> None:
        super().__init__(config, spec)
        c = config
        if c.loss == "mse" and not isinstance(spec.action, Box):
            raise ValueError(
                f"algorithm.loss='mse' is for Box actions, but this environment has {type(spec.action).__name__}: "
                "use loss='likelihood'"
            )
        encoder = build_encoder(spec.obs, factory=c.encoder)
        style = {"activation_fn": c.activation_fn, "log_std_init": c.log_std_init}
        head = ActionHead(encoder.features_dim, c.net_arch, spec.action, **style)
        self.policy = StochasticPolicy(spec, self.build_normalizer(), encoder, head)
        groups = [(self.policy.parameters(), c.learning_rate)]
        self.optimizers["policy"] = Adam(groups, max_grad_norm=c.max_grad_norm)

    def passes(self) -> tuple[Pass, ...]:
        return (Pass(1, self.config.batch_size),)

    def update(self, batch: StepBatch) -> Step:
        return self.minimize(self.loss, batch, "policy")

    def loss(self, batch: StepBatch) -> Loss:
        distribution = self.policy.distribution(batch.obs)
        loss = -weighted_mean(distribution.log_prob(batch.action), batch.weight)
        entropy = weighted_mean(distribution.entropy(), batch.weight)
        off = distribution.mode() - batch.action
        if isinstance(distribution, DiagGaussian):
            error = weighted_mean(off.square().mean(-1), batch.weight)
            loss = error if self.config.loss == "mse" else loss
            fit = {"mse": error.detach()}
        else:
            same = (off == 0) if off.ndim == 1 else (off == 0).all(-1)
            fit = {"accuracy": weighted_mean(same.to(batch.weight.dtype), batch.weight)}
        metrics = {"loss": loss.detach(), "entropy": entropy.detach(), **fit}
        metrics["learning_rate"] = self.optimizer("policy").learning_rates[0]().clone()
        return Loss(loss - self.config.ent_coef * entropy, metrics)


register("bc", BCAlgorithm, BCConfig, "Behaviour cloning from a dataset.", "core")
