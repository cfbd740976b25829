"""What a sandbox is: a function from files and a command to a result and the files it changed.

Every run begins in an empty work folder that is filled with the given files, and ends with nothing left: no process, no
mount, no file. State between runs is the caller's (`Session`), so that all backends mean the same by it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import PurePosixPath
from typing import Literal, Protocol

from sage.sandbox.inside.request import MOST_FILES

LONGEST_NAME = 255  # bytes
LONGEST_PATH = 1_000  # characters
Files = Mapping[str, bytes]  # by relative path, with / between folders
EndedBy = Literal["exit", "signal", "wall_s", "cpu_s", "memory", "files", "broken"]


class SandboxError(ValueError):
    """A sandbox that cannot do what is asked of it: the sentence says what, and the fix."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a run may use. There is never a network."""

    memory_mb: int = 512  # of all processes together
    processes: int = 64
    cpu_s: int = 10  # of every process
    wall_s: float = 10.0
    file_mb: int = 32  # the largest file
    disk_mb: int = 64  # all files together
    open_files: int = 256
    output_bytes: int = 200_000  # kept of each stream: its beginning and its end

    def __post_init__(self) -> None:
        for limit in fields(self):
            value = getattr(self, limit.name)
            if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < 1e9:
                raise SandboxError(f"the limit {limit.name}={value!r} must be a positive number")


@dataclass(frozen=True, kw_only=True)
class Command:
    """What is run, in the work folder. `python` is the image's Python."""

    argv: tuple[str, ...]
    stdin: bytes = b""
    env: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        words = (*self.argv, *self.env, *self.env.values())
        if not self.argv or not all(isinstance(word, str) and "\0" not in word for word in words):
            raise SandboxError(f"the command {self.argv!r} must be words without NUL, at least one")


@dataclass(frozen=True, kw_only=True)
class Result:
    """How a run ended and what it left."""

    code: int | None  # None: it was killed
    ended_by: EndedBy
    out: bytes = b""
    err: bytes = b""
    truncated: bool = False  # a stream was longer than what was kept of it
    wall_s: float = 0.0
    cpu_s: float = 0.0
    peak_mb: float = 0.0  # of the largest process
    changed: Mapping[str, bytes | None] = field(default_factory=dict)  # None: deleted
    skipped: tuple[str, ...] = ()  # left behind: links, devices, and what was over a limit

    @property
    def succeeded(self) -> bool:
        return self.ended_by == "exit" and self.code == 0


class Backend(Protocol):
    """Runs commands one at a time; use one per thread."""

    name: str

    def run(self, files: Files, command: Command, limits: Limits) -> Result: ...

    def interrupt(self) -> None:
        """For another thread: a run that is under way ends as broken."""

    def close(self) -> None: ...


def checked_path(path: str) -> str:
    """The path itself, if it stays below the work folder."""
    parts = PurePosixPath(path).parts
    if not parts or path != "/".join(parts) or ".." in parts or path.startswith("/") or "\0" in path:
        raise SandboxError(f"the path {path!r} must be relative and plain, such as 'package/module.py'")
    return path


def checked_files(files: Files, limits: Limits) -> None:
    """Raises before anything is started."""
    if len(files) > MOST_FILES:
        raise SandboxError(f"{len(files):,} files are more than the {MOST_FILES:,} that a sandbox takes")
    size = sum(len(content) for content in files.values())
    if size > limits.disk_mb * 2**20:
        raise SandboxError(f"the files have {size:,} bytes, and disk_mb={limits.disk_mb} allows less: raise it")
    for path in files:
        check_can_be_made(checked_path(path), files)


def check_can_be_made(path: str, files: Files) -> None:
    """A sandbox that cannot make a file would look as if it had failed by itself."""
    size = max(len(part.encode(errors="replace")) for part in path.split("/"))
    if path.encode(errors="replace").decode() != path or size > LONGEST_NAME or len(path) > LONGEST_PATH:
        raise SandboxError(f"the path {path[:200]!r} cannot be that of a file: it is too long or is no text")
    folder = path
    while folder := folder.rpartition("/")[0]:
        if folder in files:
            raise SandboxError(f"the path {path!r} is below {folder!r}, which is a file: choose another")
