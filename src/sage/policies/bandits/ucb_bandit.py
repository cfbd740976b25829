"""The UCB1 bandit (Auer, Cesa-Bianchi, Fischer 2002), a baseline that ignores the context."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sage.policies.bandits.bandit_statistics import BanditStatistics
from sage.policies.policy import Contexts, with_exploration

EVERYWHERE = ("", "")


class UCB1:
    """A bandit that takes the model with the highest upper confidence bound, untried models first.

    Ties are split evenly. A share `exploration` of the probability is spread evenly over all eligible models.
    """

    name = "ucb1"
    version = "1"

    def __init__(self, *, exploration: float = 0.0, statistics: BanditStatistics | None = None) -> None:
        self.exploration = exploration
        self.statistics = statistics or BanditStatistics()

    def cell(self, role: str, category: str) -> tuple[str, str]:
        return EVERYWHERE

    def probabilities(self, contexts: Contexts, models: tuple[str, ...], eligible: np.ndarray) -> np.ndarray:
        counts, totals = (
            np.append(part, np.zeros((1, len(models))), axis=0)[0] for part in self.statistics.of_models(models)
        )
        tried = counts > 0
        bounds = np.full(len(models), np.inf)  # what was never tried comes first
        bounds[tried] = totals[tried] / counts[tried] + np.sqrt(2 * np.log(max(counts.sum(), 1)) / counts[tried])
        allowed = np.where(eligible, bounds, -np.inf)
        best = eligible & (allowed == allowed.max(axis=1, keepdims=True))
        return with_exploration(best / best.sum(axis=1, keepdims=True), eligible, self.exploration)

    def confidence(self, contexts: Contexts, models: tuple[str, ...], eligible: np.ndarray) -> np.ndarray:
        return np.ones(len(contexts.role))

    def update(self, contexts: Contexts, model: Sequence[str] | np.ndarray, reward: np.ndarray) -> None:
        """Learns the rewards [n] of the chosen models, row by row in their order."""
        for name, value in zip(model, np.atleast_1d(reward), strict=True):
            self.statistics.add(EVERYWHERE, str(name), float(value))
