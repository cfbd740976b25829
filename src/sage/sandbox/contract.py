"""The contract of a sandbox: a function from files and a command to a result, with the files that the command changed.

Every run begins in an empty work folder that is filled with the given files, and leaves no process, mount or file.
State between runs belongs to the caller (`Session`), so that it is the same for all backends.
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
    """Error about a sandbox that cannot do what is asked of it; the message says what, and the fix."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The limits of a run; there is never a network."""

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
    """The command of a run, started in the work folder; `python` is the image's Python."""

    argv: tuple[str, ...]
    stdin: bytes = b""
    env: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        words = (*self.argv, *self.env, *self.env.values())
        if not self.argv or not all(isinstance(word, str) and "\0" not in word for word in words):
            raise SandboxError(f"the command {self.argv!r} must be words without NUL, at least one")


@dataclass(frozen=True, kw_only=True)
class Result:
    """The end of a run: its exit code or the limit that ended it, its output, and the files that it changed."""

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
    """Protocol of a sandbox that runs one command at a time; use one per thread."""

    name: str

    def run(self, files: Files, command: Command, limits: Limits) -> Result: ...

    def interrupt(self) -> None:
        """Ends the current run as 'broken'; another thread calls this."""

    def close(self) -> None: ...


def checked_path(path: str) -> str:
    """Returns the path if it is relative and stays below the work folder; raises SandboxError if not."""
    parts = PurePosixPath(path).parts
    if not parts or path != "/".join(parts) or ".." in parts or path.startswith("/") or "\0" in path:
        raise SandboxError(f"the path {path!r} must be relative and plain, such as 'package/module.py'")
    return path


def checked_files(files: Files, limits: Limits) -> None:
    """Raises SandboxError if there are too many files or bytes, or a path that is not possible."""
    if len(files) > MOST_FILES:
        raise SandboxError(f"{len(files):,} files are more than the {MOST_FILES:,} that a sandbox takes")
    size = sum(len(content) for content in files.values())
    if size > limits.disk_mb * 2**20:
        raise SandboxError(f"the files have {size:,} bytes, and disk_mb={limits.disk_mb} allows less: raise it")
    for path in files:
        check_can_be_made(checked_path(path), files)


def check_can_be_made(path: str, files: Files) -> None:
    """Raises SandboxError if a file cannot have this path: too long, not text, or below another of the files."""
    size = max(len(part.encode(errors="replace")) for part in path.split("/"))
    if path.encode(errors="replace").decode() != path or size > LONGEST_NAME or len(path) > LONGEST_PATH:
        raise SandboxError(f"the path {path[:200]!r} cannot be that of a file: it is too long or is no text")
    folder = path
    while folder := folder.rpartition("/")[0]:
        if folder in files:
            raise SandboxError(f"the path {path!r} is below {folder!r}, which is a file: choose another")
