"""A repository as files, and the way back."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from sage.agent.repository import RepositoryError, apply_changes, changes_of, patch_of, read_repository


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / "pkg").mkdir(parents=True)
    (root / "pkg" / "a.py").write_text("x = 1\n")
    (root / "run.sh").write_text("echo\n")
    (root / "run.sh").chmod(0o755)
    (root / "__pycache__").mkdir()
    (root / "__pycache__" / "a.pyc").write_bytes(b"x")
    (tmp_path / "secret").write_text("outside\n")
    (root / "link").symlink_to(tmp_path / "secret")
    (root / "folder").symlink_to(tmp_path)
    return root


def test_files_without_links_caches_and_what_is_left_out(root: Path) -> None:
    assert sorted(read_repository(root)) == ["pkg/a.py", "run.sh"]
    assert sorted(read_repository(root, [root / "run.sh"])) == ["pkg/a.py"]
    with pytest.raises(RepositoryError, match="has no files"):
        read_repository(root / "__pycache__" / "..", [root / "run.sh", root / "pkg" / "a.py"])


def test_git_says_which_files_there_are_and_starts_nothing(root: Path) -> None:
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    (root / ".gitignore").write_text("*.log\n")
    (root / "a.log").write_text("x")
    (root / ".git" / "program").write_text(f"#!/bin/sh\ntouch {root}/started\n")
    (root / ".git" / "program").chmod(0o755)
    subprocess.run(["git", "-C", str(root), "config", "core.fsmonitor", f"{root}/.git/program"], check=True)
    assert sorted(read_repository(root)) == [".gitignore", "pkg/a.py", "run.sh"]
    assert not (root / "started").exists()


def test_a_patch_does_what_the_changes_do(root: Path, tmp_path: Path) -> None:
    before = read_repository(root)
    after = {"pkg/a.py": b"x = 2\fy\n", "pkg/__init__.py": b"", "new.txt": b"no newline"}
    changes = changes_of(before, after)
    assert changes == after | {"run.sh": None}
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    subprocess.run(["git", "-C", str(root), "apply", "-"], input=patch_of(before, changes).encode(), check=True)
    assert read_repository(root) == after


def test_changes_are_applied_with_the_modes_of_files(root: Path) -> None:
    before = read_repository(root)
    changes: dict[str, bytes | None] = {"run.sh": b"echo 2\n", "sub/new.py": b"", "pkg/a.py": None}
    apply_changes(root, before, changes)
    assert read_repository(root) == {"run.sh": b"echo 2\n", "sub/new.py": b""}
    assert (root / "run.sh").stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("pkg/a.py", "pkg/a.py has changed since the agent began"),
        ("pkg", "pkg has changed since the agent began"),
        ("folder/new.py", "folder/new.py is behind a link that leads elsewhere"),
        ("link", "link is behind a link that leads elsewhere"),
    ],
)
def test_all_or_nothing_is_applied(root: Path, path: str, sentence: str) -> None:
    before = read_repository(root)
    (root / "pkg" / "a.py").write_text("x = 3\n")
    with pytest.raises(RepositoryError, match=sentence):
        apply_changes(root, before, {"run.sh": b"", path: b"y\n"})
    assert (root / "run.sh").read_text() == "echo\n"
    assert (root.parent / "secret").read_text() == "outside\n"
