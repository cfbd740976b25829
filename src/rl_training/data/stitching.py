"""Faults of what follows what: rows that were put together in the wrong order, or across the end of an episode."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rl_training.data.columns import chunks, leaves
from rl_training.data.dataset import Dataset
from rl_training.data.findings import FEW, Finding, finding


def successors_follow(dataset: Dataset) -> Iterator[Finding]:
    """Within an episode the stored successor is the following observation."""
    for name, after in leaves("next_obs", dataset.next_obs).items():
        here = leaves("obs", dataset.obs)[name.removeprefix("next_")]
        found = []
        for part in chunks(len(dataset) - 1):
            following = slice(part.start + 1, part.stop + 1)
            goes_on = ~(dataset.terminated[part] | dataset.truncated[part])
            found.append(np.flatnonzero(differs(after[part], here[following]) & goes_on) + part.start)
        rows = np.concatenate([np.empty(0, np.int64), *found])
        meaning = f"{name} of {len(rows)} rows is not the following observation, though no episode ends there"
        advice = "mark where episodes end, and put the rows of each environment one after the other"
        yield from finding("broken-chain", "error", rows, meaning, advice)


def cut_episodes_keep_their_last_observation(dataset: Dataset) -> Iterator[Finding]:
    """An automatic reset leaves the first observation of the next episode where the last one should be."""
    last = dataset.episodes().stop[:-1] - 1
    cut = last[~dataset.terminated[last]]
    if len(cut) < FEW:
        return
    after = leaves("obs", dataset.successors(cut))
    wrong = np.ones(len(cut), bool)
    for name, here in leaves("obs", dataset.obs).items():
        wrong &= ~differs(after[name], here[cut + 1])
    if wrong.all():
        meaning = "the successor at the end of cut episodes is the first observation of the next episode"
        advice = "store the true last observation (gymnasium: final_obs, or autoreset off)"
        yield from finding("reset-as-successor", "error", cut, meaning, advice)


def differs(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Which rows differ; NaN equals NaN, being another fault."""
    unequal = a != b
    if a.dtype.kind == "f":
        unequal &= ~(np.isnan(a) & np.isnan(b))
    return unequal.reshape(len(a), -1).any(1)
