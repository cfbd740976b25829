"""Curves over the seeds of a group: evaluations with intervals, and the metrics of training with their range."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rl_training.evaluation import bootstrap_interval, iqm

NUM_BINS = 80
Points = Sequence[tuple[float, float]]  # of one run: step and value


class Curve(NamedTuple):
    """A curve over seeds: at every step a middle, the ends of its band, and the number of runs that have a value."""

    steps: np.ndarray
    middle: np.ndarray
    low: np.ndarray
    high: np.ndarray
    count: np.ndarray


def curve_of(rows: list[tuple[float, float, float, float, int]]) -> Curve:
    return Curve(*np.array(rows, dtype=float).reshape(-1, 5).T)


def evaluation_curve(runs: Sequence[Sequence[tuple[float, Sequence[float]]]]) -> Curve:
    """Returns the curve of evaluations, given each run's as (step, returns of the episodes).

    With several runs, a point is the IQM over their mean returns with its 95 % bootstrap interval, at every step at
    which at least half of the runs were evaluated. With one run it is the mean with the interval over its episodes.
    """
    found = defaultdict[float, list[Sequence[float]]](list)
    for run in runs:
        for step, returns in dict(run).items():
            found[step].append(returns)
    rows = []
    for step, returns in sorted(found.items()):
        if 2 * len(returns) < len(runs):
            continue
        scores = [float(np.mean(episodes)) for episodes in returns]
        if len(runs) > 1:
            rows.append((step, iqm(scores), *bootstrap_interval(scores), len(scores)))
        else:
            rows.append((step, scores[0], *bootstrap_interval(returns[0], np.mean), 1))
    return curve_of(rows)


def metric_curve(runs: Sequence[Points], num_bins: int = NUM_BINS) -> Curve:
    """Returns the curve of a metric, given each run's points: the mean over runs, and their lowest and highest value.

    Steps are cut into bins of equal length, in which a run has the mean of its points. A bin counts if at least half of
    the runs have a point there.
    """
    runs = [points for points in runs if len(points)]
    if not runs:
        return curve_of([])
    end = max(points[-1][0] for points in runs) or 1.0
    num_bins = max(1, min(num_bins, int(np.median([len(points) for points in runs]))))
    means = np.stack([binned(points, end, num_bins) for points in runs])
    count = np.isfinite(means).sum(axis=0)
    used = 2 * count >= len(runs)
    kept = means[:, used]
    centres = (np.arange(num_bins)[used] + 0.5) * end / num_bins if num_bins > 1 else np.full(int(used.sum()), end)
    return Curve(centres, np.nanmean(kept, axis=0), np.nanmin(kept, axis=0), np.nanmax(kept, axis=0), count[used])


def binned(points: Points, end: float, num_bins: int) -> np.ndarray:
    """Returns [num_bins] the mean of the values in each bin of steps from 0 to `end`; NaN in a bin without any."""
    steps, values = np.array(points, dtype=float).T
    places = np.clip(np.ceil(steps / end * num_bins).astype(int) - 1, 0, num_bins - 1)
    sums, counts = (np.bincount(places, weights, num_bins) for weights in (values, None))
    return np.divide(sums, counts, out=np.full(num_bins, np.nan), where=counts > 0)
