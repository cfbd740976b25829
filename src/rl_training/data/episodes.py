"""Episodes as ranges of rows, and sums along them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rl_training.core.arguments import row_numbers
from rl_training.functional import ENDED, TERMINATED


class Episodes(NamedTuple):
    """Rows `start` to `stop` (exclusive) of every episode."""

    start: np.ndarray
    stop: np.ndarray

    @classmethod
    def from_starts(cls, start: np.ndarray, num_rows: int) -> Episodes:
        """Returns episodes that follow each other without a gap, given their first rows."""
        return cls(start, np.append(start[1:], num_rows))

    @property
    def length(self) -> np.ndarray:
        return self.stop - self.start

    def index_of(self, rows: np.ndarray) -> np.ndarray:
        """Returns the number of the episode of every row."""
        chosen = row_numbers(rows, "rows", int(self.stop[-1]) if len(self.stop) else 0, "rows")
        return np.searchsorted(self.stop, chosen, side="right")

    def rows_of(self, index: np.ndarray) -> np.ndarray:
        """Returns all rows of some episodes, one episode after the other."""
        chosen = row_numbers(index, "index", len(self.stop), "episodes")
        length = self.length[chosen]
        before = np.cumsum(length) - length
        return np.arange(length.sum()) + np.repeat(self.start[chosen] - before, length)


class NStep(NamedTuple):
    """N-step returns without bootstrap: `reward` + `discount` * value of the successor of row `last`."""

    reward: np.ndarray
    discount: np.ndarray  # 0 where terminated
    last: np.ndarray


class NextAction(NamedTuple):
    """The action that followed in the same episode; where none did, `known` is False and `action` the row's own."""

    action: np.ndarray
    known: np.ndarray


def find_episodes(terminated: np.ndarray, truncated: np.ndarray) -> Episodes:
    """Finds the episodes: each ends where it terminated or was cut, and with the last row."""
    ended = np.asarray(terminated, bool) | np.asarray(truncated, bool)
    return Episodes.from_starts(np.append(0, np.flatnonzero(ended[:-1]) + 1), len(ended))


def discounted_sums(reward: np.ndarray, episodes: Episodes, gamma: float) -> np.ndarray:
    """Sums for every row the discounted rewards from there to the end of its episode.

    Sums over twice as many steps are made of two sums, so that one very long episode takes no loop over its steps.
    """
    sums = reward.astype(np.float64)
    stop = np.repeat(episodes.stop, episodes.length)
    for power in range(int(episodes.length.max() - 1).bit_length()):
        reach = 1 << power
        inside = np.arange(reach, len(sums)) < stop[:-reach]
        sums[:-reach] += np.where(inside, gamma**reach * sums[reach:], 0.0)
    return sums


def row_flags(terminated: np.ndarray, episodes: Episodes) -> np.ndarray:
    """Returns flags of every row: the bit TERMINATED, and ENDED in the last row of its episode."""
    flags = terminated.astype(np.uint8) * TERMINATED
    flags[episodes.stop - 1] |= ENDED
    return flags
