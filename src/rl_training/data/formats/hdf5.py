"""HDF5 in D4RL's layout: observations, actions, rewards, terminals, timeouts; ours adds what D4RL has no place for.

Files of d3rlpy have the same suffix, and are told by their arrays.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from rl_training.data.columns import ALIASES, DatasetError, rename, tree_at
from rl_training.data.formats import d3rlpy
from rl_training.data.formats.foreign import foreign_metadata, library, reading, without_unknown_successors
from rl_training.data.formats.hdf5_file import new_hdf5
from rl_training.data.metadata import Metadata, Table

NAMES = {ours: theirs for theirs, ours in reversed(ALIASES.items())}  # the first of ours is D4RL's
LOG_PROB = "infos/action_log_probs"


def layout_of(path: Path) -> str:
    """Returns the layout of an HDF5 file, "d3rlpy" or "hdf5" (D4RL's); raises a DatasetError if it cannot be read."""
    with reading("the HDF5 file"), library("h5py").File(path, "r") as file:
        names = list(file)
    return "d3rlpy" if d3rlpy.is_buffer(names) or d3rlpy.is_version_one(names) else "hdf5"


def read(path: Path) -> Table:
    h5py = library("h5py")
    with reading("the HDF5 file"), h5py.File(path, "r") as file:
        names: list[str] = []
        file.visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
        if d3rlpy.is_buffer(names):
            return Table(d3rlpy.read_buffer(file), foreign_metadata(path, d3rlpy.ignored(names)))
        used, ignored = rename([name for name in names if name != "metadata"])
        version_one = d3rlpy.is_version_one(names)
        if "terminated" in used and "truncated" not in used and not version_one:
            raise DatasetError(
                "timeouts is missing, so that cut episodes cannot be told from terminated ones: add it, "
                "all false if no episode was cut"
            )
        columns = {ours: np.asarray(file[name][()]) for ours, name in used.items()}
        if version_one:
            columns = d3rlpy.from_version_one(columns, np.asarray(file["episode_terminals"][()]))
        ours = "metadata" in names and h5py.check_string_dtype(file["metadata"].dtype) is not None
        text = file["metadata"].asstr()[()] if ours else None
    if text is not None:
        return Table(columns, Metadata.from_text(text))
    if not any(name.startswith(("next_obs", "last_obs")) for name in columns) and tree_at(columns, "obs") is not None:
        columns = without_unknown_successors(columns)
    return Table(columns, foreign_metadata(path, ignored))


def write(path: Path, table: Table) -> None:
    with new_hdf5(path) as file:
        for name, column in table.columns.items():
            head, slash, tail = name.partition("/")
            file.create_dataset(LOG_PROB if name == "log_prob" else NAMES.get(head, head) + slash + tail, data=column)
        file.create_dataset("metadata", data=json.dumps(table.metadata.to_json()))
