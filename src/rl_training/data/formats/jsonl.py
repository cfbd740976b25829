"""JSON lines: the metadata first, then one object per step. Numbers come back bit by bit; files are large."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from rl_training.data.columns import DatasetError, Flat, chunks, rename
from rl_training.data.formats.foreign import foreign_metadata, gather_last, is_successor, spread_last
from rl_training.data.metadata import Metadata, Table

Lists = dict[str, list]


def read(path: Path) -> Table:
    metadata, lists, present = None, {}, []
    for number, record in records(path):
        if "metadata" in record and not present and metadata is None:
            metadata = Metadata.from_json(record["metadata"])
            continue
        flat = flat_record(record)
        successors = [name for name in flat if is_successor(ours(name))]
        present.append(bool(successors))
        if not lists:
            lists = {name: [] for name in flat}
        for name in successors:
            lists.setdefault(name, [])
        append(lists, flat, number)
    if not present:
        raise DatasetError("there are no steps: write one JSON object per step and line")
    used, ignored = rename(list(lists))
    columns = {mine: to_array(name, lists[name]) for mine, name in used.items()}
    if metadata is not None:
        metadata.check_rows(len(present))
        columns |= {n: as_stored(c, metadata.dtypes.get(n)) for n, c in columns.items() if n.startswith("extras/")}
    metadata = metadata or foreign_metadata(path, ignored)
    return Table(gather_last(columns, np.array(present), metadata), metadata)


def records(path: Path) -> Iterator[tuple[int, dict]]:
    """Yields the line number and the JSON object of each line; raises a DatasetError if a line is no JSON object."""
    number = 0
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                record = json.loads(line)
                if not isinstance(record, dict):
                    raise DatasetError(f'line {number} is no JSON object: write one per step, e.g. {{"obs": ...}}')
                yield number, record
    except json.JSONDecodeError as error:
        raise DatasetError(
            f"line {number} is no JSON ({error.msg}): the file is cut or damaged; get it again"
        ) from error
    except UnicodeDecodeError as error:
        raise DatasetError(f"the file is no text ({error.reason}): write JSON lines in UTF-8") from error


def flat_record(record: dict) -> dict[str, object]:
    flat = {}
    for name, value in record.items():
        if isinstance(value, dict):
            flat |= {f"{name}/{key}": leaf for key, leaf in value.items()}
        elif value is not None or not is_successor(ours(name)):
            flat[name] = value
    return flat


def ours(name: str) -> str:
    return "next_obs" if name.partition("/")[0] == "next_observations" else name


def append(lists: Lists, flat: dict[str, object], number: int) -> None:
    """Appends one step's values to `lists`, one list per field.

    Raises a DatasetError, with the line `number`, if a field is missing or new; a `next_obs` may be either.
    """
    odd = next((name for name in lists.keys() ^ flat.keys() if not is_successor(ours(name))), None)
    if odd is not None:
        state = "missing" if odd in lists else "new"
        raise DatasetError(f"{odd} is {state} in line {number}: give every step the same fields as the first")
    for name, value in flat.items():
        lists[name].append(value)


def to_array(name: str, values: list) -> np.ndarray:
    try:
        return np.array(values)
    except ValueError as error:
        raise DatasetError(f"{name} has rows of different shapes: make them equally long") from error


def as_stored(column: np.ndarray, dtype: str | None) -> np.ndarray:
    """Returns a column as type `dtype`; returns it unchanged if `dtype` is None or the column does not hold numbers."""
    return column if dtype is None or column.dtype.kind not in "biuf" else column.astype(dtype)


def write(path: Path, table: Table) -> None:
    columns, present = spread_last(table.columns)
    with path.open("w", encoding="utf-8") as file:
        file.write(json.dumps({"metadata": table.metadata.to_json()}) + "\n")
        for part in chunks(len(columns["reward"])):
            for number, values in enumerate(zip(*(column[part].tolist() for column in columns.values()), strict=True)):
                whole = present is None or bool(present[part.start + number])
                file.write(json.dumps(nested(columns, values, whole)) + "\n")


def nested(columns: Flat, values: tuple, whole: bool) -> dict[str, object]:
    """Returns one step, one of `values` per column, as a JSON object; a column `name/key` is in an object `name`.

    `next_obs` is left out unless `whole` is True.
    """
    record: dict = {}
    for name, value in zip(columns, values, strict=True):
        head, slash, tail = name.partition("/")
        if is_successor(name) and not whole:
            continue
        if slash:
            record.setdefault(head, {})[tail] = value
        else:
            record[head] = value
    return record
