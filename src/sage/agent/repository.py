"""A repository as files for a sandbox, and changes written back as a patch, if nothing has changed meanwhile."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path, PurePosixPath

from sage.files import replacing
from sage.sandbox import Files
from sage.sandbox.session import diff_lines

SKIPPED = {".git", ".hg", ".svn", ".venv", "venv", "node_modules", "__pycache__", ".pytest_cache", ".mypy_cache"}
LARGEST = 4 * 2**20  # bytes of a file that is copied
# A repository's own settings may name programs for git to start: none is.
GIT = ("git", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")


class RepositoryError(ValueError):
    """Error about a folder that cannot be read, or a patch that does not fit any more.

    The message says why, and the fix.
    """


def read_repository(root: Path, left_out: Collection[Path] = ()) -> dict[str, bytes]:
    """Returns the files of a repository by path: those that git knows or would add; without git, all but caches.

    Links, files above 4 MB and `left_out` are skipped. Raises RepositoryError if `root` is no folder or has no files.
    """
    if not root.is_dir():
        raise RepositoryError(f"--repo {root} is no folder: name the folder of the project")
    found, hidden = {}, {path.resolve() for path in left_out}
    for name in paths_of(root):
        path = root / name
        if path.resolve() in hidden:
            continue
        try:
            facts = path.lstat()
            if stat.S_ISREG(facts.st_mode) and facts.st_size <= LARGEST and is_inside(root, path):
                found[name] = path.read_bytes()
        except FileNotFoundError:  # which git knows, and which was removed
            continue
    if not found:
        raise RepositoryError(f"--repo {root} has no files: name the folder of the project")
    return found


def paths_of(root: Path) -> list[str]:
    if shutil.which("git"):
        words = (*GIT, "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard")
        listed = subprocess.run(words, capture_output=True, check=False)
        if listed.returncode == 0:
            names = set(listed.stdout.decode(errors="surrogateescape").split("\0")) - {""}
            return sorted(name for name in names if not SKIPPED.intersection(PurePosixPath(name).parts))
    return sorted(walked(root))


def walked(root: Path) -> Iterator[str]:
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(set(folders) - SKIPPED)
        yield from ((Path(folder) / name).relative_to(root).as_posix() for name in names)


def is_inside(root: Path, path: Path) -> bool:
    """Returns True if a path stays in the folder, whatever links are on its way."""
    return path.resolve().is_relative_to(root.resolve())


def changes_of(before: Files, after: Files) -> dict[str, bytes | None]:
    """Returns the new content of every file that differs, by path; None for a deleted file."""
    paths = sorted({*before, *after})
    return {path: after.get(path) for path in paths if before.get(path) != after.get(path)}


def patch_of(before: Files, changes: Mapping[str, bytes | None]) -> str:
    """Returns the changes as a patch for `git apply`; files that are not text are only named."""
    return "".join(line for path, content in changes.items() for line in file_patch(path, before.get(path), content))


def file_patch(path: str, before: bytes | None, after: bytes | None) -> Iterator[str]:
    yield f"diff --git a/{path} b/{path}\n"
    if before is None:
        yield "new file mode 100644\n"
    elif after is None:
        yield "deleted file mode 100644\n"
    if before or after:  # an empty file that comes or goes has no lines
        yield from diff_lines(path, before, after)


def apply_changes(root: Path, before: Files, changes: Mapping[str, bytes | None]) -> None:
    """Writes all changes to the repository; `before` has the files as they were when the agent began.

    Raises RepositoryError, and writes nothing, if one of the files is different now.
    """
    for path in changes:
        check_unchanged(root, path, before.get(path))
    for path, content in changes.items():
        target = root / path
        if content is None:
            target.unlink()
            continue
        mode = target.stat().st_mode if target.exists() else None
        with replacing(target) as temporary:
            temporary.write_bytes(content)
            if mode is not None:
                temporary.chmod(stat.S_IMODE(mode))


def check_unchanged(root: Path, path: str, before: bytes | None) -> None:
    target = root / path
    if not is_inside(root, target) or target.is_symlink():
        raise RepositoryError(f"{path} is behind a link that leads elsewhere: nothing was applied")
    now = target.read_bytes() if target.is_file() else None
    if now != before or (now is None and target.exists()):
        raise RepositoryError(
            f"{path} has changed since the agent began, and nothing was applied: write the patch to a file with --patch, or run "
            "again"
        )
