"""Removal of run directories, which are checked first and locked meanwhile."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from rl_training.experiment.run_record import RunRecord, is_run

LOCK = ".lock"
# What makes a folder a run directory goes last: a removal that is cut short leaves one that can be found and removed.
LAST = ("metadata.json", "config.yaml")


def remove_runs(runs: Iterable[RunRecord]) -> None:
    """Removes run directories with everything in them; links in them are removed, and what they lead to is kept.

    Raises ValueError, before anything is removed, if one of them is going on, is a link, or is no run directory.
    """
    records = list(runs)
    for record in records:
        if problem := why_not_removed(record):
            raise ValueError(problem)
    for record in records:
        remove_run(record.path)


def why_not_removed(record: RunRecord) -> str | None:
    """Returns a sentence that says why a run cannot be removed; None if it can."""
    path = record.path
    if path.is_symlink():
        return f"{path} is a link: remove the run directory that it leads to, or the link by hand"
    if not is_run(path):
        return f"{path} is no run directory: it has no config.yaml and metadata.json"
    if RunRecord(path).running:  # asked anew
        return f"{path} is running: stop it first, with Ctrl-C or SIGTERM"
    return None


def remove_run(path: Path) -> None:
    from rl_training.experiment.run_directory import held  # imports torch, which only this step needs

    if (path / LOCK).is_symlink():  # locking it would write to the file that it leads to
        (path / LOCK).unlink()
    with held(path, f"run directory {path}", "stop it first"):  # no `resume` can begin meanwhile
        inside = sorted(os.scandir(path), key=lambda entry: LAST.index(entry.name) if entry.name in LAST else -1)
        for entry in inside:
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path)
            elif entry.name != LOCK:  # it is open, and cannot be removed on Windows before it is closed
                os.unlink(entry.path)
    shutil.rmtree(path)


def size_of(path: Path) -> int:
    """Returns the bytes of all files in a folder and below it; links count as nothing."""
    total = 0
    for entry in os.scandir(path):
        if entry.is_dir(follow_symlinks=False):
            total += size_of(Path(entry.path))
        elif entry.is_file(follow_symlinks=False):
            total += entry.stat(follow_symlinks=False).st_size
    return total
