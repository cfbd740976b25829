"""Checks for faults in episodes: their ends, their lengths, and duplicates."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import numpy as np

from rl_training.data.columns import leaves
from rl_training.data.dataset import Dataset
from rl_training.data.findings import FEW, Finding, finding
from rl_training.data.values import differs

PILE = 5  # times more episodes of the greatest length than of the one below: a time limit
LONG = 2_000  # steps of a single episode that make one wonder whether ends are missing
SHORT = 10  # steps up to which equal episodes may well be chance


def timeouts_are_not_terminals(dataset: Dataset) -> Iterator[Finding]:
    """Yields an error or a warning if many episodes terminate at the same greatest length: a time limit cut them."""
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


def time_limit_of(env_id: str | None) -> int | None:
    """Returns the number of steps after which gymnasium cuts an episode of `env_id`.

    Returns None if the id or limit is unknown.
    """
    from gymnasium.envs.registration import registry

    spec = registry.get(env_id or "")
    return spec.max_episode_steps if spec is not None else None


def episodes_keep_to_the_limit(dataset: Dataset, limit: int) -> Iterator[Finding]:
    """Yields an error for episodes longer than `limit` steps, the environment's time limit.

    Yields another if all episodes of exactly that length are terminated instead of truncated; with fewer than three of
    them it is a warning.
    """
    episodes = dataset.episodes()
    longer = np.flatnonzero(episodes.length > limit)
    if len(longer):
        first, num = longer[0], episodes.length[longer[0]]
        meaning = (
            f"{len(longer)} episodes are longer than the time limit of {limit:,} steps; episode {first} (rows "
            f"{episodes.start[first]:,} to {episodes.stop[first] - 1:,}) has {num:,}"
        )
        advice = "an end is missing in each of them: mark where episodes end, or say another limit if the environment had one"
        yield from finding("missing-end", "error", episodes.start[longer], meaning, advice)
    full = np.flatnonzero(episodes.length == limit)
    last = episodes.stop[full] - 1
    wrong = dataset.terminated[last] & ~dataset.truncated[last]
    if len(full) and wrong.all():
        meaning = f"all {len(full)} episodes of {limit:,} steps, which is the time limit, are marked terminated"
        advice = "store time limits as truncated: as terminals they teach that the value after them is zero"
        severity = "error" if len(full) >= FEW else "warning"
        yield from finding("timeout-as-terminal", severity, last, meaning, advice)


def some_episode_ends(dataset: Dataset) -> Iterator[Finding]:
    if len(dataset.episodes().stop) == 1 and len(dataset) > LONG:
        meaning = f"no row before the last ends an episode, so all {len(dataset):,} rows are one"
        advice = "mark where episodes end (terminated, truncated), unless the task goes on for ever"
        yield Finding("one-episode", "warning", (), 1, meaning, advice)


def flags_are_no_masks(dataset: Dataset) -> Iterator[Finding]:
    """Yields an error if flags seem stored as 1 - terminated: most rows are ends, but continue in the next row.

    Looks only at datasets that store `next_obs`.
    """
    ended = dataset.terminated[:-1]
    if len(ended) < SHORT or ended.mean() <= 0.5 or dataset.next_obs is None:
        return
    here = leaves("next_obs", dataset.obs)
    follows = np.ones(len(ended), bool)
    for name, after in leaves("next_obs", dataset.next_obs).items():
        follows &= ~differs(after[:-1], here[name][1:])
    if follows[ended].mean() > 0.5:
        meaning = f"terminated holds in {ended.mean():.0%} of the rows, though the next row follows from most of them"
        advice = "this is a mask (1 where the episode goes on): store its opposite"
        yield from finding("flags-inverted", "error", np.flatnonzero(ended & follows), meaning, advice)


def the_last_episode_ends(dataset: Dataset) -> Iterator[Finding]:
    last = len(dataset) - 1
    if not (dataset.terminated[last] or dataset.truncated[last]):
        meaning = "the last episode ends with neither flag: it is taken as cut"
        yield from finding("open-end", "warning", np.array([last]), meaning, "set truncated in the last row")


def episodes_are_there_once(dataset: Dataset) -> Iterator[Finding]:
    """Yields a warning about episodes that are copies of earlier ones.

    Only episodes of more than 10 steps are compared.
    """
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
