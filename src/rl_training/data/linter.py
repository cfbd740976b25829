"""Faults that a file can have and still be read: each is named with its rows, what it means, and what to do."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from rl_training.core import Box
from rl_training.data.columns import DatasetError, chunks, leaves
from rl_training.data.dataset import Dataset
from rl_training.data.values import finite_columns, rows_not_finite, rows_outside, rows_where

SHOWN = 10  # rows that a finding names
FEW = 3  # episodes below which equal lengths say nothing
PILE = 5  # times more episodes of the greatest length than of the one below: a time limit
SHORT = 10  # steps up to which equal episodes may well be chance


@dataclass(frozen=True)
class Finding:
    """One fault."""

    fault: str
    severity: Literal["error", "warning"]
    rows: tuple[int, ...]  # the first of them
    count: int  # how many there are
    meaning: str
    advice: str

    def __str__(self) -> str:
        more = ", ..." if self.count > len(self.rows) else ""
        where = f" (rows {', '.join(map(str, self.rows))}{more})" if self.rows else ""
        return f"{self.severity}: {self.fault}: {self.meaning}{where}; {self.advice}"


def finding(
    fault: str, severity: Literal["error", "warning"], rows: np.ndarray, meaning: str, advice: str
) -> Iterator[Finding]:
    """One finding, if there are rows to name."""
    if len(rows):
        yield Finding(fault, severity, tuple(int(row) for row in rows[:SHOWN]), len(rows), meaning, advice)


def lint(dataset: Dataset | str | Path) -> list[Finding]:
    """Looks for every fault; a file that cannot be opened is one fault. An empty list means that none was found."""
    try:
        opened = dataset if isinstance(dataset, Dataset) else Dataset.open(dataset, check=False)
        opened.episodes()  # of a mapped folder they have not been looked at
    except DatasetError as error:
        return [Finding("unreadable", "error", (), 1, str(error), "nothing else was looked at")]
    return [found for check in CHECKS for found in check(opened)]


def content_is_what_was_written(dataset: Dataset) -> Iterator[Finding]:
    try:
        dataset.verify()
    except DatasetError as error:
        yield Finding("changed-content", "error", (), 1, str(error), "or save the dataset again if the change is meant")


def numbers_are_finite(dataset: Dataset) -> Iterator[Finding]:
    for name, column in finite_columns(dataset.columns).items():
        rows = rows_not_finite(column)
        if name.startswith("last_obs"):
            rows = dataset.episodes().stop[rows] - 1
        advice = "repair these rows or leave their episodes out: one such number makes every weight NaN"
        yield from finding("not-finite", "error", rows, f"{name} is NaN or infinite in {len(rows)} rows", advice)


def actions_are_in_the_space(dataset: Dataset) -> Iterator[Finding]:
    rows = rows_outside(dataset.action, dataset.spec.action)
    meaning = f"{len(rows)} actions are outside {type(dataset.spec.action).__name__}"
    advice = (
        "store actions in the environment's units, clip what the environment clipped, or correct the bounds"
        if isinstance(dataset.spec.action, Box)
        else "repair them, or correct the number of choices"
    )
    yield from finding("action-outside", "error", rows, meaning, advice)


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


def observations_vary(dataset: Dataset) -> Iterator[Finding]:
    if len(dataset) == 1:
        return
    for name, column in leaves("obs", dataset.obs).items():
        first = np.asarray(column[0])
        same = np.ones(first.shape, bool)
        for part in chunks(len(column)):
            same &= (column[part] == first).all(0)
        if same.any() and (first.size == 1 or first.dtype != np.uint8 or same.all()):  # images have still borders
            which = "all of it" if same.all() else f"elements {np.flatnonzero(same)[:SHOWN].tolist()}"
            meaning = f"{name} never changes ({which})"
            advice = "check that it was recorded, or leave it out; a normaliser divides by its spread"
            yield from finding("constant-observation", "warning", np.array([0]), meaning, advice)


def log_probabilities_make_sense(dataset: Dataset) -> Iterator[Finding]:
    if dataset.log_prob is None:
        return
    discrete = not isinstance(dataset.spec.action, Box)
    rows = rows_where(dataset.log_prob, lambda x: np.isposinf(x) | ((x > 1e-5) & discrete))
    advice = "store the logarithm of the probability with which the executed action was chosen"
    yield from finding("log-prob", "error", rows, f"{len(rows)} log-probabilities are above 0 or infinite", advice)
    unknown = rows_where(dataset.log_prob, np.isnan)
    meaning = f"log_prob is unknown in {len(unknown)} of {len(dataset)} rows"
    yield from finding("log-prob", "warning", unknown, meaning, "off-policy evaluation needs all of them")


def spaces_are_known(dataset: Dataset) -> Iterator[Finding]:
    if dataset.provenance.spec_inferred:
        meaning = "the spaces were guessed from the data, the bounds of actions among them"
        advice = "say them with Dataset.open(path, spec=...) and save"
        yield Finding("guessed-spaces", "warning", (), 1, meaning, advice)


def differs(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Which rows differ; NaN equals NaN, being another fault."""
    unequal = a != b
    if a.dtype.kind == "f":
        unequal &= ~(np.isnan(a) & np.isnan(b))
    return unequal.reshape(len(a), -1).any(1)


CHECKS: tuple[Callable[[Dataset], Iterator[Finding]], ...] = (
    content_is_what_was_written,
    numbers_are_finite,
    actions_are_in_the_space,
    timeouts_are_not_terminals,
    successors_follow,
    cut_episodes_keep_their_last_observation,
    the_last_episode_ends,
    episodes_are_there_once,
    observations_vary,
    log_probabilities_make_sense,
    spaces_are_known,
)
