"""Recognition of file formats, and writing files completely or not at all."""

from __future__ import annotations

import ctypes
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from rl_training.data.columns import DatasetError
from rl_training.data.formats import folder, hdf5, jsonl, minari, npz, parquet
from rl_training.data.metadata import Table

AT_FDCWD, RENAME_EXCHANGE = -100, 2  # of Linux's renameat2
READERS: dict[str, ModuleType] = {".npz": npz, ".hdf5": hdf5, ".h5": hdf5, ".parquet": parquet, ".jsonl": jsonl}
WRITERS = READERS | {".minari": minari, "": folder}


def format_of(path: Path) -> str:
    """Returns the name of a dataset's format, such as "npz", "d3rlpy", "minari" or "folder" (our folder of columns)."""
    if path.is_dir():
        return "folder" if folder.is_ours(path) else "minari"
    name = path.suffix.removeprefix(".")
    return hdf5.layout_of(path) if READERS.get(path.suffix) is hdf5 else name


def read_table(path: Path) -> Table:
    """Reads the columns and metadata of a dataset file, or maps a folder of columns into memory.

    Raises a DatasetError if that is impossible.
    """
    if not path.exists():
        raise DatasetError("there is no such file: check the path")
    if path.is_dir():
        return folder.read(path) if folder.is_ours(path) else minari.read(path)
    if path.suffix not in READERS:
        raise DatasetError(f"the suffix {path.suffix!r} is not known: use {', '.join(READERS)}, or a folder")
    if path.stat().st_size == 0:
        raise DatasetError("the file is empty: get it again")
    return READERS[path.suffix].read(path)


def keeps_successors(path: Path) -> bool:
    """Returns True if the format of the suffix of `path` can store a `next_obs` for every row.

    Minari's format cannot, because it stores every observation once.
    """
    return path.suffix != ".minari"


def write_table(path: Path, table: Table) -> None:
    """Writes a dataset to `path` in the format of its suffix, in place of an older one; it is complete or not there.

    Raises a DatasetError if the suffix is unknown, the disk is full, or `path` is a folder with something else in it.
    """
    if path.suffix not in WRITERS:
        known = ", ".join(suffix for suffix in WRITERS if suffix)
        raise DatasetError(
            f"{path}: the suffix {path.suffix!r} is not known: use {known}, or none for a folder of columns"
        )
    if path.is_dir() and not (path / "metadata.json").exists() and not (path / "data" / "metadata.json").exists():
        raise DatasetError(f"{path} is a folder without a dataset: choose another name")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary:
            WRITERS[path.suffix].write(temporary, table)
    except OSError as error:
        raise DatasetError(
            f"{path} could not be written ({error.strerror or error}): free space or choose another folder"
        ) from error


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yields a temporary path, which is renamed to `path` if the block succeeds, and removed if it raises."""
    temporary, old = (path.with_name(f".{path.stem}.{word}-{os.getpid()}{path.suffix}") for word in ("tmp", "old"))
    try:
        remove(temporary)
        yield temporary
        for written in (temporary, *temporary.rglob("*")):
            sync(written)
        if not (path.is_dir() and swap(temporary, path)):
            if path.is_dir():
                path.replace(old)
            temporary.replace(path)
        sync(path.parent)
    finally:
        remove(temporary)
        if not path.exists() and old.exists():
            old.replace(path)
        remove(old)


def swap(a: Path, b: Path) -> bool:
    """Exchanges two paths in one system call, so that neither is ever missing; returns False if that fails."""
    exchange = getattr(ctypes.CDLL(None), "renameat2", None) if sys.platform == "linux" else None
    return exchange is not None and not exchange(AT_FDCWD, os.fsencode(a), AT_FDCWD, os.fsencode(b), RENAME_EXCHANGE)


def remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Waits until a file or folder has reached the disk (fsync)."""
    windows = sys.platform == "win32"  # where a folder has no such call, and a file needs to be open for writing
    if windows and path.is_dir():
        return
    handle = os.open(path, os.O_RDWR if windows else os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
