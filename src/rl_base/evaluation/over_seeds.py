"""Robust summaries of few runs (Agarwal et al., 2021, arXiv:2108.13264)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np


def iqm(scores: Sequence[float] | np.ndarray) -> float:
    """Returns the interquartile mean: the mean without the `len(scores) // 4` lowest and as many highest scores.

    As rliable computes it (scipy's `trim_mean` of 0.25): fewer than four scores are all kept.
    """
    return float(iqm_of_rows(np.asarray(scores, dtype=np.float64).reshape(1, -1))[0])


def iqm_of_rows(rows: np.ndarray) -> np.ndarray:
    """Returns [rows] the interquartile mean of every row of scores [rows, runs]."""
    ordered = np.sort(rows, axis=1)
    cut = rows.shape[1] // 4
    return ordered[:, cut : rows.shape[1] - cut].mean(axis=1)


def mean_of_rows(rows: np.ndarray) -> np.ndarray:
    return rows.mean(axis=1)


Statistic = Callable[[np.ndarray], float]
ROW_BY_ROW: dict[Statistic, Callable[[np.ndarray], np.ndarray]] = {
    iqm: iqm_of_rows,
    np.mean: mean_of_rows,
}  # the same numbers, for all rows in one call


def optimality_gap(scores: Sequence[float] | np.ndarray, target: float = 1.0) -> float:
    """Returns the mean shortfall of runs below the target; a run above it counts as no shortfall."""
    return target - float(np.minimum(np.asarray(scores, dtype=np.float64), target).mean())


def bootstrap_interval(
    scores: Sequence[float],
    statistic: Statistic = iqm,
    *,
    level: float = 0.95,
    resamples: int = 2_000,
    seed: int = 0,
) -> tuple[float, float]:
    """Returns the percentile bootstrap interval (low, high) of a statistic of `scores`, one score per run."""
    return stratified_interval([scores], statistic, level=level, resamples=resamples, seed=seed)


def stratified_interval(
    tasks: Sequence[Sequence[float]],
    statistic: Statistic = iqm,
    *,
    level: float = 0.95,
    resamples: int = 2_000,
    seed: int = 0,
) -> tuple[float, float]:
    """Returns the bootstrap interval (low, high) of a statistic over the runs of all tasks together.

    `tasks` holds the scores of runs of each task; they are drawn again within the task.
    """
    drawn, at_once = redraw_tasks(tasks, resamples, seed), ROW_BY_ROW.get(statistic)
    return percentiles(at_once(drawn) if at_once else [statistic(row) for row in drawn], level)


class Profile(NamedTuple):
    """The share of runs above each threshold, with a pointwise interval around it."""

    thresholds: list[float]
    share: list[float]
    low: list[float]
    high: list[float]


def performance_profile(
    tasks: Sequence[Sequence[float]],
    thresholds: Sequence[float] | np.ndarray,
    *,
    level: float = 0.95,
    resamples: int = 2_000,
    seed: int = 0,
) -> Profile:
    """Returns the share of all tasks' runs that score above each threshold, with bootstrap intervals.

    `tasks` holds the scores of runs of each task; they are drawn again within the task.
    """
    runs = np.concatenate([np.asarray(task, dtype=np.float64) for task in tasks])
    drawn = redraw_tasks(tasks, resamples, seed)
    bands = [percentiles((drawn > threshold).mean(axis=1), level) for threshold in thresholds]
    return Profile(
        thresholds=[float(threshold) for threshold in thresholds],
        share=[float((runs > threshold).mean()) for threshold in thresholds],
        low=[low for low, _ in bands],
        high=[high for _, high in bands],
    )


class Improvement(NamedTuple):
    """The probability that a run of one method is better than a run of another, with its interval and p-value.

    `p_value` is the share of resamples, with one added, in which the probability is at most one half. A small one
    speaks against "no better".
    """

    probability: float
    low: float
    high: float
    p_value: float


def probability_of_improvement(
    ours: Sequence[Sequence[float]],
    theirs: Sequence[Sequence[float]],
    *,
    level: float = 0.95,
    resamples: int = 2_000,
    seed: int = 0,
) -> Improvement:
    """Returns the probability that a run of ours beats one of theirs, averaged over tasks, with a bootstrap interval.

    Both hold the scores of runs for each task; ties count half (Mann-Whitney).
    """
    rng = np.random.default_rng(seed)
    pairs = [(np.asarray(a, np.float64), np.asarray(b, np.float64)) for a, b in zip(ours, theirs, strict=True)]
    estimate = float(np.mean([wins(a[None], b[None])[0] for a, b in pairs]))
    draws = np.mean([wins(redraw(a, resamples, rng), redraw(b, resamples, rng)) for a, b in pairs], axis=0)
    p_value = (1 + int((draws <= 0.5).sum())) / (1 + resamples)
    return Improvement(estimate, *percentiles(draws, level), p_value)


def holm(p_values: Sequence[float], level: float = 0.05) -> list[bool]:
    """Returns one bool per p-value: True if it is significant, with a joint error of at most `level` (Holm, 1979)."""
    order = np.argsort(p_values, kind="stable")
    holds = [False] * len(p_values)
    for rank, index in enumerate(order):
        if p_values[index] > level / (len(p_values) - rank):
            break
        holds[index] = True
    return holds


def percentiles(draws: Sequence[float] | np.ndarray, level: float) -> tuple[float, float]:
    """Returns the interval (low, high) of the middle `level` of the draws."""
    low, high = np.quantile(draws, [(1 - level) / 2, 1 - (1 - level) / 2])
    return float(low), float(high)


def redraw(runs: np.ndarray, resamples: int, rng: np.random.Generator) -> np.ndarray:
    """Returns bootstrap samples [resamples, runs] of `runs` [runs], drawn with replacement."""
    return runs[rng.integers(len(runs), size=(resamples, len(runs)))]


def redraw_tasks(tasks: Sequence[Sequence[float]], resamples: int, seed: int) -> np.ndarray:
    """Returns bootstrap samples [resamples, runs of all tasks] of the scores, each drawn within its task."""
    rng = np.random.default_rng(seed)
    return np.concatenate([redraw(np.asarray(task, dtype=np.float64), resamples, rng) for task in tasks], axis=1)


def wins(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Returns [resamples] the share of pairs of runs that `a` wins against `b`; ties count half.

    Both are [resamples, runs], with a number of runs of their own.
    """
    difference = a[:, :, None] - b[:, None, :]
    return ((difference > 0) + 0.5 * (difference == 0)).mean(axis=(1, 2))
