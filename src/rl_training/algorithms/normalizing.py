"""Base of methods that see observations through a normaliser and an encoder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from torch import Tensor

from rl_training.core import Algorithm, AlgorithmConfig, BatchT, Tree
from rl_training.core.pictures import picture_keys
from rl_training.core.ranges import Positive, PositiveSchedule
from rl_training.models import PICTURE_ENCODERS, ObservationNormalizer


@dataclass(frozen=True, kw_only=True)
class NormalizingConfig(AlgorithmConfig):
    """Settings of methods that normalise observations: the learning rate, the normaliser and the encoder."""

    learning_rate: PositiveSchedule
    normalize_observation: bool = False  # by running mean and variance (of a dataset's rows), inside the policy
    clip_observation: Positive = 10.0  # after normalisation
    encoder: str | None = None  # of pictures: nature, impala, small, flat; or 'package.module:name'


ConfigT = TypeVar("ConfigT", bound=NormalizingConfig)


class NormalizingAlgorithm(Algorithm[ConfigT, BatchT]):
    """Base of methods that can normalise observations by running statistics, apart for those that only critics see."""

    privileged: ObservationNormalizer

    def build_normalizer(self) -> ObservationNormalizer:
        """Returns the normaliser of the policy's observations; sets `privileged`, that of what only the critic sees.

        Raises a ValueError if `encoder` names a network for pictures and none are observed.
        """
        if self.config.encoder in PICTURE_ENCODERS and not picture_keys(self.spec.obs):
            raise ValueError(
                f"algorithm.encoder={self.config.encoder!r} is a network for pictures, uint8 Boxes of three dimensions, and "
                "this environment gives none: leave it out"
            )
        style = {"enabled": self.config.normalize_observation, "clip": self.config.clip_observation}
        self.privileged = ObservationNormalizer(self.spec.privileged, **style)
        return ObservationNormalizer(self.spec.seen_by("policy").obs, **style)

    @property
    def normalizer(self) -> ObservationNormalizer:
        normalizer = self.policy.normalizer
        assert isinstance(normalizer, ObservationNormalizer)
        return normalizer

    def critic_view(self, obs: Tree) -> Tree:
        """Returns `obs` normalised by the statistics of policy and critics, with what only the critics see."""
        return self.privileged(self.normalizer(obs))

    @property
    def observes(self) -> bool:
        return self.normalizer.enabled or self.privileged.enabled

    def observe(self, obs: Tree, valid: Tensor) -> None:
        self.normalizer.update(obs, valid, self.ranks)
        self.privileged.update(obs, valid, self.ranks)
