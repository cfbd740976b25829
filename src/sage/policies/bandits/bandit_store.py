"""The statistics of bandits in the log's SQLite file, which several processes share and which survives a restart."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Protocol

from sage.log.database import SharedFile
from sage.policies.bandits.bandit_statistics import BanditStatistics, Cell

SCHEMA = """
CREATE TABLE IF NOT EXISTS bandit_cells (
  policy TEXT NOT NULL, role TEXT NOT NULL, category TEXT NOT NULL, model TEXT NOT NULL,
  count REAL NOT NULL, total REAL NOT NULL, PRIMARY KEY (policy, role, category, model)
) STRICT, WITHOUT ROWID;
"""
FADE = "UPDATE bandit_cells SET count = count * ?, total = total * ? WHERE policy = ? AND role = ? AND category = ?"
ADD = """INSERT INTO bandit_cells VALUES (?, ?, ?, ?, 1, ?)
  ON CONFLICT DO UPDATE SET count = count + 1, total = total + excluded.total"""
TAKE_BACK = """UPDATE bandit_cells SET total = CASE WHEN count > 1 THEN total - ? ELSE 0 END, count = max(count - 1, 0)
  WHERE policy = ? AND role = ? AND category = ? AND model = ?"""
READ = "SELECT role, category, model, count, total FROM bandit_cells WHERE policy = ?"


class Bandit(Protocol):
    """A policy that learns from the rewards of single decisions."""

    name: str
    statistics: BanditStatistics

    def cell(self, role: str, category: str) -> Cell: ...


class BanditStore:
    """One bandit's statistics in memory, kept in step with those of a file that processes share.

    Own rewards are written at once, those of other processes are read every `refresh_s` seconds.
    """

    def __init__(self, path: str | Path, bandit: Bandit, *, refresh_s: float = 1.0, key: str | None = None) -> None:
        self.file = SharedFile(Path(path), SCHEMA)
        self.bandit = bandit
        self.key = key or bandit.name  # under which the file keeps it: another for another reward
        self.refresh_s = refresh_s
        self.read_at = 0.0
        self.refresh()

    def refresh(self) -> None:
        """Reads the statistics of the file into memory, unless that was done less than `refresh_s` seconds ago."""
        if self.read_at and time.monotonic() - self.read_at < self.refresh_s:
            return
        statistics = BanditStatistics(self.bandit.statistics.keep)
        with self.file.connection() as connection:
            for role, category, model, count, total in connection.execute(READ, (self.key,)):
                statistics.set_entry((role, category), model, count, total)
        self.bandit.statistics = statistics
        self.read_at = time.monotonic()

    def learn(
        self, role: str, category: str, model: str, reward: float, *, instead_of: tuple[str, float] | None = None
    ) -> None:
        """Adds the reward of one decision, in the file and in memory.

        `instead_of` is the model and reward that were learned for the same decision before, and are taken back. Raises
        ValueError if the reward is not finite; nothing is written then.
        """
        cell, statistics = self.bandit.cell(role, category), self.bandit.statistics
        if not math.isfinite(reward):  # before anything is written
            raise ValueError(f"reward={reward} for {model!r} must be a finite number")
        with self.file.transaction() as connection:
            if instead_of is not None:
                old, earned = instead_of
                connection.execute(TAKE_BACK, (earned, self.key, *cell, old))
            elif statistics.keep < 1:
                connection.execute(FADE, (statistics.keep, statistics.keep, self.key, *cell))
            connection.execute(ADD, (self.key, *cell, model, reward))
        if instead_of is None:
            statistics.add(cell, model, reward)
        else:
            statistics.revise(cell, model, reward, instead_of)
