"""Datasets out of others: some episodes of one, all episodes of several."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from rl_training.core import Spec
from rl_training.data.columns import Arrays, Columns, DatasetError, infer_spec, leaves, map_arrays
from rl_training.data.episodes import Episodes, find_episodes
from rl_training.data.metadata import Provenance


class Part(NamedTuple):
    """What is asked of a dataset that is joined with others."""

    columns: Columns
    spec: Spec
    provenance: Provenance
    successors: Callable[[np.ndarray], Arrays]


def own_last_observations(columns: Columns) -> Arrays:
    """Stands in for the last observations of episodes that all terminated, where they are never looked at."""
    stop = find_episodes(columns.terminated, columns.truncated).stop
    cut = stop[~columns.terminated[stop - 1]]
    if len(cut):
        raise DatasetError(
            f"next_obs is missing, and the episode that was cut at row {cut[0] - 1} cannot be learned from without the "
            "observation after it: store next_obs (one row per step) or last_obs (one row per episode)"
        )
    return map_arrays(lambda column: column[stop - 1], columns.obs)


def marked_ends(columns: Columns, stop: np.ndarray) -> np.ndarray:
    """`truncated`, also where an episode just stops: what is put behind it does not follow from it."""
    truncated = columns.truncated.copy()
    truncated[stop - 1] |= ~columns.terminated[stop - 1]
    return truncated


def pick_episodes(columns: Columns, episodes: Episodes, index: np.ndarray) -> Columns:
    """Copies the rows of some episodes."""
    rows = episodes.rows_of(index)

    def pick(column: np.ndarray) -> np.ndarray:
        return column[rows]

    return Columns(
        map_arrays(pick, columns.obs),
        pick(columns.action),
        pick(columns.reward),
        pick(columns.terminated),
        pick(marked_ends(columns, episodes.stop)),
        None if columns.next_obs is None else map_arrays(pick, columns.next_obs),
        None if columns.last_obs is None else map_arrays(lambda column: column[index], columns.last_obs),
        None if columns.log_prob is None else pick(columns.log_prob),
        {name: pick(extra) for name, extra in columns.extras.items()},
    )


def join(parts: Sequence[Part]) -> tuple[Columns, Spec, Provenance]:
    """Puts datasets one behind the other; successors are stored if any of them stores them."""
    if not parts:
        raise DatasetError("there is nothing to concatenate: give at least one dataset")
    check_alike(parts)
    columns = [part.columns for part in parts]
    stops = [find_episodes(c.terminated, c.truncated).stop for c in columns]
    stored = any(c.next_obs is not None for c in columns)
    known = any(c.log_prob is not None for c in columns)
    obs, action = concatenate_trees([c.obs for c in columns]), np.concatenate([c.action for c in columns])
    joined = Columns(
        obs,
        action,
        np.concatenate([c.reward for c in columns]),
        np.concatenate([c.terminated for c in columns]),
        np.concatenate([marked_ends(c, stop) for c, stop in zip(columns, stops, strict=True)]),
        concatenate_trees([part.successors(np.arange(len(part.columns.reward))) for part in parts]) if stored else None,
        None if stored else concatenate_trees([c.last_obs for c in columns if c.last_obs is not None]),
        np.concatenate([log_prob_of(c) for c in columns]) if known else None,
        {name: np.concatenate([c.extras[name] for c in columns]) for name in columns[0].extras},
    )
    alike = all(part.spec == parts[0].spec for part in parts)
    return joined, parts[0].spec if alike else infer_spec(obs, action), joint_provenance(parts)


def check_alike(parts: Sequence[Part]) -> None:
    """Refuses datasets of different spaces; guessed ones may differ in what data cannot tell, such as bounds."""
    first = parts[0]
    guessed = all(part.provenance.spec_inferred for part in parts)
    for number, part in enumerate(parts):
        shapes = [
            {name: leaf.shape[1:] for name, leaf in (leaves("obs", c.obs) | {"action": c.action}).items()}
            for c in (first.columns, part.columns)
        ]
        if (part.spec != first.spec and not guessed) or shapes[0] != shapes[1]:
            raise DatasetError(
                f"the spec of dataset {number} differs from that of dataset 0: give all the same with replace(spec=...)"
            )
        if set(part.columns.extras) != set(first.columns.extras):
            raise DatasetError(
                f"extras of dataset {number} are {sorted(part.columns.extras)}, those of dataset 0 "
                f"{sorted(first.columns.extras)}: leave out or add columns until they are the same"
            )


def concatenate_trees(trees: Sequence[Arrays]) -> Arrays:
    return map_arrays(lambda *columns: np.concatenate(columns), *trees)


def log_prob_of(columns: Columns) -> np.ndarray:
    return np.full(len(columns.reward), np.nan, np.float32) if columns.log_prob is None else columns.log_prob


def joint_provenance(parts: Sequence[Part]) -> Provenance:
    """What all say, and the sources and methods of each."""
    given = [part.provenance for part in parts]
    if all(provenance == given[0] for provenance in given):
        return given[0]

    def list_all(values: list[str | None]) -> str | None:
        return " + ".join(dict.fromkeys(value for value in values if value)) or None

    return replace(
        given[0],
        source=list_all([p.source for p in given]),
        env_id=list_all([p.env_id for p in given]),
        method=list_all([p.method for p in given]),
        versions={name: v for name, v in given[0].versions.items() if all(p.versions.get(name) == v for p in given)},
        seed=given[0].seed if all(p.seed == given[0].seed for p in given) else None,
        synthetic=any(p.synthetic for p in given) or given[0].synthetic,
        spec_inferred=any(p.spec_inferred for p in given),
        ignored=tuple(dict.fromkeys(name for p in given for name in p.ignored)),
    )
