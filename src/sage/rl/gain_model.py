"""A hierarchical model of gains, so that estimates stay true for the best of many models and groups.

The reward of a model in a group is the model's level plus a deviation; levels vary between models, and the scale of
deviations differs from model to model. A measured gain is the model's part less the incumbent's, plus noise, and the
incumbent's own noise is common to all models of a group. Levels, deviations and scales are drawn from their posterior
by Gibbs sampling, those of the incumbents too, so that a gain that stands out among many is estimated at what such
gains are worth. A static table is rarely picked at random: by PICKED, every second one is taken to be at least as good
as any single model.
"""

from __future__ import annotations

from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from sage.policies.gains import LEAST_VARIANCE, MIN_GROUPS_FOR_NEW, GroupGains, Posterior, shrink

CHAINS, WARM_UP, SWEEPS, DRAWS_PER_SWEEP = 16, 20, 50, 2
QUICK, QUICK_WARM_UP = 10, 8  # sweeps that do where predictions are only checked
SCALES = np.array([0.006, 0.02, 0.04, 0.08, 0.12, 0.18, 0.27, 0.4, 0.6, 0.9])  # of a reward's standard deviation
PRIOR_MODELS = 0.03  # that each amount counts for, before any model was seen
PICKED = 0.5
MOST_SURE = 0.9995  # as finely as the draws can tell


class Observed(NamedTuple):
    """Measured gains, with 0 where nothing is known, and the variances of their noise."""

    gain: np.ndarray  # [groups, models]
    variance: np.ndarray  # [groups, models] without the incumbent's; 1 where nothing is known
    known: np.ndarray  # bool [groups, models]
    incumbent: np.ndarray  # int64 [groups]
    shared: np.ndarray  # [groups] the variance of the incumbent's mean


class GibbsState(NamedTuple):
    """One draw of all parameters per chain of the sampler."""

    level: np.ndarray  # [chains, models]
    seen: np.ndarray  # [chains, groups]: the incumbent's mean, as its tasks happened to be
    true: np.ndarray  # [chains, groups]: the incumbent's mean
    scale: np.ndarray  # [chains, models]: the deviations' standard deviation
    weights: np.ndarray  # [chains, SCALES]: log share of models by amount
    between: np.ndarray  # [chains]: the levels' standard deviation


def gain_posterior(
    gains: GroupGains,
    incumbent: np.ndarray,
    incumbent_variance: np.ndarray,
    certain: np.ndarray,
    *,
    unit: float = 1.0,
    sweeps: int = SWEEPS,
    seed: int = 0,
) -> Posterior:
    """Returns the posterior of every gain; it is 0 and certain where `certain` (bool [groups, models]) is True.

    `incumbent` is int64 [groups], `incumbent_variance` [groups] the variance of its mean; `unit` is a reward's standard
    deviation, for any scale of rewards. With `sweeps=0`, every model is shrunk to its own mean (`shrink`): quick, but
    overconfident about the best of many, and meant for choices that are evaluated elsewhere.
    """
    if not sweeps:
        return shrink(gains)
    known = np.isfinite(gains.mean) & np.isfinite(gains.variance) & ~certain
    shared = np.nan_to_num(incumbent_variance / unit**2, nan=1.0, posinf=1.0)
    total = np.where(known, np.maximum(gains.variance / unit**2, LEAST_VARIANCE), 1.0)
    variance = np.where(known, np.maximum(total - shared[:, None], total / 2), 1.0)
    observed = Observed(np.where(known, gains.mean / unit, 0.0), variance, known, incumbent, shared)
    draws, new = sample(observed, np.random.default_rng(seed), sweeps)
    draws, new = np.where(certain, 0.0, unit * draws), unit * new
    rows = np.nan_to_num(gains.rows).max(axis=1)
    best = (np.einsum("ngm,g->nm", draws, rows / max(rows.sum(), 1.0)) <= 0).all(axis=1)
    # One of k equals is the best with chance 1 / k; knowing that PICKED of the tables were picked, it is so much likelier.
    odds = PICKED * len(known[0]) / (1 - PICKED) + 1
    weights = np.where(best, odds, 1.0) / np.where(best, odds, 1.0).sum()
    mean, deviation = summarize_draws(draws, weights)
    new_mean, new_deviation = summarize_draws(new, weights)
    tried = known.any(axis=0) | certain.any(axis=0)
    few = (known | certain).sum(axis=0) < MIN_GROUPS_FOR_NEW
    return Posterior(
        np.where(tried, mean, np.nan),
        np.where(tried, deviation, np.nan),
        np.where(tried, new_mean, np.nan),
        np.where(tried, np.where(few, np.inf, new_deviation), np.nan),
    )


