"""Files written atomically, and text files read as UTF-8.

Does for single files what `rl_training.data.files.replacing` does, without importing PyTorch, so that commands which
only write a report stay fast.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


class FileReadError(ValueError):
    """Error about a file that is not text in UTF-8; the message names the file and the fix."""


class FileWriteError(ValueError):
    """Error about a file that could not be written; the message names the file and the fix."""


@contextmanager
def replacing(path: Path, *, private: bool = False) -> Iterator[Path]:
    """Yields a temporary path in the folder of `path`, and renames that file to `path` if the block succeeds.

    Makes missing folders; with `private`, only the owner can read the file. If the block fails, `path` stays as it
    was. Raises FileWriteError if the file cannot be written.
    """
    if path.exists() and not path.is_file():  # renaming over it would replace a device or a pipe
        raise FileWriteError(f"{path} could not be written: it is there and not a file; choose another name")
    temporary = path.with_name(f".{path.name}.tmp-{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if private:
            temporary.touch(0o600)
        yield temporary
        with temporary.open("r+b") as written:
            os.fsync(written.fileno())
        temporary.replace(path)
    except OSError as error:
        raise FileWriteError(
            f"{path} could not be written ({error.strerror or error}): free space or choose another folder"
        ) from error
    finally:
        with suppress(OSError):  # which would hide the sentence about what went wrong
            temporary.unlink()


def sha256_of(path: Path) -> str:
    """Returns the SHA-256 of a file's bytes as hexadecimal text."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise FileReadError(
            f"{path}: not text in UTF-8 ({error.reason} at byte {error.start}): is it the right file?"
        ) from error


def write_text(path: Path, text: str, *, private: bool = False) -> None:
    with replacing(path, private=private) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, values: object, *, private: bool = False) -> None:
    """Writes values to `path` as indented JSON, with keys in the given order.

    Raises ValueError for NaN: callers write an unknown number as None. Raises FileWriteError if the file cannot be
    written.
    """
    write_text(path, json.dumps(values, indent=2, allow_nan=False) + "\n", private=private)
