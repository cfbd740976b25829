"""Numbers that describe a dataset, found in one pass over pieces of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rl_training.data.columns import chunks, leaves

if TYPE_CHECKING:
    from rl_training.data.dataset import Dataset


@dataclass(frozen=True)
class Moments:
    """Mean, standard deviation, minimum and maximum of a column: tuples with one number per element of a row."""

    mean: tuple[float, ...]
    std: tuple[float, ...]
    minimum: tuple[float, ...]
    maximum: tuple[float, ...]


@dataclass(frozen=True)
class Statistics:
    """Numbers that summarise a dataset: how many rows and episodes, and mean, deviation and range of its columns.

    The latter are given for returns and lengths of episodes, too.
    """

    rows: int
    episodes: int
    terminated: int  # episodes that came to their own end
    truncated: int  # episodes that were cut, or stop without a flag
    returns: Moments
    length: Moments
    reward: Moments
    action: Moments
    obs: dict[str, Moments]  # by flat name
    log_prob_known: float  # share of the rows


def describe(column: np.ndarray) -> Moments:
    """Returns mean, standard deviation, minimum and maximum of a column [rows, ...], for each element of a row.

    They are computed in float64, in pieces, shifted by the first row so that large means hide no small spreads.
    """
    size = int(np.prod(column.shape[1:]))
    shift = np.asarray(column[0], np.float64).reshape(size)
    total, squares = np.zeros(size), np.zeros(size)
    low, high = np.full(size, np.inf), np.full(size, -np.inf)
    for part in chunks(len(column)):
        piece = np.asarray(column[part], np.float64).reshape(-1, size)
        total += (piece - shift).sum(0)
        squares += ((piece - shift) ** 2).sum(0)
        low, high = np.minimum(low, piece.min(0)), np.maximum(high, piece.max(0))
    mean = total / len(column)
    std = np.sqrt(np.maximum(squares / len(column) - mean**2, 0.0))
    return Moments(*(tuple(map(float, numbers)) for numbers in (mean + shift, std, low, high)))


def measure(dataset: Dataset) -> Statistics:
    episodes = dataset.episodes()
    terminated = int(dataset.terminated[episodes.stop - 1].sum())
    known = 0.0 if dataset.log_prob is None else float(np.isfinite(dataset.log_prob).mean())
    return Statistics(
        rows=len(dataset),
        episodes=len(episodes.stop),
        terminated=terminated,
        truncated=len(episodes.stop) - terminated,
        returns=describe(dataset.returns),
        length=describe(episodes.length),
        reward=describe(dataset.reward),
        action=describe(dataset.action),
        obs={name: describe(leaf) for name, leaf in leaves("obs", dataset.obs).items()},
        log_prob_known=known,
    )
