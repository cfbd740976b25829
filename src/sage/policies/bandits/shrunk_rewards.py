"""Estimated rewards of every model in every cell, from counts and sums, with random effects of cell, model and pair.

A reward is the overall mean, plus the cell's difference (tasks that are easy or hard for every model), the model's, and
the pair's, plus noise. The variances of models and pairs relative to the noise are estimated from the same counts (EM),
so that in a single cell, or in cells that are alike, all rewards of a model count together. The noise is that of a coin
with the cell's mean, unless it is given.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

CELL_STRENGTH = 1.0  # trials that the mean of all cells is worth for a cell
PRIOR_GROUPS = 4.0  # models and pairs that the strengths given are worth
STEPS = 3
LEAST_CHANCE = 0.02  # of a coin whose noise is taken


class Effects(NamedTuple):
    """The state between two estimation steps: the models' effects, and how strongly pairs and models are shrunk."""

    model: np.ndarray  # [models] differences from the mean of all
    pair_strength: float  # trials
    model_strength: float


class ShrunkRewards(NamedTuple):
    """Estimated rewards; rows are the cells, then one for a cell that was never seen."""

    mean: np.ndarray  # [cells + 1, models]
    deviation: np.ndarray  # [cells + 1, models], without what is common to the models of a cell
    effects: Effects


def shrink_rewards(
    counts: np.ndarray,
    totals: np.ndarray,
    prior: Effects,
    *,
    prior_mean: float,
    noise: float | None = None,
    start: Effects | None = None,
) -> ShrunkRewards:
    """Returns estimated rewards [cells + 1, models] for counts and reward sums [cells, models].

    `prior` says how strongly to shrink before any reward was seen; `noise` is the standard deviation of one reward
    (None: a coin's). `start`, the effects of an earlier call with slightly fewer counts, saves steps.
    """
    nothing = np.zeros((1, counts.shape[1]))
    count, total = np.concatenate([counts, nothing]), np.concatenate([totals, nothing])
    overall = (total.sum() + prior_mean) / (count.sum() + 1)
    tried = count > 0
    above = np.where(tried, total / np.where(tried, count, 1.0) - overall, 0.0)
    effects, cell, variance = start or prior, np.zeros(len(count)), np.zeros(len(count))
    for _ in range(STEPS if start is None else 1):
        model, of_pair, of_model = effects
        weight = count * of_pair / (count + of_pair)  # trials of the model that a pair is worth
        cell = (weight * (above - model)).sum(axis=1) / (weight.sum(axis=1) + CELL_STRENGTH)
        own = weight.sum(axis=0)
        model = (weight * (above - cell[:, None])).sum(axis=0) / (own + of_model)
        variance = coin_variance(overall + cell) if noise is None else np.full(len(cell), noise**2)
        away = weight / of_pair * (above - cell[:, None] - model)
        squares = (away**2 / variance[:, None] + tried / (count + of_pair)).sum()
        usual = (variance @ count.sum(axis=1) + variance[-1]) / (count.sum() + 1)
        spread = (model**2 / usual + 1 / (own + of_model))[own > 0]
        effects = Effects(
            model,
            (PRIOR_GROUPS + tried.sum()) / (PRIOR_GROUPS / prior.pair_strength + squares),
            (PRIOR_GROUPS + len(spread)) / (PRIOR_GROUPS / prior.model_strength + spread.sum()),
        )
    model, of_pair, of_model = effects
    drawn = of_pair / (count + of_pair)
    expected = cell[:, None] + model
    spread = drawn / of_pair + drawn**2 / ((count * drawn).sum(axis=0) + of_model)
    mean = overall + expected + (1 - drawn) * (above - expected)
    return ShrunkRewards(mean, np.sqrt(variance[:, None] * spread), effects)


def coin_variance(mean: np.ndarray) -> np.ndarray:
    chance = np.clip(mean, LEAST_CHANCE, 1 - LEAST_CHANCE)
    return chance * (1 - chance)
