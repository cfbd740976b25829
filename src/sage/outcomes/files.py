"""Columns and a JSON description in one file: Parquet (with the extra 'sage') or npz."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sage.files import replacing

if TYPE_CHECKING:
    import pyarrow as pa

METADATA_KEY = "sage_outcome_table"
SUFFIXES = (".parquet", ".npz")


class OutcomeFileError(ValueError):
    """Error about a file that cannot be read or written; the message names the file and the fix."""


def write_columns(path: Path, columns: dict[str, np.ndarray], metadata: dict) -> None:
    """Writes columns and metadata to one .parquet or .npz file, which is complete or not there.

    Raises OutcomeFileError for other suffixes, or without pyarrow for .parquet.
    """
    check_suffix(path)
    description = json.dumps(metadata, sort_keys=True)
    if path.suffix == ".npz":
        texts = {name: values for name, values in columns.items() if values.dtype.kind in "UO"}
        arrays = {name: values for name, values in columns.items() if name not in texts}
        # As JSON, because an array of texts takes the room of its longest one for each.
        packed = json.dumps({METADATA_KEY: description} | {name: list(map(str, v)) for name, v in texts.items()})
        with replacing(path) as temporary, temporary.open("wb") as file:
            np.savez_compressed(file, texts=np.frombuffer(packed.encode(), np.uint8), **arrays)  # pyrefly: ignore[bad-argument-type]
        return
    pa, pq = load_pyarrow()
    with replacing(path) as temporary:
        table = pa.table({name: pa.array(values.tolist()) for name, values in columns.items()})
        pq.write_table(table.replace_schema_metadata({METADATA_KEY: description}), temporary, compression="zstd")


def read_columns(path: Path) -> tuple[dict[str, np.ndarray], dict]:
    """Reads the columns and the metadata that `write_columns` wrote.

    Raises OutcomeFileError if the file is missing, damaged or not an outcome table.
    """
    check_suffix(path)
    if not path.is_file():
        raise OutcomeFileError(f"{path}: there is no such file: make it with `sage log import`")
    columns, description = (read_npz if path.suffix == ".npz" else read_parquet)(path)
    return columns, json.loads(description)


def read_npz(path: Path) -> tuple[dict[str, np.ndarray], str]:
    try:
        if not zipfile.is_zipfile(path):  # numpy would take it for a pickle
            raise ValueError("not a whole .npz file")
        with np.load(path, allow_pickle=False) as file:
            columns = {name: file[name] for name in file.files}
            packed = json.loads(columns.pop("texts").tobytes())
            description = packed.pop(METADATA_KEY)
    except (zipfile.BadZipFile, ValueError, KeyError, EOFError) as error:
        raise OutcomeFileError(f"{path}: not an outcome table ({error}): import it with `sage log import`") from error
    return columns | {name: text_array(name, values) for name, values in packed.items()}, description


def read_parquet(path: Path) -> tuple[dict[str, np.ndarray], str]:
    table = open_parquet(path)
    description = (table.schema.metadata or {}).get(METADATA_KEY.encode())
    if description is None:
        raise OutcomeFileError(
            f"{path}: a Parquet file, but not an outcome table: import it with `sage log import KIND {path}`"
        )
    columns = {}
    for name in table.column_names:
        values = table[name].to_pylist()
        columns[name] = text_array(name, values) if isinstance(values[0], str) else np.array(values, np.float64)
    return columns, description.decode()


def open_parquet(path: Path) -> pa.Table:
    """Reads any Parquet file; raises OutcomeFileError if it is missing or damaged, or if pyarrow is not installed."""
    pa, pq = load_pyarrow()
    if not path.is_file():
        raise OutcomeFileError(f"{path}: there is no such file: check the path")
    try:
        return pq.read_table(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise OutcomeFileError(f"{path}: not a whole Parquet file ({error}): get it again") from error


def load_pyarrow():
    """Returns the modules pyarrow and pyarrow.parquet; raises OutcomeFileError if this extra is not installed."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise OutcomeFileError("Parquet files need pyarrow: pip install pyarrow, or use the suffix .npz") from error
    return pa, pq


def text_array(name: str, values: list[str]) -> np.ndarray:
    return np.array(values, dtype=object) if name == "prompt" else np.array(values)


def check_suffix(path: Path) -> None:
    if path.suffix not in SUFFIXES:
        raise OutcomeFileError(f"{path}: the suffix {path.suffix!r} is not known: use {' or '.join(SUFFIXES)}")
