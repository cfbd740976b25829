"""A router between a cheap and a dear model: the dear one where its predicted gain is above a threshold."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sage.benchmarks.text_kernel import TextKernel, best_ridge, cross_fitted, folds_of, ridge
from sage.outcomes.table import OutcomeTable

KNOWN_COST = 0.9  # share of the variance of the log cost that must be foreseen to rank by gain per dollar
LEAST_GAIN = 1e-3


@dataclass(frozen=True)
class Curve:
    """What sending the first j tasks of an order to the dear model gives, j = 0 .. n, relative to always the dear one."""

    quality: np.ndarray
    cost: np.ndarray
    rank: np.ndarray  # of the task that was added last; infinity for none

    def cost_at(self, quality: float) -> float:
        """The least relative cost with at least this relative quality."""
        return float(self.cost[self.quality >= quality].min())

    def threshold_at(self, quality: float) -> float:
        """The rank from which tasks go to the dear model, to have this relative quality at the least cost."""
        good = np.flatnonzero(self.quality >= quality)
        return float(self.rank[good[self.cost[good].argmin()]])


def curve_of(rank: np.ndarray, score: np.ndarray, cost: np.ndarray) -> Curve:
    """`score` and `cost` are [n, (cheap, dear)]; tasks go to the dear model from the highest rank down."""
    order = np.argsort(-rank, kind="stable")
    quality, dollars = (
        np.append(values[:, 0].sum(), values[:, 0].sum() + np.cumsum(values[order, 1] - values[order, 0]))
        / values[:, 1].sum()
        for values in (score, cost)
    )
    return Curve(quality, dollars, np.append(np.inf, rank[order]))


@dataclass(frozen=True)
class PairPrediction:
    """Gain and log cost of the dear model over the cheap one, for every task."""

    gain: np.ndarray
    log_cost: np.ndarray

    def rank(self, per_dollar: bool) -> np.ndarray:
        return np.maximum(self.gain, LEAST_GAIN) / np.exp(self.log_cost) if per_dollar else self.gain


@dataclass(frozen=True)
class PairStudy:
    """One training part and one held-out part; everything is chosen on the training part."""

    train: PairPrediction  # cross-fitted
    held_out: PairPrediction
    per_dollar: bool
    foreseen: float  # share of the variance of the log cost, cross-fitted on train


def study_pair(train: OutcomeTable, held_out: OutcomeTable, *, seed: int = 0) -> PairStudy:
    """Both tables have the models (cheap, dear), with costs."""
    kernel = TextKernel.fit(train, seed=seed)
    features, fold = kernel.features(train), folds_of(len(train), seed)
    gain = train.score[:, 1] - train.score[:, 0]
    log_cost = np.log(train.cost_usd[:, 1])
    targets = np.stack([gain, log_cost], axis=1)
    strengths = [best_ridge(features, targets[:, k], fold) for k in range(2)]
    fitted = [cross_fitted(features, targets[:, k], strengths[k], fold) for k in range(2)]
    unseen = kernel.features(held_out)
    applied = [ridge(features, targets[:, k], strengths[k])(unseen) for k in range(2)]
    foreseen = 1 - ((fitted[1] - log_cost) ** 2).mean() / log_cost.var()
    return PairStudy(PairPrediction(*fitted), PairPrediction(*applied), bool(foreseen >= KNOWN_COST), float(foreseen))
