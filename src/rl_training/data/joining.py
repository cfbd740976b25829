"""Datasets made from others: some episodes of one, all episodes of several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from rl_training.core import Spec
from rl_training.core.arguments import instance_of, shown
from rl_training.data.columns import Arrays, Columns, DatasetError, flatten, infer_spec, leaves, map_arrays, unflatten
from rl_training.data.episodes import Episodes, find_episodes
from rl_training.data.metadata import Provenance

if TYPE_CHECKING:
    from rl_training.data.dataset import Dataset


def own_last_observations(columns: Columns) -> Arrays:
    """Returns the `obs` in the last row of every episode, [episodes, ...], in place of unknown ones after it.

    Those are never used if all episodes terminated. Raises a DatasetError if one was cut, because it is needed there.
    """
    stop = find_episodes(columns.terminated, columns.truncated).stop
    cut = stop[~columns.terminated[stop - 1]]
    if len(cut):
        raise DatasetError(
            f"next_obs is missing, and the episode that was cut at row {cut[0] - 1} cannot be learned from without the "
            "observation after it: store next_obs (one row per step) or last_obs (one row per episode)"
        )
    return map_arrays(lambda column: column[stop - 1], columns.obs)


def marked_ends(columns: Columns, stop: np.ndarray) -> np.ndarray:
    """Returns a copy of `truncated` that is also True in the last row of episodes that stop without a flag.

    `stop` [episodes] holds the row after the last one of each.
    """
    truncated = columns.truncated.copy()
    truncated[stop - 1] |= ~columns.terminated[stop - 1]
    return truncated


def pick_episodes(columns: Columns, episodes: Episodes, index: np.ndarray) -> Columns:
    """Returns a copy of the columns with the episodes that have the numbers `index`, in this order.

    An episode that stops without a flag becomes truncated.
    """
    rows, marked = episodes.rows_of(index), columns._replace(truncated=marked_ends(columns, episodes.stop))
    return unflatten({name: x[index if name.startswith("last_obs") else rows] for name, x in flatten(marked).items()})


def join(datasets: Sequence[Dataset]) -> tuple[Columns, Spec, Provenance]:
    """Returns the columns, spec and provenance of several datasets one behind the other.

    The columns have `next_obs` if any dataset stores it. Raises a DatasetError if spaces or extra columns differ.
    """
    from rl_training.data.dataset import Dataset  # which is made of what is here

    if isinstance(datasets, Dataset) or not isinstance(datasets, Sequence):
        raise DatasetError(f"datasets={shown(datasets)} must be a list of datasets, e.g. [a, b]")
    for number, dataset in enumerate(datasets):
        instance_of(dataset, Dataset, f"datasets[{number}]", "open it, Dataset.open(path)")
    if not datasets:
        raise DatasetError("there is nothing to concatenate: give at least one dataset")
    check_alike(datasets)
    stored = any(dataset.next_obs is not None for dataset in datasets)
    known = any(dataset.log_prob is not None for dataset in datasets)
    parts = [flatten(alike(dataset, stored=stored, known=known)) for dataset in datasets]
    joined = unflatten({name: np.concatenate([part[name] for part in parts]) for name in parts[0]})
    same = all(dataset.spec == datasets[0].spec for dataset in datasets)
    return joined, datasets[0].spec if same else infer_spec(joined.obs, joined.action), joint_provenance(datasets)


def alike(dataset: Dataset, *, stored: bool, known: bool) -> Columns:
    """Returns a dataset's columns in a common form: with `next_obs` if `stored`, with `log_prob` (or NaN) if `known`.

    Episodes that stop without a flag become truncated.
    """
    columns = dataset.columns._replace(truncated=marked_ends(dataset.columns, dataset.episodes().stop))
    if stored:
        columns = columns._replace(next_obs=dataset.successors(np.arange(len(dataset))), last_obs=None)
    if known and columns.log_prob is None:
        columns = columns._replace(log_prob=np.full(len(dataset), np.nan, np.float32))
    return columns


def check_alike(datasets: Sequence[Dataset]) -> None:
    """Raises a DatasetError unless datasets have the same spaces and extra columns.

    Guessed spaces may differ in what data cannot show, such as bounds.
    """
    first = datasets[0]
    guessed = all(dataset.provenance.spec_inferred for dataset in datasets)
    for number, dataset in enumerate(datasets):
        shapes = [
            {name: leaf.shape[1:] for name, leaf in (leaves("obs", d.obs) | {"action": d.action}).items()}
            for d in (first, dataset)
        ]
        if (dataset.spec != first.spec and not guessed) or shapes[0] != shapes[1]:
            raise DatasetError(
                f"the spec of dataset {number} differs from that of dataset 0: give all the same with replace(spec=...)"
            )
        if set(dataset.extras) != set(first.extras):
            raise DatasetError(
                f"extras of dataset {number} are {sorted(dataset.extras)}, those of dataset 0 "
                f"{sorted(first.extras)}: leave out or add columns until they are the same"
            )


def joint_provenance(datasets: Sequence[Dataset]) -> Provenance:
    """Returns one provenance for several datasets: different sources, ids and methods are joined with " + ".

    Versions and a seed stay if all agree; data are synthetic, or their spaces guessed, if those of any dataset are.
    """
    given = [dataset.provenance for dataset in datasets]
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
