"""Outcomes that a log has not shown: an action that never failed in it may still fail."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True, eq=False)
class Unseen:
    """The terms that every possible try adds to an estimate's sum, with the least and with the largest reward."""

    least: np.ndarray
    """[n] or [n, actions]: the term of a try with the least possible reward."""
    most: np.ndarray
    """The same for the largest possible reward."""
    chance: np.ndarray
    """How likely it is to be tried."""
    clusters: np.ndarray
    """[n]"""

    def minus(self, other: Unseen) -> Unseen:
        """Returns a copy whose terms are those of this minus those of another estimate on the same log."""
        return replace(self, least=self.least - other.least, most=self.most - other.most)

    def times(self, factor: float) -> Unseen:
        """Returns a copy with all terms multiplied by a factor."""
        return replace(self, least=self.least * factor, most=self.most * factor)

    @property
    def influence(self) -> tuple[float, float]:
        """The influence of a cluster with the worst outcome (at most 0), and of one with the best (at least 0)."""
        per_row = (int(self.clusters.max()) + 1) / len(self.clusters)
        worst = self.typical(np.maximum(-np.minimum(self.least, self.most), 0.0))
        best = self.typical(np.maximum(self.least, self.most).clip(min=0.0))
        return -worst * per_row, best * per_row

    def typical(self, sizes: np.ndarray) -> float:
        """Returns the root mean square of a cluster's sum of large terms, over clusters in which one is tried; else 0.

        `sizes`, at least 0, are the terms of all possible tries. Large terms are at least half of the largest size that
        the log is expected to try once, and count as at most this size. So sizes that are hardly ever tried play no
        part, and the many small ones of often tried actions do not hide the few large ones.
        """
        place = np.nonzero(sizes * self.chance)
        if not len(place[0]):
            return 0.0
        size, chance, cluster = sizes[place], self.chance[place].clip(max=1.0), self.clusters[place[0]]
        order = np.argsort(-size, kind="stable")
        expected = np.cumsum(chance[order])
        largest = size[order[np.searchsorted(expected, min(1.0, expected[-1] / 2))]]
        large = size >= largest / 2
        size, chance, cluster = size[large].clip(max=largest), chance[large], cluster[large]
        squares = np.bincount(cluster, size * chance) ** 2 + np.bincount(cluster, size**2 * chance * (1 - chance))
        with np.errstate(divide="ignore"):
            tried = -np.expm1(np.bincount(cluster, np.log1p(-chance)))
        return math.sqrt(float(squares.sum() / tried.sum()))
