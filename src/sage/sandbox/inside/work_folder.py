"""The files of a run: filling the work folder, finding what changed, and leaving nothing behind."""

from __future__ import annotations

import contextlib
import itertools
import os
import stat
from collections.abc import Iterator

from .request import MOST_FILES, WORK


def fill(files: dict[str, bytes]) -> dict[str, tuple[int, ...]]:
    """Writes the files into the work folder and goes there; returns for each a mark that changes when the file does."""
    os.umask(0o022)
    os.chdir(WORK)
    folders = {""}
    for path, content in files.items():
        folder = path.rpartition("/")[0]
        if folder not in folders:
            os.makedirs(folder, exist_ok=True)
            folders.add(folder)
        with open(path, "wb", buffering=0) as file:
            file.write(content)
    return {path: mark(os.lstat(path)) for path in files}


def mark(found: os.stat_result) -> tuple[int, ...]:
    return (
        found.st_ino,
        found.st_size,
        found.st_mtime_ns,
        found.st_ctime_ns,
    )  # nobody can set the time of the last change


def is_file(path: str) -> bool:
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


def changes(written: dict[str, tuple[int, ...]], limits: dict[str, float]) -> tuple[dict[str, bytes], list[str]]:
    """Returns the files that are new or differ from their marks in `written`, and the paths that were left out.

    Links, devices, odd names and files beyond `disk_mb` in all are left out.
    """
    changed: dict[str, bytes] = {}
    skipped: list[str] = []
    left = limits["disk_mb"] * 2**20
    for path, entry in walk(""):
        found = entry.stat(follow_symlinks=False)
        if written.get(path) == mark(found):
            continue
        content = content_of(path, found, left) if len(changed) < MOST_FILES and is_plain(path) else None
        if content is None:
            skipped.append(path.encode("utf-8", "replace").decode())
        else:
            changed[path] = content
            left -= len(content)
    return changed, skipped


def walk(folder: str) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Yields (path, entry) for everything below the folder that is not a folder itself, without following links.

    Folders that cannot be listed, and those more than 100 levels deep, are skipped.
    """
    with contextlib.suppress(OSError), os.scandir(folder or ".") as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            path = f"{folder}/{entry.name}" if folder else entry.name
            if entry.is_dir(follow_symlinks=False):
                if path.count("/") < 100:
                    yield from walk(path)
            else:
                yield path, entry


def is_plain(path: str) -> bool:
    return path.isprintable() and path.encode("utf-8", "ignore").decode() == path


def content_of(path: str, found: os.stat_result, most: float) -> bytes | None:
    if not stat.S_ISREG(found.st_mode) or found.st_size > most:
        return None
    try:
        with open(path, "rb", buffering=0, opener=without_links) as file:
            return file.read()
    except OSError:
        return None


def without_links(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def empty(folder: str) -> None:
    """Deletes everything in the folder, so that the next run finds nothing.

    Folders in folders are moved up first, because a path may be too long.
    """
    left = [folder]
    for number in itertools.count():
        if not left:
            return
        top = left.pop()
        with contextlib.suppress(PermissionError):  # a container's folder is root's, and open to all
            os.chmod(top, 0o700)
        for entry in list(os.scandir(top)):
            if entry.is_dir(follow_symlinks=False):
                left.append(f"{folder}/{os.urandom(16).hex()}")
                os.rename(entry.path, left[-1])
            else:
                os.unlink(entry.path)
        if number:
            os.rmdir(top)
