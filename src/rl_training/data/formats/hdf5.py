"""HDF5 in D4RL's layout: observations, actions, rewards, terminals, timeouts; ours adds what D4RL has no place for."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from rl_training.data.columns import ALIASES, DatasetError, Flat, leaves, map_arrays, rename, tree_at
from rl_training.data.episodes import find_episodes
from rl_training.data.formats.foreign import ends_of, foreign_metadata, library, reading
from rl_training.data.metadata import Metadata, Table

NAMES = {ours: theirs for theirs, ours in reversed(ALIASES.items())}  # the first of ours is D4RL's
LOG_PROB = "infos/action_log_probs"


def read(path: Path) -> Table:
    h5py = library("h5py")
    with reading("the HDF5 file"), h5py.File(path, "r") as file:
        names: list[str] = []
        file.visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
        used, ignored = rename([name for name in names if name != "metadata"])
        if "terminated" in used and "truncated" not in used:
            raise DatasetError(
                "timeouts is missing, so that cut episodes cannot be told from terminated ones: add it, "
                "all false if no episode was cut"
            )
        columns = {ours: np.asarray(file[name][()]) for ours, name in used.items()}
        ours = "metadata" in names and h5py.check_string_dtype(file["metadata"].dtype) is not None
        text = file["metadata"].asstr()[()] if ours else None
    if text is not None:
        return Table(columns, Metadata.from_text(text))
    if not any(name.startswith(("next_obs", "last_obs")) for name in columns) and tree_at(columns, "obs") is not None:
        columns = without_unknown_successors(columns)
    return Table(columns, foreign_metadata(path, ignored))


def without_unknown_successors(columns: Flat) -> Flat:
    """Drops the last step of cut episodes, whose successor is not in the file, as D4RL's own reader does.

    Its observation becomes the last one of the episode, which is now cut one step earlier.
    """
    obs, ended = tree_at(columns, "obs"), ends_of(columns)
    assert obs is not None
    lengths = {name: len(column) for name, column in columns.items() if column.ndim and len(column) != len(ended)}
    if lengths:
        name, length = next(iter(lengths.items()))
        raise DatasetError(f"{name} has {length} rows and terminals {len(ended)}: every column needs one row per step")
    cut = ended & ~columns["terminated"].astype(bool)
    episodes = find_episodes(columns["terminated"], columns["truncated"])
    last = episodes.stop - 1
    remaining = last[~cut[last] | (episodes.length > 1)]
    truncated = columns["truncated"].astype(bool)
    truncated[last[cut[last] & (episodes.length > 1)] - 1] = True
    kept = {name: column[~cut] for name, column in (columns | {"truncated": truncated}).items()}
    return kept | leaves("last_obs", map_arrays(lambda column: column[remaining], obs))


def write(path: Path, table: Table) -> None:
    h5py = library("h5py")
    with h5py.File(path, "w") as file:
        for name, column in table.columns.items():
            head, slash, tail = name.partition("/")
            file.create_dataset(LOG_PROB if name == "log_prob" else NAMES.get(head, head) + slash + tail, data=column)
        file.create_dataset("metadata", data=json.dumps(table.metadata.to_json()))
