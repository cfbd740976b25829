"""NumPy's archive: one array per column, and the metadata as a string. Pickled arrays are refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from rl_training.data.columns import DatasetError, rename
from rl_training.data.formats.foreign import foreign_metadata, reading
from rl_training.data.metadata import Metadata, Table


def read(path: Path) -> Table:
    with open_archive(path) as archive:
        names = [name for name in archive.files if name != "metadata"]
        used, ignored = rename(names)
        columns = {ours: read_array(archive, name) for ours, name in used.items()}
        if "metadata" not in archive.files:
            return Table(columns, foreign_metadata(path, ignored))
        return Table(columns, Metadata.from_text(str(read_array(archive, "metadata"))))


def open_archive(path: Path) -> np.lib.npyio.NpzFile:
    with reading("the archive"):
        try:
            archive = np.load(path)
        except ValueError as error:
            if "allow_pickle" not in str(error):  # numpy takes whatever it does not know for pickled
                raise
            raise DatasetError(
                "the file is damaged or no archive of numpy's (nothing is unpickled here): get it again, or write it with "
                "numpy.savez, one array per column"
            ) from error
    if not isinstance(archive, np.lib.npyio.NpzFile):
        raise DatasetError("the file holds one array and no archive: write it with numpy.savez, one array per column")
    return archive


def read_array(archive: np.lib.npyio.NpzFile, name: str) -> np.ndarray:
    with reading(name):
        try:
            return archive[name]
        except ValueError as error:
            if "allow_pickle" not in str(error):
                raise
            raise DatasetError(
                f"{name} is pickled, and nothing is unpickled here: save plain arrays of numbers, without Python objects"
            ) from error


def write(path: Path, table: Table) -> None:
    metadata = np.array(json.dumps(table.metadata.to_json()))
    np.savez(path, **table.columns, metadata=metadata)  # pyrefly: ignore (names are no options of savez)
