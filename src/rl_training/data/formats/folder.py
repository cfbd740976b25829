"""Our own format: a folder with one .npy file per column, mapped into memory, and metadata.json."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from rl_training.data.columns import DatasetError
from rl_training.data.formats.foreign import reading
from rl_training.data.metadata import FORMAT, Metadata, Table


def is_ours(path: Path) -> bool:
    """Returns True if the metadata in the folder are ours; without readable metadata, if it has .npy files."""
    file = path / "metadata.json"
    if not file.exists():
        return any(path.glob("*.npy"))
    try:
        record = json.loads(file.read_text(encoding="utf-8"))
    except ValueError:
        return any(path.glob("*.npy"))
    return isinstance(record, dict) and record.get("format") == FORMAT


def read(path: Path) -> Table:
    """Maps the columns of a folder into memory, as a `Table`; only their headers are read now.

    Raises a DatasetError if a file is missing or damaged.
    """
    file = path / "metadata.json"
    if not file.exists():
        raise DatasetError("metadata.json is missing: a folder of columns cannot be used without it; copy it again")
    metadata = Metadata.from_text(file.read_bytes())
    columns = {name: open_column(path / file_name(name), dtype) for name, dtype in metadata.dtypes.items()}
    return Table(columns, metadata, mapped=True)


def open_column(file: Path, dtype: str) -> np.ndarray:
    if not file.exists():
        raise DatasetError(f"{file.name} is missing: copy the folder again")
    with reading(file.name):
        column = np.load(file, mmap_mode="r")
    if not isinstance(column, np.ndarray) or column.dtype.name != dtype:
        held = column.dtype if isinstance(column, np.ndarray) else "an archive"
        raise DatasetError(f"{file.name} holds {held} instead of {dtype}: copy the folder again")
    return column


def file_name(column: str) -> str:
    return column.replace("/", ".") + ".npy"  # names of columns have no dots


def write(path: Path, table: Table) -> None:
    path.mkdir()
    for name, column in table.columns.items():
        np.save(path / file_name(name), column)
    (path / "metadata.json").write_text(json.dumps(table.metadata.to_json(), indent=1), encoding="utf-8")
