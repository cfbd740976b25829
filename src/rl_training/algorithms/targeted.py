"""Critics that are taught by slower copies of themselves: what TD3, SAC and TQC have and CrossQ does without."""

from __future__ import annotations

import copy
from abc import abstractmethod
from dataclasses import dataclass
from typing import Annotated, TypeVar

import torch
from torch import Tensor

from rl_training.algorithms.continuous import ContinuousAlgorithm, ContinuousConfig
from rl_training.algorithms.off_policy import follow, frozen
from rl_training.core import Also, Loss, Step, StepBatch
from rl_training.core.ranges import PositiveShare, Range
from rl_training.models import EnsembleMLP, ObservationNormalizer


@dataclass(frozen=True, kw_only=True)
class TargetedConfig(ContinuousConfig):
    """Settings of methods whose critics are taught by slower copies of themselves."""

    tau: PositiveShare = 0.005  # share by which the copies move
    critic_layer_norm: bool = False
    critic_dropout: Annotated[float, Range(min=0, max=0.9)] = 0.0


TargetedT = TypeVar("TargetedT", bound=TargetedConfig)


class TargetedAlgorithm(ContinuousAlgorithm[TargetedT]):
    """The copies say what the next observations are worth; they follow the critics slowly."""

    def build_networks(self, normalizer: ObservationNormalizer) -> None:
        super().build_networks(normalizer)
        self.targets = frozen(copy.deepcopy(self.critics))

    def build_critic_net(self, inputs: int) -> EnsembleMLP:
        c = self.config
        style = {"activation_fn": c.activation_fn, "layer_norm": c.critic_layer_norm, "dropout": c.critic_dropout}
        return EnsembleMLP(c.n_critics, inputs, c.critic_widths, self.outputs, **style)

    def also(self) -> tuple[Also, ...]:
        return (*super().also(), Also("update_target", self.target_interval))

    @property
    @abstractmethod
    def target_interval(self) -> int:
        """Updates between moves of the targets."""

    def update_target(self, batch: StepBatch) -> Step:
        follow(self.targets, self.critics, self.config.tau)
        return Step({})

    def critic_loss(self, batch: StepBatch, *, train: bool = True) -> Loss:
        with torch.no_grad():
            target = batch.reward + batch.discount * self.next_value(batch)
        q = self.critics(self.critic_view(batch.obs), batch.action, train=train).squeeze(-1)
        return self.regression(q, target, batch)

    @abstractmethod
    def next_value(self, batch: StepBatch) -> Tensor:
        """What the targets say of the next observations under the policy: a number for every row, or several."""
