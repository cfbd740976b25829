"""Base of methods that learn from replay: settings, importance weights, optimizers, target networks."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Annotated, Literal, Self, TypeVar

from torch import Tensor, nn

from rl_training.algorithms.normalizing import NormalizingAlgorithm, NormalizingConfig
from rl_training.algorithms.target_networks import TargetNetworks
from rl_training.core import (
    Adam,
    Discrete,
    Loss,
    Needs,
    Pass,
    Periodic,
    Schedule,
    Scheduled,
    Spec,
    Step,
    StepBatch,
    Supply,
)
from rl_training.core.ranges import Count, Positive, PositiveSchedule, Range, ShareSchedule
from rl_training.functional import importance_weights, weighted_mean
from rl_training.models import ObservationNormalizer


@dataclass(frozen=True, kw_only=True)
class OffPolicyConfig(NormalizingConfig):
    """Settings that all methods with a replay share, with Stable-Baselines3's names; step counts are env steps."""

    needs = Needs("replay")

    learning_rate: PositiveSchedule = Schedule(1e-4, 1e-4)
    batch_size: Count = 32
    gradient_steps: Annotated[int, Range(min=-1)] = 1  # per train_freq; -1: as many as env steps
    per_beta: ShareSchedule = Schedule(0.4, 1.0)  # if rows are prioritised
    max_grad_norm: Positive | None = 10.0
    adam_eps: Positive = 1e-8
    net_arch: tuple[Count, ...] = (64, 64)
    activation_fn: Literal["tanh", "relu", "elu", "gelu", "silu", "leaky_relu"] = "relu"

    def check(self, supply: Supply) -> None:
        if self.gradient_steps == 0:
            raise ValueError("algorithm.gradient_steps=0 never learns: use 1, or -1 for as many as env steps")
        supply.check_batch_size(self.batch_size)

    def fitted(self, supply: Supply) -> Self:
        updates = supply.num_steps if self.gradient_steps == -1 else self.gradient_steps
        return replace(self, gradient_steps=updates, per_beta=self.per_beta if supply.weighted else Schedule(1.0, 1.0))


ConfigT = TypeVar("ConfigT", bound=OffPolicyConfig)


class OffPolicyAlgorithm(NormalizingAlgorithm[ConfigT, StepBatch]):
    """Base of methods with a replay: importance weights, optimizers, target networks and normalised observations."""

    may_differ = ("tau", "max_grad_norm", "adam_eps")

    def __init__(self, config: ConfigT, spec: Spec) -> None:
        super().__init__(config, spec)
        self.per_beta = Scheduled(config.per_beta)
        self.build_networks(self.build_normalizer())

    @abstractmethod
    def build_networks(self, normalizer: ObservationNormalizer) -> None:
        """Sets `self.policy`, which must hold the normaliser, and all other networks and optimizers."""

    def passes(self) -> tuple[Pass, ...]:
        return (Pass(self.config.gradient_steps, self.config.batch_size, periodic=self.periodic()),)

    def periodic(self) -> tuple[Periodic, ...]:
        """Returns the methods to call after some of the updates, which move target networks or a delayed actor."""
        targets = self.target_networks()
        return () if targets is None else (Periodic("update_target", targets.every, targets.unit),)

    def target_networks(self) -> TargetNetworks | None:
        """Returns the target networks and how they follow their online networks; None, as here, if there are none."""
        return None

    def update_target(self, batch: StepBatch) -> Step:
        """Moves the target networks towards their online networks; does not use the batch."""
        targets = self.target_networks()
        assert targets is not None
        targets.move()
        return Step({})

    def add_optimizer(
        self,
        name: str,
        parameters: Iterable[nn.Parameter],
        betas: tuple[float, float] = (0.9, 0.999),
        rate: Schedule | None = None,
    ) -> None:
        """Adds an Adam optimizer `name` for some parameters, with learning rate `rate`, or the config's if None."""
        c = self.config
        groups = [(parameters, rate or c.learning_rate)]
        self.optimizers[name] = Adam(groups, betas=betas, eps=c.adam_eps, max_grad_norm=c.max_grad_norm)

    def weighted_loss(self, loss: Tensor, batch: StepBatch) -> Tensor:
        """Returns the weighted mean, 0-dim, of a loss [batch]; prioritised rows are corrected for their probability."""
        weight = batch.weight
        if "probability" in batch.columns:
            correction = importance_weights(batch.columns["probability"], self.per_beta(), self.ranks)
            weight = weight * correction.to(loss.dtype)
        return (loss * weight).sum() / batch.weight.sum().clamp(min=1.0)

    def critic_result(self, loss: Tensor, q: Tensor, error: Tensor, batch: StepBatch) -> Loss:
        """Returns a Loss of `loss`, 0-dim, with metrics of values `q` and `error` [batch], which is also `priority`."""
        metrics = {
            "critic_loss": loss.detach(),
            "q_mean": q.detach().mean(),
            "td_error": weighted_mean(error.detach(), batch.weight),
            "learning_rate": self.optimizer("critic").learning_rates[0]().clone(),
        }
        return Loss(loss, metrics, {"priority": error.detach()})


def num_actions(spec: Spec, name: str, *, other: str = "PPO") -> int:
    """Returns the number of discrete actions; raises a ValueError that begins with `name` for other kinds.

    `other` is the method that it recommends for them.
    """
    if not isinstance(spec.action, Discrete):
        raise ValueError(
            f"{name} needs Discrete actions, but this environment has {type(spec.action).__name__}: use {other}, or wrap "
            "the environment so that it offers a list of choices"
        )
    return spec.action.num
