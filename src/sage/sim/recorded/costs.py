"""Costs of an attempt by its outcome, as quantiles of recorded costs."""

from __future__ import annotations

import numpy as np

LEVELS = np.linspace(0.0, 1.0, 21)
FEWEST = 10  # costs of an outcome; a model with fewer has those of all its attempts
SOLVED = 0.5  # from this score on


def cost_quantiles(score: np.ndarray, cost: np.ndarray, *, solved: bool) -> np.ndarray:
    """Returns the quantiles, at LEVELS, of the costs of one model's solved or failed attempts, or of all its attempts
    if there are fewer than FEWEST; NaN was not run or not measured."""
    known = ~np.isnan(score) & ~np.isnan(cost)
    chosen = known & ((score >= SOLVED) == solved)
    return np.quantile(cost[chosen if chosen.sum() >= FEWEST else known], LEVELS)


def cost_at(quantiles: np.ndarray, place: np.ndarray) -> np.ndarray:
    """Returns the costs at places from 0 to 1, between the quantiles by their logarithms."""
    return np.exp(np.interp(place, np.linspace(0.0, 1.0, len(quantiles)), np.log(quantiles)))
