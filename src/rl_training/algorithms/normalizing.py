"""Base of methods that see observations through a normaliser and an encoder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from torch import Tensor

from rl_training.core import Algorithm, AlgorithmConfig, BatchT, Box, Dict, Space, Spec, Tree
from rl_training.core.pictures import channels_are_last, picture_keys
from rl_training.core.ranges import Natural, Positive, PositiveSchedule
from rl_training.functional.random_shift import random_shift
from rl_training.models import PICTURE_ENCODERS, ObservationNormalizer


@dataclass(frozen=True, kw_only=True)
class NormalizingConfig(AlgorithmConfig):
    """Settings of methods that normalise observations: the learning rate, the normaliser and the encoder."""

    learning_rate: PositiveSchedule
    normalize_observation: bool = False  # by running mean and variance (of a dataset's rows), inside the policy
    clip_observation: Positive = 10.0  # after normalisation
    encoder: str | None = None  # of pictures: nature, impala, small, flat; or 'package.module:name'
    random_shift: Natural = 0  # pixels that pictures of a batch move by at most, in losses only (DrQ); 0: none


ConfigT = TypeVar("ConfigT", bound=NormalizingConfig)


class NormalizingAlgorithm(Algorithm[ConfigT, BatchT]):
    """Base of methods that can normalise observations by running statistics, apart for those that only critics see."""

    may_differ = ("learning_rate",)
    privileged: ObservationNormalizer

    def build_normalizer(self) -> ObservationNormalizer:
        """Returns the normaliser of the policy's observations; sets `privileged`, that of what only the critic sees.

        Raises a ValueError if `encoder` or `random_shift` are for pictures and none are observed.
        """
        check_pictures(self.config, self.spec.obs)
        style = {"enabled": self.config.normalize_observation, "clip": self.config.clip_observation}
        self.privileged = ObservationNormalizer(self.spec.privileged, **style)
        return ObservationNormalizer(self.spec.seen_by("policy").obs, **style)

    def augment(self, batch: BatchT) -> BatchT:
        if not self.config.random_shift:
            return batch
        changed = {name: self.shifted(getattr(batch, name)) for name in ("obs", "next_obs") if hasattr(batch, name)}
        return batch._replace(**changed)  # pyrefly: ignore (a named tuple)

    def shifted(self, obs: Tree) -> Tree:
        """Returns observations whose pictures are moved at random, each one by a draw of its own."""
        space, most = self.spec.obs, self.config.random_shift
        if not isinstance(space, Dict):
            assert isinstance(space, Box)
            assert isinstance(obs, Tensor)
            return random_shift(obs, most, channels_last=channels_are_last(space))
        assert isinstance(obs, dict)
        moved = {}
        for key in picture_keys(space):
            leaf = space.spaces[key]
            assert isinstance(leaf, Box)
            moved[key] = random_shift(obs[key], most, channels_last=channels_are_last(leaf))
        return obs | moved

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


def check_pictures(config: NormalizingConfig, obs: Space) -> None:
    """Raises a ValueError if a setting is for pictures and none are observed."""
    for name in ("encoder", "random_shift") if not picture_keys(obs) else ():
        value = getattr(config, name)
        if value in PICTURE_ENCODERS or (name == "random_shift" and value):
            raise ValueError(
                f"algorithm.{name}={value!r} is for pictures, uint8 Boxes of three dimensions, and this environment gives "
                "none: leave it out"
            )


def check_same_view(spec: Spec) -> None:
    """Raises a ValueError if policy and critics see different observations, so that they cannot share an encoder."""
    if spec.seen_by("policy").obs != spec.seen_by("critic").obs:
        raise ValueError(
            "algorithm.share_features_extractor=True needs one view for policy and critics, and env.obs_groups gives them two: "
            "leave it out, or drop the groups"
        )
