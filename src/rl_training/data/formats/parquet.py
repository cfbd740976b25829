"""Parquet: one row per step; a row of numbers is a list of fixed size, its shape stands in the field's metadata.

Tables of others may spread a row over columns, `obs_0`, `obs_1` and so on.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rl_training.data.columns import DatasetError, numbered, rename
from rl_training.data.formats.foreign import gather_last, is_successor, library, reading, spread_last
from rl_training.data.metadata import Metadata, Provenance, Table

if TYPE_CHECKING:
    import pyarrow as pa

KEY = b"rl_training"
FOREIGN_KEY = b"dataset"  # a JSON object with env_id, note and versions
SHAPE = b"shape"
PACKAGES = ("mujoco", "gymnasium", "torch", "numpy")


def read(path: Path) -> Table:
    arrow, parquet = library("pyarrow"), library("pyarrow.parquet")
    with reading("the Parquet file", arrow.ArrowException):
        table = parquet.ParquetFile(path).read()
        together = numbered(table.column_names)
        parts = {part for names in together.values() for part in names}
        used, ignored = rename([name for name in table.column_names if name not in parts] + list(together))
    columns, present = {}, np.ones(table.num_rows, bool)
    for ours, name in used.items():
        if name in together:
            single = [to_array(part, table.column(part).combine_chunks()) for part in together[name]]
            columns[ours] = np.stack(single, 1) if len(single) > 1 or not ours.startswith("action") else single[0]
            continue
        column = table.column(name).combine_chunks()
        if is_successor(ours):
            present = column.is_valid().to_numpy(zero_copy_only=False)
            column = column.drop_null()
        columns[ours] = shaped(to_array(name, column), table.schema.field(name))
    metadata = metadata_of(path, table.schema.metadata or {}, ignored)
    return Table(gather_last(columns, present, metadata), metadata)


def to_array(name: str, column: pa.Array) -> np.ndarray:
    """Returns a column as an array, lists as further dimensions; raises a DatasetError for nulls and uneven lists."""
    types = library("pyarrow").types
    if column.null_count:
        row = int(np.flatnonzero(~column.is_valid().to_numpy(zero_copy_only=False))[0])
        raise DatasetError(f"{name} is null in row {row}: fill it in, or leave the episode out")
    if not (types.is_list(column.type) or types.is_large_list(column.type) or types.is_fixed_size_list(column.type)):
        return column.to_numpy(zero_copy_only=False)
    lengths = column.value_lengths().to_numpy(zero_copy_only=False)
    if len(lengths) and lengths.min() != lengths.max():
        row = int(np.flatnonzero(lengths != lengths[0])[0])
        raise DatasetError(
            f"{name} has {lengths[row]} numbers in row {row} and {lengths[0]} in row 0: make rows equally long"
        )
    inner = to_array(name, column.flatten())
    return inner.reshape(len(column), int(lengths[0]) if len(lengths) else 0, *inner.shape[1:])


def shaped(column: np.ndarray, field: pa.Field) -> np.ndarray:
    shape = (field.metadata or {}).get(SHAPE)
    return column if shape is None else column.reshape(len(column), *json.loads(shape))


def metadata_of(path: Path, stored: dict[bytes, bytes], ignored: tuple[str, ...]) -> Metadata:
    if KEY in stored:
        return Metadata.from_text(stored[KEY])
    said = json_object(stored.get(FOREIGN_KEY, b"{}"))
    versions = {name: str(said[name]) for name in PACKAGES if name in said}
    provenance = Provenance(
        source=path.name, env_id=said.get("env_id"), method=said.get("note"), versions=versions, ignored=ignored
    )
    return Metadata(provenance=provenance)


def json_object(text: bytes) -> dict:
    """Returns the JSON object in `text`; {} for anything else, since other writers may use the key differently."""
    try:
        record = json.loads(text)
    except ValueError:
        return {}
    return record if isinstance(record, dict) else {}


def write(path: Path, table: Table) -> None:
    arrow, parquet = library("pyarrow"), library("pyarrow.parquet")
    columns, present = spread_last(table.columns)
    arrays, fields = [], []
    for name, column in columns.items():
        absent = None if present is None or not is_successor(name) else ~present
        array = to_arrow(column, absent)
        shape = {SHAPE: json.dumps(column.shape[1:]).encode()} if column.ndim > 2 else None
        arrays.append(array)
        fields.append(arrow.field(name, array.type, metadata=shape))
    schema = arrow.schema(fields, metadata={KEY: json.dumps(table.metadata.to_json()).encode()})
    parquet.write_table(arrow.Table.from_arrays(arrays, schema=schema), path, compression="zstd")


def to_arrow(column: np.ndarray, absent: np.ndarray | None) -> pa.Array:
    arrow = library("pyarrow")
    if column.ndim == 1:
        return arrow.array(column, mask=absent)
    size = int(np.prod(column.shape[1:]))
    if absent is None:
        return arrow.FixedSizeListArray.from_arrays(arrow.array(np.ascontiguousarray(column).reshape(-1)), size)
    # Arrow cannot read lists of fixed size back if some are null.
    offsets = np.concatenate([[0], np.cumsum(~absent)]) * size
    values = arrow.array(np.ascontiguousarray(column[~absent]).reshape(-1))
    return arrow.LargeListArray.from_arrays(offsets, values, mask=arrow.array(absent))
