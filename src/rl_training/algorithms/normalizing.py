"""What every method shares that normalises observations: statistics of each leaf, and what the critic sees of it."""

from __future__ import annotations

from torch import Tensor

from rl_training.core import Algorithm, BatchT, Tree
from rl_training.core.algorithm import ConfigT
from rl_training.models import ObservationNormalizer


class NormalizingAlgorithm(Algorithm[ConfigT, BatchT]):
    """Statistics of what the policy sees belong to the policy; of what the critic alone sees, to the algorithm."""

    privileged: ObservationNormalizer

    def build_normalizer(self, *, enabled: bool, clip: float) -> ObservationNormalizer:
        """The one for the policy; the other is kept here."""
        self.privileged = ObservationNormalizer(self.spec.privileged, enabled=enabled, clip=clip)
        return ObservationNormalizer(self.spec.seen_by("policy").obs, enabled=enabled, clip=clip)

    @property
    def normalizer(self) -> ObservationNormalizer:
        normalizer = self.policy.normalizer
        assert isinstance(normalizer, ObservationNormalizer)
        return normalizer

    def critic_view(self, obs: Tree) -> Tree:
        """Observations as critics take them, every leaf normalised."""
        return self.privileged(self.normalizer(obs))

    @property
    def observes(self) -> bool:
        return self.normalizer.enabled or self.privileged.enabled

    def observe(self, obs: Tree, valid: Tensor) -> None:
        self.normalizer.update(obs, valid)
        self.privileged.update(obs, valid)
