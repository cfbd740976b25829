"""Robust summaries of few runs (Agarwal et al., 2021, arXiv:2108.13264)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np


def iqm(scores: Sequence[float] | np.ndarray) -> float:
    """The mean of the middle half; the scores at its edges count in part, so that any number of scores works."""
    ordered = np.sort(np.asarray(scores, dtype=np.float64))
    edges = np.arange(len(ordered) + 1) / len(ordered)
    weight = np.clip(np.minimum(edges[1:], 0.75) - np.maximum(edges[:-1], 0.25), 0, None)
    return float((ordered * weight).sum() / weight.sum())


def bootstrap_interval(
    scores: Sequence[float],
    statistic: Callable[[np.ndarray], float] = iqm,
    *,
    level: float = 0.95,
    resamples: int = 2_000,
    seed: int = 0,
) -> tuple[float, float]:
    """The percentile bootstrap interval of a statistic over runs."""
    values, rng = np.asarray(scores, dtype=np.float64), np.random.default_rng(seed)
    draws = [statistic(values[rng.integers(len(values), size=len(values))]) for _ in range(resamples)]
    tail = (1 - level) / 2
    low, high = np.quantile(draws, [tail, 1 - tail])
    return float(low), float(high)
