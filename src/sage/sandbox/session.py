"""Files that persist from command to command, with snapshots, over any backend."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from difflib import unified_diff
from io import StringIO
from types import TracebackType

from sage.sandbox.contract import (
    Backend,
    Command,
    Files,
    Limits,
    Result,
    SandboxError,
    checked_files,
    checked_path,
)


class Session:
    """A tree of files and the commands run on it.

    Example:
        >>> with Session(backend, {"a.py": b"print(6 * 7)"}) as session:
        ...     session.exec("python", "a.py").out
        b'42\\n'
    """

    def __init__(self, backend: Backend, files: Files, limits: Limits | None = None) -> None:
        self.backend = backend
        self.limits = limits or Limits()
        checked_files(files, self.limits)
        self.files: dict[str, bytes] = dict(files)
        self.begun_with = dict(files)
        self.snapshots: list[dict[str, bytes]] = []
        self.closed = False

    def exec(
        self, *argv: str, stdin: bytes = b"", env: Mapping[str, str] | None = None, wall_s: float | None = None
    ) -> Result:
        """Runs a command on the session's files, keeps the files that it changed, and returns its result.

        `wall_s` replaces the session's time limit. Raises SandboxError if the session is closed.
        """
        if self.closed:
            raise SandboxError("the session is closed: open another")
        limits = self.limits if wall_s is None else replace(self.limits, wall_s=wall_s)
        result = self.backend.run(self.files, Command(argv=argv, stdin=stdin, env=env or {}), limits)
        for path, content in result.changed.items():
            if content is None:
                self.files.pop(path, None)
            else:
                self.files[path] = content
        return result

    def read(self, path: str) -> bytes:
        if path not in self.files:
            raise SandboxError(f"there is no file {path!r}: the session has {', '.join(sorted(self.files)[:10])}")
        return self.files[path]

    def write(self, path: str, content: bytes) -> None:
        files = self.files | {checked_path(path): content}
        checked_files(files, self.limits)
        self.files = files

    def diff(self) -> str:
        """Returns the changes since the session began as a unified diff; files that are not text are only named."""
        lines = []
        for path in sorted(self.files | self.begun_with):
            before, after = self.begun_with.get(path), self.files.get(path)
            if before != after:
                lines += diff_lines(path, before, after)
        return "".join(lines)

    def snapshot(self) -> int:
        """Keeps a copy of the files as they are, and returns its number for `restore`."""
        self.snapshots.append(dict(self.files))
        return len(self.snapshots) - 1

    def restore(self, snapshot: int) -> None:
        if not 0 <= snapshot < len(self.snapshots):
            raise SandboxError(f"there is no snapshot {snapshot}: the session has {len(self.snapshots)}")
        self.files = dict(self.snapshots[snapshot])

    def close(self) -> None:
        """Forbids further commands; the backend stays open, and nothing else of a session outlives its runs."""
        self.closed = True

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def diff_lines(path: str, before: bytes | None, after: bytes | None) -> list[str]:
    try:
        old, new = (list(StringIO((content or b"").decode(), newline="\n")) for content in (before, after))
    except UnicodeDecodeError:
        return [f"Binary file {path} changed\n"]
    names = ("/dev/null" if before is None else f"a/{path}", "/dev/null" if after is None else f"b/{path}")
    whole = [
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
        for line in unified_diff(old, new, *names)
    ]
    return whole or [f"{names[0]} -> {names[1]}\n"]  # an empty file that came or went