def summarize_draws(draws: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns mean and deviation of draws [n, ...] with weights [n].

    Where the mean is positive, the deviation is at least the one that fits the share of draws above 0.
    """
    mean = np.tensordot(weights, draws, 1)
    deviation = np.sqrt(np.tensordot(weights, (draws - mean) ** 2, 1))
    chance = np.tensordot(weights, draws >= 0, 1).clip(1 - MOST_SURE, MOST_SURE)
    quantile = np.vectorize(NormalDist().inv_cdf, otypes=[float])(chance)
    return mean, np.where((mean > 0) & (quantile > 0), np.maximum(deviation, mean / np.fmax(quantile, 1e-3)), deviation)


def sample(observed: Observed, generator: np.random.Generator, sweeps: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns draws of gains [n, groups, models], and of gains in a group never seen [n, models]."""
    num_models = observed.gain.shape[1]
    state = GibbsState(
        np.zeros(0),
        np.zeros(0),
        np.zeros(0),
        generator.choice(SCALES, (CHAINS, num_models)),
        np.full((CHAINS, len(SCALES)), -np.log(len(SCALES))),
        generator.choice(SCALES[1:], CHAINS),
    )
    draws, new = [], []
    warm_up = WARM_UP if sweeps > QUICK else QUICK_WARM_UP
    for sweep in range(warm_up + sweeps):
        state = draw_scales(draw_levels(state, observed, generator), observed, generator)
        if sweep >= warm_up:
            for _ in range(DRAWS_PER_SWEEP):
                draws.append(draw_gains(state, observed, generator))
                new.append(draw_new(state, observed, generator))
    return np.concatenate(draws), np.concatenate(new)


def draw_levels(state: GibbsState, observed: Observed, generator: np.random.Generator) -> GibbsState:
    """Draws levels and the incumbents' means jointly from their normal posterior, given the scales."""
    gain, variance, known, incumbent, shared = observed
    groups, models = gain.shape
    is_incumbent = (incumbent[:, None] == np.arange(models)).astype(float)
    precision = np.where(known, 1 / (variance + state.scale[:, None] ** 2), 0.0)  # [chains, groups, models]
    own = state.scale[:, incumbent] ** 2
    pull = 1 / (own + shared)  # of the incumbent's mean to its model's level
    system = np.zeros((CHAINS, models + groups, models + groups))
    place = np.arange(models + groups)
    system[:, place[:models], place[:models]] = (
        1 / state.between[:, None] ** 2 + precision.sum(axis=1) + pull @ is_incumbent
    )
    system[:, place[models:], place[models:]] = precision.sum(axis=2) + pull
    system[:, models:, :models] = -precision - pull[:, :, None] * is_incumbent
    system[:, :models, models:] = system[:, models:, :models].transpose(0, 2, 1)
    weighed = precision * gain
    target = np.concatenate([weighed.sum(axis=1), -weighed.sum(axis=2)], axis=1)[:, :, None]
    root = np.linalg.cholesky(system)
    noise = generator.standard_normal(target.shape)
    found = np.linalg.solve(root.transpose(0, 2, 1), np.linalg.solve(root, target) + noise)[:, :, 0]
    level, seen = found[:, :models], found[:, models:]
    trust = own / (own + shared)
    away = trust * (seen - level[:, incumbent]) + np.sqrt(trust * shared) * generator.standard_normal(seen.shape)
    return state._replace(level=level, seen=seen, true=level[:, incumbent] + away)


def draw_scales(state: GibbsState, observed: Observed, generator: np.random.Generator) -> GibbsState:
    """Draws the scale of every model's deviations, the frequencies of scales, and the spread of levels."""
    gain, variance, known, incumbent, _ = observed
    models, squares = gain.shape[1], SCALES**2
    is_incumbent = (incumbent[:, None] == np.arange(models)).astype(float)
    misses = np.where(known, (gain - state.level[:, None] + state.seen[:, :, None]) ** 2, 0.0)
    spread = variance[:, :, None] + squares  # [groups, models, SCALES]
    inside = known[:, :, None]
    likelihood = np.einsum("cgm,gma->cma", misses, np.where(inside, 1 / spread, 0.0))
    likelihood += np.where(inside, np.log(spread), 0.0).sum(axis=0)
    away = (state.true - state.level[:, incumbent]) ** 2 @ is_incumbent  # [chains, models], where it is the incumbent
    likelihood += away[:, :, None] / squares + is_incumbent.sum(axis=0)[:, None] * np.log(squares)
    index = draw_index(state.weights[:, None] - likelihood / 2, generator)
    counts = (index[:, :, None] == np.arange(len(SCALES))).sum(axis=1)
    weights = np.log(np.maximum(generator.gamma(PRIOR_MODELS + counts), 1e-300))
    weights -= np.log(np.exp(weights).sum(axis=1, keepdims=True))
    levels = -models * np.log(SCALES[1:]) - (state.level**2).sum(axis=1)[:, None] / (2 * squares[1:])
    between = SCALES[1:][draw_index(levels, generator)]
    return state._replace(scale=SCALES[index], weights=weights, between=between)


def draw_index(log_weights: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Draws an index of the last axis with probabilities proportional to the weights (Gumbel's trick)."""
    return (log_weights + generator.gumbel(size=log_weights.shape)).argmax(axis=-1)


def draw_gains(state: GibbsState, observed: Observed, generator: np.random.Generator) -> np.ndarray:
    """Draws gains [chains, groups, models]; the smaller the deviations, the more they follow the levels."""
    gain, variance, known, _, _ = observed
    expected = state.level[:, None] - state.seen[:, :, None]
    squared = state.scale[:, None] ** 2
    trust = np.where(known, squared / (squared + variance), 0.0)
    deviation = np.sqrt(np.where(known, trust * variance, squared))
    middle = expected + trust * (gain - expected) + (state.seen - state.true)[:, :, None]
    return middle + deviation * generator.standard_normal(expected.shape)


def draw_new(state: GibbsState, observed: Observed, generator: np.random.Generator) -> np.ndarray:
    """Draws gains [chains, models] in a new group whose incumbent is that of a random known group."""
    who = observed.incumbent[generator.integers(len(observed.incumbent), size=CHAINS)]
    chain = np.arange(CHAINS)
    middle = state.level - state.level[chain, who][:, None]
    other = state.scale[chain, who] * generator.standard_normal(CHAINS)
    return middle - other[:, None] + state.scale * generator.standard_normal(middle.shape)
