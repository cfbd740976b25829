"""How often each model was tried in each cell (role, category) and what it earned, with forgetting."""

from __future__ import annotations

import numpy as np

Cell = tuple[str, str]  # role, category


class BanditStatistics:
    """Counts and reward totals [cells, models] that grow with what they see; an update fades its cell by `keep` first."""

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
        """One more observation."""
        if not np.isfinite(reward):
            raise ValueError(f"reward={reward} for {model!r} must be a finite number")
        row, column = self.entry(cell, model)
        self.count[row] *= self.keep
        self.total[row] *= self.keep
        self.count[row, column] += 1
        self.total[row, column] += reward

    def revise(self, cell: Cell, model: str, reward: float, instead_of: tuple[str, float]) -> None:
        """Takes an observation back, as far as it has not faded, and adds what it should have been."""
        old, earned = instead_of
        place = self.entry(cell, old)
        self.count[place] = max(self.count[place] - 1, 0.0)
        self.total[place] = self.total[place] - earned if self.count[place] else 0.0
        place = self.entry(cell, model)
        self.count[place] += 1
        self.total[place] += reward

    def set_entry(self, cell: Cell, model: str, count: float, total: float) -> None:
        """Sets an entry, as when it is read from a file."""
        place = self.entry(cell, model)
        self.count[place], self.total[place] = count, total

    def entry(self, cell: Cell, model: str) -> tuple[int, int]:
        """Where an entry is, to be changed."""
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
        """Counts and totals [cells, models]; zero for models that were never tried."""
        known = np.array([self.models.get(model, -1) for model in models], int)
        seen = (known >= 0) & (len(self.models) > 0)
        if not seen.any():
            empty = np.zeros((len(self.cells), len(models)))
            return empty, empty
        rows = slice(len(self.cells))
        return self.count[rows, known] * seen, self.total[rows, known] * seen
