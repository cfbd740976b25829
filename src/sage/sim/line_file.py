"""Files of finished work: settings in the first line, then a line of JSON for each finished item."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

from rl_base.file_lock import lock
from sage.files import FileWriteError


class LineFileError(ValueError):
    """A file that belongs to other work, or is in use; the message says what differs, and the fix."""


class LineFile:
    """A file of finished items, in `lines`, to which work that goes on adds; a line that was not written whole is cut.
    Raises LineFileError if the file has other settings."""

    def __init__(self, path: Path, settings: Mapping) -> None:
        self.path = path
        self.guard = Lock()
        header = line_of(settings)
        wanted = json.loads(header)  # which has lists for tuples
        content = path.read_bytes() if path.exists() else b""
        whole = content[: content.rfind(b"\n") + 1]
        if not whole and not header.startswith(content):
            raise LineFileError(f"{path} is something else: choose another --out")
        try:
            written, *self.lines = [json.loads(line) for line in whole.splitlines()] or [wanted]
        except ValueError as error:
            raise LineFileError(f"{path} is something else ({error}): choose another --out") from error
        if written != wanted:
            raise LineFileError(
                f"{path} belongs to work with other settings ({difference(written, wanted)}): choose another --out, or "
                "remove it"
            )
        if not whole:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(header)
        elif whole != content:
            os.truncate(path, len(whole))

    def add(self, values: Mapping) -> None:
        """Appends a line and writes it to the disk; any thread may call it. Raises FileWriteError if the disk
        refuses."""
        with self.guard:
            self.lines.append(dict(values))
            try:
                with self.path.open("ab") as file:
                    file.write(line_of(values))
                    file.flush()
                    os.fsync(file.fileno())
            except OSError as error:
                raise FileWriteError(
                    f"{self.path} could not be written ({error.strerror}): free space, and start again to go on"
                ) from error


def line_of(values: Mapping) -> bytes:
    return json.dumps(values).encode() + b"\n"


def difference(written: object, wanted: Mapping) -> str:
    """Returns a text with the first setting that differs, as it is in the file and as it is now."""
    if not isinstance(written, dict):
        return "it has none"
    name = next(name for name in (*wanted, *written) if written.get(name) != wanted.get(name))
    return f"{name}: {written.get(name)!r} there, {wanted.get(name)!r} now"


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Locks a file while the block runs; raises LineFileError if another process has locked it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        try:
            lock(file.fileno(), wait=False)
        except BlockingIOError:
            raise LineFileError(
                f"{path} is being written by another run: wait for it, or choose another --out"
            ) from None
        yield
