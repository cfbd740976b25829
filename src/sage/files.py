"""Files that are complete or not there.

The twin of `rl_training.data.files.replacing` for single files, apart from it so that commands which only write a
report do not load PyTorch.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class FileWriteError(ValueError):
    """A file that could not be written: the sentence names it and the fix."""


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Gives a temporary name in the same folder, which becomes `path` if nothing goes wrong."""
    temporary = path.with_name(f".{path.name}.tmp-{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        temporary.replace(path)
    except OSError as error:
        raise FileWriteError(
            f"{path} could not be written ({error.strerror or error}): free space or choose another folder"
        ) from error
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, values: object) -> None:
    """Indented, keys as given, and no NaN: a number that is not known is written as null by the caller."""
    write_text(path, json.dumps(values, indent=2, allow_nan=False) + "\n")
