"""Random mixtures of choices: the line of single models that routers are compared with, and mixtures under a limit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class MixingLine:
    """The choices (models or prices) whose mixtures no single choice beats, from the cheapest to the best."""

    models: np.ndarray  # int, columns of the table
    cost: np.ndarray  # mean cost of each, rising
    quality: np.ndarray  # mean score of each, rising

    @classmethod
    def of(cls, score: np.ndarray, cost_usd: np.ndarray) -> MixingLine:
        """Returns the line of models by their outcomes [n, models] on the tasks that the mixture is chosen on."""
        return cls.through(np.nanmean(score, axis=0), np.nanmean(cost_usd, axis=0))

    @classmethod
    def through(cls, quality: np.ndarray, cost: np.ndarray) -> MixingLine:
        """Returns the line of choices with these mean qualities and costs [choices]."""
        corners: list[int] = []
        for k in np.lexsort((-quality, cost)):
            if corners and quality[k] <= quality[corners[-1]]:
                continue
            while len(corners) > 1 and slope(cost, quality, corners[-2], k) >= slope(cost, quality, *corners[-2:]):
                corners.pop()
            corners.append(int(k))
        return cls(np.array(corners), cost[corners], quality[corners])

    def shares(self, budget: float, num_models: int) -> np.ndarray:
        """Returns [num_models]: the probabilities with which to draw, so that a task costs `budget` on average.

        A budget beyond the ends gives the cheapest or the best choice alone.
        """
        shares = np.zeros(num_models)
        place = np.interp(budget, self.cost, np.arange(len(self.cost)))
        low = int(np.floor(place))
        shares[self.models[low]] = 1 - (place - low)
        if place > low:
            shares[self.models[low + 1]] = place - low
        return shares

    def quality_at(self, budget: float) -> float:
        """Returns the mean quality of the mixture that costs `budget`."""
        return float(np.interp(budget, self.cost, self.quality))

    def cost_of(self, quality: float) -> float:
        """Returns the lowest cost (per task) at which the line has this quality; NaN above its best."""
        return float(np.interp(quality, self.quality, self.cost)) if quality <= self.quality[-1] else float("nan")


def slope(cost: np.ndarray, quality: np.ndarray, a: int, b: int) -> float:
    return (quality[b] - quality[a]) / max(cost[b] - cost[a], np.finfo(float).tiny)
