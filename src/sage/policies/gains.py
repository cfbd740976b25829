"""Gains of models over the incumbent in groups of decisions, and their uncertainty after shrinkage."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

MIN_GROUPS_FOR_NEW = 3  # fewer say nothing about how much groups differ
PRIOR_TASKS = 10.0
LEAST_VARIANCE = 1e-12  # of a mean: even what never varied has a finite weight


class GroupGains(NamedTuple):
    """Mean gains as measured in each group; NaN where a group has no row with a known gain."""

    mean: np.ndarray  # [groups, models]
    variance: np.ndarray  # [groups, models] of the mean, over independent tasks
    rows: np.ndarray  # [groups, models]


class Posterior(NamedTuple):
    """Gains after shrinkage towards the model's mean over all groups; NaN for models without any data."""

    mean: np.ndarray  # [groups, models]
    deviation: np.ndarray  # [groups, models]
    new_mean: np.ndarray  # [models]: of a group that was never seen
    new_deviation: np.ndarray  # [models]: infinite where too few groups were seen to say


def group_gains(gain: np.ndarray, group: np.ndarray, num_groups: int, tasks: np.ndarray) -> GroupGains:
    """Returns the means of `gain` [n, models] (NaN: not known) by `group` (int [n]), and their variances over tasks.

    Where a model was hardly tried in a group, its rows hardly show how much gains vary. The variance is therefore the
    one pooled over all groups for as many rows, or half of the group's own if that is more. A model that was hardly
    tried anywhere borrows the spread of the other models.
    """
    pair, pair_of_row = pairs_of(group, tasks)
    found = [sums_of(gain[:, model], group, num_groups, pair, pair_of_row) for model in range(gain.shape[1])]
    mean, rows, num_tasks, squares = (np.stack(part, axis=1) for part in zip(*found, strict=True))
    with np.errstate(invalid="ignore", divide="ignore"):
        own = squares / rows**2 * np.where(num_tasks > 1, num_tasks / (num_tasks - 1), np.nan)
        pooled = row_variance(rows, num_tasks, squares) / rows
    return GroupGains(mean, np.where(rows > 0, np.fmax(own / 2, pooled), np.nan), rows)


def pairs_of(group: np.ndarray, tasks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the group of every pair of group and task that occurs, and int [n]: the index of every row's pair."""
    names, task = np.unique(tasks, return_inverse=True)
    pair, pair_of_row = np.unique(group * len(names) + task, return_inverse=True)
    return pair // max(len(names), 1), pair_of_row


def sums_of(
    gain: np.ndarray, group: np.ndarray, num_groups: int, group_of_pair: np.ndarray, pair_of_row: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Returns, by group, the mean gain, the number of rows, the number of tasks, and a sum of squares over tasks.

    Each task adds the square of the summed deviations of its rows from the group's mean.
    """
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
    """Returns [models]: the variance of the gain in a single row, pooled over all groups.

    Arguments are [groups, models], as `sums_of` returns them. The variance that all models have in common counts as
    PRIOR_TASKS further tasks of each model.
    """
    freedom = (num_tasks - 1).clip(min=0).sum(axis=0)
    total = squares.sum(axis=0) / rows.sum(axis=0) * num_tasks.sum(axis=0)  # per row, times degrees of freedom
    shared = np.nansum(np.where(freedom > 0, total, 0.0)) / freedom.sum() if freedom.any() else np.inf
    return (np.where(freedom > 0, total, 0.0) + PRIOR_TASKS * shared) / (freedom + PRIOR_TASKS)


def shrink(gains: GroupGains) -> Posterior:
    """Returns the normal posterior of every group's gain; the spread between groups is one for all models."""
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
    """Returns [models] the precision-weighted mean over groups, and its variance; NaN for models without data.

    `mean`, `variance` and `known` are [groups, models]; `between` is the variance of true gains between groups.
    """
    weights = np.where(known, 1 / (variance + between), 0.0)
    total = weights.sum(axis=0)
    total = np.where(total > 0, total, np.nan)
    return (weights * mean).sum(axis=0) / total, 1 / total


def between_variance(mean: np.ndarray, variance: np.ndarray, known: np.ndarray) -> float:
    """Returns the variance of true gains between groups, by Paule and Mandel's estimator.

    `mean`, `variance` and `known` are [groups, models]. With the result, the weighted squares around the models' means
    add up to the degrees of freedom. It is 0 if the measured variances alone explain the differences, or if no model is
    known in two groups.
    """
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
    """Returns the probability that a gain with this normal posterior is at least 0, elementwise; NaN stays NaN."""
    flat = zip(np.ravel(mean).tolist(), np.ravel(deviation).tolist(), strict=True)
    return np.reshape([normal_chance(m, d) for m, d in flat], np.shape(mean))


def normal_chance(mean: float, deviation: float) -> float:
    if math.isnan(mean) or math.isnan(deviation):
        return math.nan
    if deviation == 0:
        return float(mean >= 0)
    return 0.5 * (1 + math.erf(mean / deviation / math.sqrt(2)))
