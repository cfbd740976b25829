"""Confidence by margin: gains on held-out tasks, in bins of a choice's predicted margin over the incumbent."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sage.policies.calibration import Prediction, cross_fitted_checks, fit_spread, measure_reliability
from sage.policies.gains import Posterior, chance_not_worse, group_gains, shrink

MAX_BINS = 4
ROWS_PER_BIN = 50


@dataclass(frozen=True, eq=False)
class MarginBins:
    """The gain over the incumbent by bin of the predicted margin, measured on tasks held out of learning."""

    edges: np.ndarray  # [bins - 1] of the margin
    mean: np.ndarray  # [bins]; NaN: no data
    deviation: np.ndarray  # [bins]
    spread: float = 1.0  # by how much held-out gains scatter more than the deviations say

    @cached_property
    def chance_of_bin(self) -> np.ndarray:
        return np.nan_to_num(chance_not_worse(self.mean, self.spread * self.deviation), nan=0.0)

    def chances(self, margins: np.ndarray) -> np.ndarray:
        """Returns [n]: a choice's chance, given its margin, to be no worse than the incumbent; 0 where it is NaN."""
        found = self.chance_of_bin[np.searchsorted(self.edges, np.nan_to_num(margins), side="right")]
        return np.where(np.isnan(margins), 0.0, found)


UNKNOWN = MarginBins(np.zeros(0), np.full(1, np.nan), np.full(1, np.nan))  # nothing was measured: never sure


def measure_bins(margins: np.ndarray, gain: np.ndarray, tasks: np.ndarray) -> tuple[MarginBins, dict]:
    """Makes bins from rows whose choice differs from the incumbent's, with their margins, gains and tasks [n].

    Returns the bins and the reliability of their chances. Fewer than ROWS_PER_BIN rows give UNKNOWN, which is never
    confident, and an empty mapping.
    """
    if len(gain) < ROWS_PER_BIN:
        return UNKNOWN, {}
    num_bins = min(MAX_BINS, len(gain) // ROWS_PER_BIN)
    edges = np.unique(np.quantile(margins, np.arange(1, num_bins) / num_bins))
    group = np.searchsorted(edges, margins, side="right")
    num_groups = len(edges) + 1

    def posterior(part: np.ndarray) -> Posterior:
        return shrink(group_gains(gain[part, None], group[part], num_groups, tasks[part]))

    def predict(part: np.ndarray) -> Prediction:
        found = posterior(part)
        return Prediction(np.zeros(num_groups, np.int64), found.mean[:, 0], found.deviation[:, 0])

    checks = cross_fitted_checks(predict, gain[:, None], group, num_groups, tasks)
    spread, found = fit_spread(checks), posterior(np.ones(len(gain), bool))
    return MarginBins(edges, found.mean[:, 0], found.deviation[:, 0], spread), measure_reliability(checks, spread)
