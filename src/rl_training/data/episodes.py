"""Episodes as ranges of rows, and sums along them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rl_training.core.arguments import row_numbers
from rl_training.functional import ENDED, TERMINATED


class Episodes(NamedTuple):
    """The rows of every episode: from row `start` to row `stop` (exclusive), arrays [episodes] each."""

    start: np.ndarray
    stop: np.ndarray

    @classmethod
    def from_starts(cls, start: np.ndarray, num_rows: int) -> Episodes:
        """Returns episodes that fill `num_rows` rows without a gap; `start` [episodes] holds the first row of each."""
        return cls(start, np.append(start[1:], num_rows))

    @property
    def length(self) -> np.ndarray:
        return self.stop - self.start

    def index_of(self, rows: np.ndarray) -> np.ndarray:
        """Returns the number of the episode that each of the given rows is in.

        Raises a ValueError for rows out of range.
        """
        chosen = row_numbers(rows, "rows", int(self.stop[-1]) if len(self.stop) else 0, "rows")
        return np.searchsorted(self.stop, chosen, side="right")

    def rows_of(self, index: np.ndarray) -> np.ndarray:
        """Returns all row numbers of the episodes with the numbers `index`, one episode after the other."""
        chosen = row_numbers(index, "index", len(self.stop), "episodes")
        length = self.length[chosen]
        before = np.cumsum(length) - length
        return np.arange(length.sum()) + np.repeat(self.start[chosen] - before, length)


class NStep(NamedTuple):
    """N-step returns without the value at their end: `reward` + `discount` * the value after row `last`."""

    reward: np.ndarray
    discount: np.ndarray  # 0 where terminated
    last: np.ndarray


class NextAction(NamedTuple):
    """The following action in the same episode for every row, and a mask `known` of the rows that have one.

    Other rows get their own action.
    """

    action: np.ndarray
    known: np.ndarray


def find_episodes(terminated: np.ndarray, truncated: np.ndarray) -> Episodes:
    """Returns the episodes of a table of steps: one ends in each row where a flag is set, and in the last row.

    Both flags are arrays [rows].
    """
    ended = np.asarray(terminated, bool) | np.asarray(truncated, bool)
    return Episodes.from_starts(np.append(0, np.flatnonzero(ended[:-1]) + 1), len(ended))


def discounted_sums(reward: np.ndarray, episodes: Episodes, gamma: float) -> np.ndarray:
    """Returns for every row the discounted sum of rewards from it to the end of its episode, float64 [rows].

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
    """Returns uint8 flags [rows]: the bit TERMINATED where a row terminated, ENDED in the last row of an episode."""
    flags = terminated.astype(np.uint8) * TERMINATED
    flags[episodes.stop - 1] |= ENDED
    return flags
