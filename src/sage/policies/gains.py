"""How much better a model is than the incumbent in groups of decisions, and how sure that is after shrinkage."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

MIN_GROUPS_FOR_NEW = 3  # fewer say nothing about how much groups differ
PRIOR_TASKS = 10.0
LEAST_VARIANCE = 1e-12  # of a mean: even what never varied has a finite weight


class GroupGains(NamedTuple):
    """Mean gains as measured; NaN where nothing is known."""

    mean: np.ndarray  # [groups, models]
    variance: np.ndarray  # [groups, models] of the mean, over independent tasks
    rows: np.ndarray  # [groups, models]


class Posterior(NamedTuple):
    """Gains after shrinkage to the model's mean over groups; NaN for models without any data."""

    mean: np.ndarray  # [groups, models]
    deviation: np.ndarray  # [groups, models]
    new_mean: np.ndarray  # [models]: of a group that was never seen
    new_deviation: np.ndarray  # [models]: infinite where too few groups were seen to say


def group_gains(gain: np.ndarray, group: np.ndarray, num_groups: int, tasks: np.ndarray) -> GroupGains:
    """Means of `gain` [n, models] (NaN: not known) by group, with variances by task.

    A group in which a model was hardly tried shows hardly its spread, so the variance is what all groups together say of as
    many rows, or half of its own if that is more; a model that was hardly tried anywhere borrows the spread of the others.
    """
    pair, pair_of_row = pairs_of(group, tasks)
    found = [sums_of(gain[:, model], group, num_groups, pair, pair_of_row) for model in range(gain.shape[1])]
    mean, rows, num_tasks, squares = (np.stack(part, axis=1) for part in zip(*found, strict=True))
    with np.errstate(invalid="ignore", divide="ignore"):
        own = squares / rows**2 * np.where(num_tasks > 1, num_tasks / (num_tasks - 1), np.nan)
        pooled = row_variance(rows, num_tasks, squares) / rows
    return GroupGains(mean, np.where(rows > 0, np.fmax(own / 2, pooled), np.nan), rows)


def pairs_of(group: np.ndarray, tasks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The group of every pair of group and task that occurs, and the pair of every row."""
    names, task = np.unique(tasks, return_inverse=True)
    pair, pair_of_row = np.unique(group * len(names) + task, return_inverse=True)
    return pair // max(len(names), 1), pair_of_row


def sums_of(
    gain: np.ndarray, group: np.ndarray, num_groups: int, group_of_pair: np.ndarray, pair_of_row: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """By group: the mean, the rows, the tasks, and the squared sums of a task's rows around the mean."""
    known, num_pairs = ~np.isnan(gain), len(group_of_pair)
    values = np.where(known, gain, 0.0)
    rows = np.bincount(group, known, num_groups)
    with np.errstate(invalid="ignore"):
        mean = np.bincount(group, values, num_groups) / rows
    by_task = np.bincount(pair_of_row, np.where(known, values - mean[group], 0.0), num_pairs)
    has_rows = np.bincount(pair_of_row, known, num_pairs) > 0
    return (
        mean,
        rows,
        np.bincount(group_of_pair, has_rows, num_groups),
        np.bincount(group_of_pair, by_task**2, num_groups),
    )


def row_variance(rows: np.ndarray, num_tasks: np.ndarray, squares: np.ndarray) -> np.ndarray:
    """[models] the variance of one row's gain, from all groups; that of all models counts as PRIOR_TASKS tasks."""
    freedom = (num_tasks - 1).clip(min=0).sum(axis=0)
    total = squares.sum(axis=0) / rows.sum(axis=0) * num_tasks.sum(axis=0)  # per row, times degrees of freedom
    shared = np.nansum(np.where(freedom > 0, total, 0.0)) / freedom.sum() if freedom.any() else np.inf
    return (np.where(freedom > 0, total, 0.0) + PRIOR_TASKS * shared) / (freedom + PRIOR_TASKS)


def shrink(gains: GroupGains) -> Posterior:
    """The normal posterior of every group's gain, with the spread between groups estimated from all models together."""
    known = np.isfinite(gains.mean) & np.isfinite(gains.variance)
    mean = np.where(known, gains.mean, 0.0)
    variance = np.where(known, np.maximum(gains.variance, LEAST_VARIANCE), np.inf)
    between = between_variance(mean, variance, known)
    prior, prior_variance = prior_of(mean, variance, known, between)
    trust = between / (variance + between)
    own_variance = trust * np.where(known, variance, 0.0) + (1 - trust) ** 2 * prior_variance
    new_variance = between + prior_variance
    few = known.sum(axis=0) < MIN_GROUPS_FOR_NEW
    return Posterior(
        mean=prior + trust * np.where(known, mean - prior, 0.0),
        deviation=np.sqrt(np.where(known, own_variance, new_variance)),
        new_mean=prior,
        new_deviation=np.where(few, np.where(np.isnan(prior), np.nan, np.inf), np.sqrt(new_variance)),
    )


def prior_of(
    mean: np.ndarray, variance: np.ndarray, known: np.ndarray, between: float
) -> tuple[np.ndarray, np.ndarray]:
    """[models] the weighted mean over groups and its variance; NaN for models that no group knows."""
    weights = np.where(known, 1 / (variance + between), 0.0)
    total = weights.sum(axis=0)
    total = np.where(total > 0, total, np.nan)
    return (weights * mean).sum(axis=0) / total, 1 / total


def between_variance(mean: np.ndarray, variance: np.ndarray, known: np.ndarray) -> float:
    """Paule and Mandel's: with it, the weighted squares around the models' means are as many as degrees of freedom."""
    freedom = int(known.sum() - known.any(axis=0).sum())
    if freedom < 1:
        return 0.0

    def excess(between: float) -> float:
        prior, _ = prior_of(mean, variance, known, between)
        return float(np.where(known, (mean - prior) ** 2 / (variance + between), 0.0).sum()) - freedom

    low, high = 0.0, float(np.ptp(mean[known])) ** 2 * known.sum()
    if excess(low) <= 0:
        return 0.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    return high


def chance_not_worse(mean: np.ndarray, deviation: np.ndarray) -> np.ndarray:
    """The probability that a gain with this posterior is at least zero; NaN stays NaN."""
    flat = zip(np.ravel(mean).tolist(), np.ravel(deviation).tolist(), strict=True)
    return np.reshape([normal_chance(m, d) for m, d in flat], np.shape(mean))


def normal_chance(mean: float, deviation: float) -> float:
    if math.isnan(mean) or math.isnan(deviation):
        return math.nan
    if deviation == 0:
        return float(mean >= 0)
    return 0.5 * (1 + math.erf(mean / deviation / math.sqrt(2)))
