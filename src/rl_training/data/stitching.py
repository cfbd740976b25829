"""Checks for faults in the order of rows: rows joined in the wrong order, or across the end of an episode."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rl_training.data.columns import chunks, leaves
from rl_training.data.dataset import Dataset
from rl_training.data.findings import FEW, Finding, finding
from rl_training.data.values import differs

MOST_ENVS = 64  # environments whose rows may be mixed
USUAL = 0.9  # the share of the steps whose change counts as usual
JUMP = 1.5  # times a usual change
MOSTLY = 0.8  # of the known ends that must be jumps
SAMPLED = 20_000  # rows that the usual change is taken from


def successors_follow(dataset: Dataset) -> Iterator[Finding]:
    """Yields an error if the stored `next_obs` of a row within an episode is not the `obs` of the following row."""
    for name, after in leaves("next_obs", dataset.next_obs).items():
        here = leaves("obs", dataset.obs)[name.removeprefix("next_")]
        found = []
        for part in chunks(len(dataset) - 1):
            following = slice(part.start + 1, part.stop + 1)
            goes_on = ~(dataset.terminated[part] | dataset.truncated[part])
            found.append(np.flatnonzero(differs(after[part], here[following]) & goes_on) + part.start)
        rows = np.concatenate([np.empty(0, np.int64), *found])
        meaning = f"{name} of {len(rows)} rows is not the following observation, though no episode ends there"
        yield from finding("broken-chain", "error", rows, meaning, how_to_mend(after, here, rows))


def how_to_mend(after: np.ndarray, here: np.ndarray, rows: np.ndarray) -> str:
    """Returns advice on the row numbers `rows`, whose observation in `after` is not the next row's in `here`.

    It is a sentence, and a special one for shifted rows and for rows of several environments in turn.
    """
    if len(rows) >= FEW:
        if not differs(after[rows], here[rows]).any():
            return "it is the row's own observation instead: shift next_obs by one row"
        for apart in range(2, MOST_ENVS + 1):
            inside = rows[rows + apart < len(here)]
            if len(inside) >= FEW and differs(after[inside], here[inside + apart]).mean() < 1 - USUAL:
                return f"it is the observation {apart} rows later: put the rows of the {apart} environments one after the other"
    return "mark where episodes end, and put the rows of each environment one after the other"


def no_end_is_missing(dataset: Dataset) -> Iterator[Finding]:
    """Yields a warning if ends of episodes seem unmarked: rows that jump to what looks like a first observation.

    Looks only at datasets without `next_obs` whose known ends are mostly jumps, so that others can be told from
    ordinary steps.
    """
    obs = [x.reshape(len(x), -1) for x in leaves("obs", dataset.obs).values() if x.dtype.kind == "f"]
    episodes = dataset.episodes()
    if dataset.next_obs is not None or not obs or len(episodes.start) <= FEW:
        return
    usual = usual_change(obs, episodes.start)
    starts = np.concatenate([column[episodes.start] for column in obs], 1)
    spread = np.ptp(starts, axis=0) * max(0.1, FEW / len(starts))  # few starts do not show their whole range
    low, high = starts.min(0) - spread, starts.max(0) + spread
    jumps, found = np.zeros(len(dataset), bool), []
    for part in chunks(len(dataset) - 1):
        before, after = (np.concatenate([x[part.start + k : part.stop + k] for x in obs], 1) for k in (0, 1))
        jumps[part] = (np.abs(after - before) > JUMP * usual).any(1)
        found.append(np.flatnonzero(jumps[part] & ((after >= low) & (after <= high)).all(1)) + part.start)
    if jumps[episodes.stop[:-1] - 1].mean() < MOSTLY:
        return
    rows = np.setdiff1d(np.concatenate(found), episodes.stop - 1)
    first = int(episodes.index_of(rows[:1])[0]) if len(rows) else 0
    meaning = f"{len(rows)} rows are followed by what looks like the start of another episode, first in episode {first}"
    advice = "mark them as ends of episodes (truncated if you do not know), and store what really followed"
    yield from finding("missing-end", "warning", rows, meaning, advice)


def usual_change(obs: list[np.ndarray], starts: np.ndarray) -> np.ndarray:
    """Returns for every number of an observation the 90 % quantile of its change from one row to the next, a vector.

    `obs` are arrays [rows, size], whose sizes add up; changes into the rows `starts` do not count. It is infinite if no
    others are left.
    """
    rows = np.setdiff1d(np.linspace(1, len(obs[0]) - 1, SAMPLED).astype(np.int64), starts)
    if not len(rows):
        return np.full(sum(column.shape[1] for column in obs), np.inf)
    return np.quantile(np.concatenate([np.abs(x[rows] - x[rows - 1]) for x in obs], 1), USUAL, axis=0)


def cut_episodes_keep_their_last_observation(dataset: Dataset) -> Iterator[Finding]:
    """Yields an error if the observation after every cut episode is the first one of the next episode.

    With fewer than three cut episodes it yields nothing.
    """
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
