"""A policy that gives a share of a cell's decisions to other models than the incumbent's, drawn at random."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sage.policies.cells import Cells
from sage.policies.learned_policy import LearnedPolicy, own_columns
from sage.policies.policy import Contexts
from sage.policies.text.categories import with_categories

ROUNDING = 1e-9


@dataclass(eq=False, kw_only=True)
class SharePolicy(LearnedPolicy):
    """A policy of shares: in every cell, each model gets its share of the decisions, and the usual model the rest.

    It has an opinion on cells with a share above 0 only. A share whose model is not eligible stays with the usual
    model; where that is not eligible either, the policy has no confidence. Raises ValueError for shares that are
    negative or add up to more than 1 in a cell.
    """

    kind: ClassVar[str] = "shares"
    cells: Cells
    share: np.ndarray  # [cells, models] without the usual model's
    usual: np.ndarray  # int64 [cells] the incumbent's model
    chance: float  # that all decisions together keep to the limit that the shares were learned for

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (
            np.isfinite(self.share).all() and (self.share >= 0).all() and (self.share.sum(axis=1) <= 1 + ROUNDING).all()
        ):
            raise ValueError("share must be 0 or more, and at most 1 in all of a cell")
        if not ((self.usual >= 0) & (self.usual < len(self.models))).all() or not 0 <= self.chance <= 1:
            raise ValueError(f"usual must number the {len(self.models)} models, and chance={self.chance} lie in 0..1")

    def probabilities(self, contexts: Contexts, models: tuple[str, ...], eligible: np.ndarray) -> np.ndarray:
        """Returns [n, models]: the shares; equal chances in rows that the policy has no opinion on."""
        given, usual, decides = self.given(with_categories(self.categorizer, contexts), models, eligible)
        rest = np.maximum(1 - given.sum(axis=1), 0.0)
        given[decides, usual[decides]] += rest[decides]
        return np.where(decides[:, None], given, eligible / eligible.sum(axis=1, keepdims=True))

    def confidence(self, contexts: Contexts, models: tuple[str, ...], eligible: np.ndarray) -> np.ndarray:
        """Returns [n]: the chance that all decisions together keep to the limit; 0 where the policy has no opinion."""
        _, _, decides = self.given(with_categories(self.categorizer, contexts), models, eligible)
        return np.where(decides, self.chance, 0.0)

    def given(
        self, contexts: Contexts, models: tuple[str, ...], eligible: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns the shares given away [n, models], the usual models' columns (int [n]), and the rows with an opinion."""
        index, own = self.cells.index(contexts), own_columns(self.models, models)
        known = (index >= 0) & (index < len(self.cells))
        cell = np.where(known, index, 0)
        here = np.flatnonzero(own >= 0)
        given = np.zeros(eligible.shape)
        given[:, here] = self.share[cell][:, own[here]]
        given = np.where(eligible & known[:, None], given, 0.0)
        column = np.full(len(self.models), -1)
        column[own[here]] = here
        usual = column[self.usual[cell]]
        possible = known & (usual >= 0) & eligible[np.arange(len(usual)), usual]
        return given, usual, possible & (given > 0).any(axis=1)

    def scores(self, contexts: Contexts) -> np.ndarray:
        """Returns [n, self.models]: the shares, the usual model's included; minus infinity where there are none."""
        eligible = np.ones((len(contexts.role), len(self.models)), bool)
        given, usual, decides = self.given(contexts, self.models, eligible)
        given[np.arange(len(given)), usual] += 1 - given.sum(axis=1)
        return np.where(decides[:, None], given, -np.inf)

    def chances(self, contexts: Contexts, own: np.ndarray) -> np.ndarray:
        return np.full(len(own), self.chance)

    def arrays(self) -> dict[str, np.ndarray]:
        return {"share": self.share, "usual": self.usual}

    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {"share": (len(self.cells), len(self.models)), "usual": (len(self.cells),)}

    def options(self) -> dict:
        return {"cells": [list(pair) for pair in self.cells.pairs], "chance": self.chance}
