"""A contextual bandit: Thompson sampling by role and category, with forgetting and exact probabilities.

A reward tells something about its cell, its model and the pair of both (see `shrunk_rewards`), so that a new category
starts from what is known of the models, and a new model from what is known of the others. The probability that a
model's draw is the highest is computed by quadrature, and the choice is drawn from these probabilities, which are
logged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sage.policies.bandits.bandit_statistics import BanditStatistics, Cell
from sage.policies.bandits.shrunk_rewards import Effects, ShrunkRewards, shrink_rewards
from sage.policies.policy import Contexts, with_exploration

REACH = 5.0  # standard deviations that the quadrature covers
STEPS = np.linspace(-REACH, REACH, 31)


@dataclass(frozen=True, kw_only=True)
class ContextualBanditConfig:
    keep: float = 0.9995  # of a cell's weight, at each of its updates
    cell_strength: float = 10.0  # trials that the model's mean is worth in a cell, before anything was seen
    model_strength: float = 5.0  # trials that the mean of all models is worth for a model, before anything was seen
    prior_mean: float = 0.5
    noise: float | None = None  # standard deviation of one reward, with which is drawn; None: from the rewards
    noise_share: float = 0.5  # of that from the rewards: less decides sooner, more explores longer
    exploration: float = 0.0


class ContextualBandit:
    """A bandit that draws each model with its probability of being the best one in the cell, by the rewards so far."""

    name = "contextual_bandit"
    version = "1"

    def __init__(
        self,
        config: ContextualBanditConfig | None = None,
        statistics: BanditStatistics | None = None,
    ) -> None:
        self.config = config or ContextualBanditConfig()
        self.statistics = statistics or BanditStatistics(self.config.keep)
        self.cached: ShrunkRewards | None = None
        self.cached_for: tuple[BanditStatistics | None, int, tuple[str, ...]] = (None, 0, ())

    def cell(self, role: str, category: str) -> Cell:
        return role, category

    def cell_rows(self, contexts: Contexts) -> np.ndarray:
        """Returns int [n]: each context's row in the statistics; one beyond the last for cells never seen."""
        cells = zip(contexts.role.tolist(), contexts.category.tolist(), strict=True)
        return np.array([self.statistics.cells.get(cell, len(self.statistics.cells)) for cell in cells], int)

    def estimates(self, rows: np.ndarray, models: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
        """Returns mean and standard deviation [rows, models] of the rewards estimated in these rows of `statistics`."""
        config = self.config
        key = (self.statistics, self.statistics.version, models)
        if self.cached is None or self.cached_for != key:
            known = self.cached if self.cached_for[2] == models else None
            self.cached = shrink_rewards(
                *self.statistics.of_models(models),
                Effects(np.zeros(len(models)), config.cell_strength, config.model_strength),
                prior_mean=config.prior_mean,
                noise=config.noise,
                start=known.effects if known else None,
            )
            self.cached_for = key
        scale = config.noise_share if config.noise is None else 1.0
        return self.cached.mean[rows], scale * self.cached.deviation[rows]

    def probabilities(self, contexts: Contexts, models: tuple[str, ...], eligible: np.ndarray) -> np.ndarray:
        # Rows of one cell with the same candidates get the same answer, which is computed once.
        cases, case = np.column_stack([self.cell_rows(contexts), eligible]), np.zeros(1, int)
        if len(cases) > 1:
            cases, case = np.unique(cases, axis=0, return_inverse=True)
        mean, deviation = self.estimates(cases[:, 0], models)
        chances = chance_of_highest(mean, deviation, cases[:, 1:].astype(bool))[case.ravel()]
        return with_exploration(chances, eligible, self.config.exploration)

    def confidence(self, contexts: Contexts, models: tuple[str, ...], eligible: np.ndarray) -> np.ndarray:
        return np.ones(len(contexts.role))

    def update(self, contexts: Contexts, model: Sequence[str] | np.ndarray, reward: np.ndarray) -> None:
        """Learns the rewards [n] of the chosen models, row by row in their order."""
        rows = zip(contexts.role, contexts.category, model, np.atleast_1d(reward), strict=True)
        for role, category, name, value in rows:
            self.statistics.add(self.cell(str(role), str(category)), str(name), float(value))


def chance_of_highest(mean: np.ndarray, deviation: np.ndarray, eligible: np.ndarray) -> np.ndarray:
    """Returns [n, models]: the probability that a model's normal draw is the highest among the eligible models'.

    All arguments are [n, models]. The result is a sum over a grid, fine wherever some model's distribution lies: the
    probability that the draw falls between two points and all other draws fall below.
    """
    # Whoever cannot reach what another is sure to reach has a chance below 1e-6, taken as none.
    sure = np.where(eligible, mean - REACH * deviation, -np.inf).max(axis=1, keepdims=True)
    contends = eligible & (mean + REACH * deviation > sure)
    columns = np.flatnonzero(contends.any(axis=0))
    chance = np.zeros_like(mean)
    chance[:, columns] = highest_of_few(mean[:, columns], deviation[:, columns], contends[:, columns])
    return chance / chance.sum(axis=1, keepdims=True)


def highest_of_few(mean: np.ndarray, deviation: np.ndarray, contends: np.ndarray) -> np.ndarray:
    grid = (mean[:, :, None] + deviation[:, :, None] * STEPS).reshape(len(mean), -1)
    grid.sort(axis=1)
    below = normal_below((grid[:, None, :] - mean[:, :, None]) / deviation[:, :, None])  # [n, models, points]
    within = np.diff(below, axis=2)
    middle = np.log(np.clip((below[:, :, 1:] + below[:, :, :-1]) / 2, 1e-300, 1.0)) * contends[:, :, None]
    others_below = np.exp(middle.sum(axis=1, keepdims=True) - middle)
    return np.where(contends, (within * others_below).sum(axis=2), 0.0)


def normal_below(x: np.ndarray) -> np.ndarray:
    """Returns the standard normal distribution function at `x`, to within 1e-7 (Abramowitz and Stegun 26.2.17)."""
    t = 1 / (1 + 0.2316419 * np.abs(x))
    tail = t * (0.319381530 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))))
    upper = np.exp(-0.5 * x**2) / np.sqrt(2 * np.pi) * tail
    return np.where(x > 0, 1 - upper, upper)
