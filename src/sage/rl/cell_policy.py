"""A policy that is a table: the shrunk gain over the incumbent of every model in every cell."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from sage.policy import Contexts
from sage.rl.cells import Cells
from sage.rl.gains import chance_not_worse, group_gains, shrink
from sage.rl.learned_policy import LearnedPolicy


@dataclass(eq=False, kw_only=True)
class CellPolicy(LearnedPolicy):
    """Takes the model whose gain, less `pessimism` standard deviations, is highest; the incumbent's gain is 0.

    Rows of arrays: the cells, then one per role for categories never seen.
    """

    kind: ClassVar[str] = "cells"
    cells: Cells
    mean: np.ndarray  # [cells + roles, models]; NaN: no data
    deviation: np.ndarray  # [cells + roles, models]
    pessimism: float = 0.0
    spread: float = 1.0  # by how much held-out gains scatter more than the deviations say

    @cached_property
    def score_table(self) -> np.ndarray:
        """With a last row for roles never seen."""
        with np.errstate(invalid="ignore"):
            scores = self.mean - self.pessimism * self.spread * self.deviation
        scores = np.where(np.isnan(self.mean), -np.inf, scores)
        blind = np.isinf(self.deviation)  # a gain of which nothing is known is no reason to leave the incumbent
        return np.vstack([np.where(blind, -np.inf, scores), np.full((1, len(self.models)), -np.inf)])

    @cached_property
    def chance_table(self) -> np.ndarray:
        chances = chance_not_worse(self.mean, self.spread * self.deviation)
        return np.vstack([np.nan_to_num(chances, nan=0.0), np.zeros((1, len(self.models)))])

    def scores(self, contexts: Contexts) -> np.ndarray:
        return self.score_table[self.cells.index(contexts)]

    def chances(self, contexts: Contexts, own: np.ndarray) -> np.ndarray:
        return self.chance_table[self.cells.index(contexts), own]

    def arrays(self) -> dict[str, np.ndarray]:
        return {"mean": self.mean, "deviation": self.deviation}

    def shapes(self) -> dict[str, tuple[int, ...]]:
        return dict.fromkeys(("mean", "deviation"), (len(self.cells) + len(self.cells.roles), len(self.models)))

    def options(self) -> dict:
        return {"cells": [list(pair) for pair in self.cells.pairs], "pessimism": self.pessimism, "spread": self.spread}


def cell_posterior(
    values: np.ndarray, cells: Cells, cell: np.ndarray, incumbent: np.ndarray, tasks: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and deviation of gains over the incumbent of every row (int64 [n]), from (pseudo-)rewards [n, models].

    Rows: the cells, then one per role for categories never seen, as in `CellPolicy`; each role by itself. Where the
    incumbent is the same model throughout, its gain is 0 and certain; where it varies within a cell, every model's gain
    is measured.
    """
    num_models, num_cells = values.shape[1], len(cells)
    is_incumbent = always(incumbent, cell, num_cells, num_models)
    gain = gains_over(values, incumbent)
    gain[is_incumbent[cell]] = np.nan  # nothing to learn from
    gains = group_gains(gain, cell, num_cells, tasks)
    mean, deviation = (np.full((num_cells + len(cells.roles), num_models), np.nan) for _ in range(2))
    for role in range(len(cells.roles)):
        here = cells.role_of_pair == role
        found = shrink(type(gains)(*(part[here] for part in gains)))
        mean[:num_cells][here], deviation[:num_cells][here] = found.mean, found.deviation
        mean[num_cells + role], deviation[num_cells + role] = found.new_mean, found.new_deviation
    certain = np.vstack([is_incumbent, always(incumbent, cells.role_of_pair[cell], len(cells.roles), num_models)])
    return np.where(certain, 0.0, mean), np.where(certain, 0.0, deviation)


def gains_over(values: np.ndarray, incumbent: np.ndarray) -> np.ndarray:
    """[n, models] (pseudo-)rewards less that of the row's incumbent."""
    return values - values[np.arange(len(values)), incumbent][:, None]


def always(incumbent: np.ndarray, group: np.ndarray, num_groups: int, num_models: int) -> np.ndarray:
    """bool [groups, models]: whether the incumbent is this model in all rows of a group."""
    counts = np.bincount(group * num_models + incumbent, minlength=num_groups * num_models).reshape(
        num_groups, num_models
    )
    return (counts == counts.sum(axis=1, keepdims=True)) & (counts > 0)
