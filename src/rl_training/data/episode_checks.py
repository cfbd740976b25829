"""Faults of episodes: how they end, how long they are, and whether one is there twice."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import numpy as np

from rl_training.data.columns import leaves
from rl_training.data.dataset import Dataset
from rl_training.data.findings import FEW, Finding, finding

PILE = 5  # times more episodes of the greatest length than of the one below: a time limit
SHORT = 10  # steps up to which equal episodes may well be chance


def timeouts_are_not_terminals(dataset: Dataset) -> Iterator[Finding]:
    """Episodes that always terminate at the same greatest length were cut by a time limit."""
    episodes = dataset.episodes()
    length, last = episodes.length, episodes.stop - 1
    longest = length.max()
    full = (length == longest) & dataset.terminated[last]
    below = int((length == longest - 1).sum())
    if longest == 1 or full.sum() < FEW or dataset.truncated.any():
        return
    advice = "store time limits as truncated: as terminals they teach that the value after them is zero"
    if full.all():
        meaning = f"all {len(length)} episodes terminate after exactly {longest} steps"
        yield from finding("timeout-as-terminal", "error", last, meaning, advice)
    elif longest > SHORT and full.sum() >= PILE * max(below, 1):
        meaning = f"{full.sum()} of {len(length)} episodes terminate at the greatest length, {longest} steps"
        yield from finding("timeout-as-terminal", "warning", last[full], meaning, advice)


def the_last_episode_ends(dataset: Dataset) -> Iterator[Finding]:
    last = len(dataset) - 1
    if not (dataset.terminated[last] or dataset.truncated[last]):
        meaning = "the last episode ends with neither flag: it is taken as cut"
        yield from finding("open-end", "warning", np.array([last]), meaning, "set truncated in the last row")


def episodes_are_there_once(dataset: Dataset) -> Iterator[Finding]:
    """Compares only episodes of equal length and return."""
    episodes, seen, again = dataset.episodes(), {}, []
    keys = np.stack([episodes.length, dataset.returns.view(np.int64)], 1)
    _, inverse, times = np.unique(keys, axis=0, return_inverse=True, return_counts=True)
    suspects = np.flatnonzero((times[inverse.reshape(-1)] > 1) & (episodes.length > SHORT))
    for number in suspects:
        rows = slice(episodes.start[number], episodes.stop[number])
        digest = hashlib.sha256()
        for column in (*leaves("obs", dataset.obs).values(), dataset.action, dataset.reward):
            digest.update(np.ascontiguousarray(column[rows]).data)
        if seen.setdefault(digest.digest(), number) != number:
            again.append(episodes.start[number])
    meaning = f"{len(again)} episodes are copies of earlier ones"
    advice = "leave the copies out: they count twice, and may be on both sides of a split"
    yield from finding("duplicated-episode", "warning", np.array(again, np.int64), meaning, advice)
