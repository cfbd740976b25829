"""The answer of an estimator: a value, and the contribution of every cluster of the log to its error."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from rl_base.evaluation.unseen import Unseen


@dataclass(frozen=True, eq=False)
class Estimate:
    """An estimated value with every cluster's influence on its error, from which `interval` makes intervals."""

    name: str
    value: float
    influence: np.ndarray
    """[clusters] mean 0; the estimate's error is about their mean over independent clusters."""
    bias_bound: float = 0.0
    """How far the estimator's expectation may be from the truth; intervals are widened by it."""
    span: float | None = None
    """Width of the range of one cluster's term, where the estimate is a mean of bounded terms."""
    unseen: Unseen | None = None
    """What outcomes would do that the log has not shown, where the range of rewards is known."""

    @property
    def standard_error(self) -> float:
        """The standard error of the value, by the spread between clusters; infinite for a single cluster."""
        count = len(self.influence)
        return float(self.influence.std(ddof=1)) / math.sqrt(count) if count > 1 else math.inf


def ratio_estimate(
    name: str,
    numerator: np.ndarray,
    denominator: np.ndarray,
    clusters: np.ndarray,
    *,
    bias_bound: float = 0.0,
    span: float | None = None,
) -> Estimate:
    """Returns the estimate sum(numerator) / sum(denominator) of two arrays [n]; with denominators 1, their mean.

    `clusters` [n] are the numbers of the rows' clusters, from 0. The value is NaN if the denominators sum to 0.
    """
    total = float(denominator.sum())
    if total == 0:
        return Estimate(name, math.nan, np.full(int(clusters.max()) + 1, math.nan))
    value = float(numerator.sum()) / total
    influence = (numerator - value * denominator) * (len(numerator) / total)
    return from_row_influence(name, value, influence, clusters, bias_bound=bias_bound, span=span)


def from_row_influence(
    name: str,
    value: float,
    influence: np.ndarray,
    clusters: np.ndarray,
    *,
    bias_bound: float = 0.0,
    span: float | None = None,
) -> Estimate:
    """Returns an estimate of `value` with the influence of rows [n] summed by cluster.

    `clusters` [n] are the rows' cluster numbers, from 0: only clusters are independent. `span` is the width of the
    range of one row's term.
    """
    sizes = np.bincount(clusters)
    per_cluster = np.bincount(clusters, weights=influence) * (len(sizes) / len(clusters))
    widest = None if span is None else span * float(sizes.max() / sizes.mean())
    return Estimate(name, value, per_cluster, bias_bound, widest)


def paired_difference(candidate: Estimate, baseline: Estimate) -> Estimate:
    """Returns the candidate's estimate minus the baseline's on the same log: what both owe to a cluster cancels.

    Raises ValueError if the two have different numbers of clusters.
    """
    if len(candidate.influence) != len(baseline.influence):
        raise ValueError(
            f"candidate has {len(candidate.influence)} clusters and baseline {len(baseline.influence)}: estimate both on "
            "the same log"
        )
    return Estimate(
        candidate.name,
        candidate.value - baseline.value,
        candidate.influence - baseline.influence,
        candidate.bias_bound + baseline.bias_bound,
        None if candidate.span is None or baseline.span is None else candidate.span + baseline.span,
        None if candidate.unseen is None or baseline.unseen is None else candidate.unseen.minus(baseline.unseen),
    )
