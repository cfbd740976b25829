"""Counts and reward sums of each model in each cell (role, category), which fade with every update."""

from __future__ import annotations

import numpy as np

Cell = tuple[str, str]  # role, category


class BanditStatistics:
    """Counts and reward sums, arrays [cells, models] that grow as new cells and models come.

    Before an observation is added, all counts and sums of its cell are multiplied by `keep`. Raises ValueError unless
    `keep` is above 0 and at most 1.
    """

    def __init__(self, keep: float = 1.0) -> None:
        if not 0 < keep <= 1:
            raise ValueError(f"keep={keep} must be above 0 and at most 1 (1 forgets nothing)")
        self.keep = keep
        self.cells: dict[Cell, int] = {}
        self.models: dict[str, int] = {}
        self.count = np.zeros((0, 0))
        self.total = np.zeros((0, 0))
        self.version = 0  # changes with every entry

    def add(self, cell: Cell, model: str, reward: float) -> None:
        """Adds the reward of one decision, after the cell's earlier entries were multiplied by `keep`.

        Raises ValueError if the reward is not finite.
        """
        if not np.isfinite(reward):
            raise ValueError(f"reward={reward} for {model!r} must be a finite number")
        row, column = self.entry(cell, model)
        self.count[row] *= self.keep
        self.total[row] *= self.keep
        self.count[row, column] += 1
        self.total[row, column] += reward

    def revise(self, cell: Cell, model: str, reward: float, instead_of: tuple[str, float]) -> None:
        """Replaces the earlier observation `instead_of` (model, reward) by another, as when an outcome is corrected.

        What has faded of the earlier one is not taken back.
        """
        old, earned = instead_of
        place = self.entry(cell, old)
        self.count[place] = max(self.count[place] - 1, 0.0)
        self.total[place] = self.total[place] - earned if self.count[place] else 0.0
        place = self.entry(cell, model)
        self.count[place] += 1
        self.total[place] += reward

    def set_entry(self, cell: Cell, model: str, count: float, total: float) -> None:
        """Sets the count and the reward sum of a model in a cell, as they are read from a file."""
        place = self.entry(cell, model)
        self.count[place], self.total[place] = count, total

    def entry(self, cell: Cell, model: str) -> tuple[int, int]:
        """Returns row and column of a model in a cell; makes room for a new one, and counts up `version`."""
        self.version += 1
        row = self.cells.setdefault(cell, len(self.cells))
        column = self.models.setdefault(model, len(self.models))
        rows, columns = self.count.shape
        if row >= rows or column >= columns:
            # Room for twice as many cells: growing one by one would copy everything each time.
            padding = [(0, rows + 1 if row >= rows else 0), (0, 1 if column >= columns else 0)]
            self.count, self.total = np.pad(self.count, padding), np.pad(self.total, padding)
        return row, column

    def of_models(self, models: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
        """Returns counts and reward sums [cells, models] of the given models; zeros for models never tried."""
        known = np.array([self.models.get(model, -1) for model in models], int)
        seen = (known >= 0) & (len(self.models) > 0)
        if not seen.any():
            empty = np.zeros((len(self.cells), len(models)))
            return empty, empty
        rows = slice(len(self.cells))
        return self.count[rows, known] * seen, self.total[rows, known] * seen
