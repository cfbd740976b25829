"""A policy that is a table: the estimated gain of every model over the incumbent in every cell."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from sage.policies.cells import Cells
from sage.policies.gains import chance_not_worse
from sage.policies.learned_policy import LearnedPolicy
from sage.policies.policy import Contexts


@dataclass(eq=False, kw_only=True)
class CellPolicy(LearnedPolicy):
    """A table policy: it takes the model with the highest gain over the incumbent, less `pessimism` deviations.

    The incumbent's own gain is 0. The deviation is the standard deviation of the mean gain over as many new tasks as
    were learned from. Rows of the arrays are the cells, then one row per role for categories that were never seen.
    """

    kind: ClassVar[str] = "cells"
    cells: Cells
    mean: np.ndarray  # [cells + roles, models]; NaN: no data
    deviation: np.ndarray  # [cells + roles, models]
    next_tasks: np.ndarray  # [cells + roles, models] what new tasks add to it
    pessimism: float = 0.0
    spread: float = 1.0  # by how much held-out gains scatter more than the deviations say

    @cached_property
    def score_table(self) -> np.ndarray:
        """Returns [cells + roles + 1, models]: the score of every model in every row of the table.

        The last row stands for unknown roles and is minus infinity throughout.
        """
        scores = lower_scores(self.mean, self.spread * self.deviation, self.next_tasks, self.pessimism)
        return np.vstack([scores, np.full((1, len(self.models)), -np.inf)])

    @cached_property
    def chance_table(self) -> np.ndarray:
        """Returns [cells + roles + 1, models]: each model's chance to be no worse than the incumbent; 0: no data."""
        chances = chance_not_worse(self.mean, self.spread * self.deviation)
        return np.vstack([np.nan_to_num(chances, nan=0.0), np.zeros((1, len(self.models)))])

    def scores(self, contexts: Contexts) -> np.ndarray:
        return self.score_table[self.cells.index(contexts)]

    def chances(self, contexts: Contexts, own: np.ndarray) -> np.ndarray:
        return self.chance_table[self.cells.index(contexts), own]

    def arrays(self) -> dict[str, np.ndarray]:
        return {"mean": self.mean, "deviation": self.deviation, "next_tasks": self.next_tasks}

    def shapes(self) -> dict[str, tuple[int, ...]]:
        return dict.fromkeys(self.arrays(), (len(self.cells) + len(self.cells.roles), len(self.models)))

    def options(self) -> dict:
        return {"cells": [list(pair) for pair in self.cells.pairs], "pessimism": self.pessimism, "spread": self.spread}


def lower_scores(mean: np.ndarray, deviation: np.ndarray, next_tasks: np.ndarray, width: float) -> np.ndarray:
    """Returns gains less `width` standard deviations of the mean over new tasks, elementwise.

    `deviation` is that of the gain, `next_tasks` the scatter of the mean over new tasks around it. The result is minus
    infinity where `mean` is NaN (no data) or `deviation` is infinite (nothing known).
    """
    with np.errstate(invalid="ignore"):
        scores = mean - width * np.hypot(deviation, next_tasks)
    blind = np.isnan(mean) | np.isinf(deviation)  # a gain of which nothing is known is no reason to leave the incumbent
    return np.where(blind, -np.inf, scores)
