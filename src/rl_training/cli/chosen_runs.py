"""The runs that a command line names: by a condition, by their names below a folder, or by their paths."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from rl_training.experiment.find_runs import find_runs, runs
from rl_training.experiment.report.formatting import plural
from rl_training.experiment.run_record import RunRecord, is_run

ROOT = "runs"
TRAIN_ONE = "train one with `rl-training train ppo/cartpole`, or name the folder that holds yours with --root"


def choose_runs(options: argparse.Namespace, given: Sequence[str] = (), *, exact: bool = False) -> list[RunRecord]:
    """Returns the runs below the root that fulfil --where, sorted; those in `given` alone, if there are any.

    A folder in `given` stands for the runs in it, unless `exact`. Raises ValueError for one that is none of these.
    """
    root = Path(options.root).expanduser()
    if not root.exists() and options.root == ROOT and not given:
        return []
    found = runs(root, where=options.where, sort=f"-{options.sort}" if options.reverse else options.sort)
    if not given:
        return found
    every = found if options.where is None else list(find_runs(root))
    wanted = {record.path for name in given for record in runs_at(name, root, every, exact=exact)}
    return [record for record in found if record.path in wanted]


def runs_at(name: str, root: Path, found: Sequence[RunRecord], *, exact: bool) -> list[RunRecord]:
    """Returns the run that is called `name` or has this path or, unless `exact`, the runs in the folder of that name."""
    paths = {os.path.abspath(root / name), os.path.abspath(os.path.expanduser(name))}
    same = [record for record in found if record.name == name or os.path.abspath(record.path) in paths]
    if same:
        return same
    inside = [
        record for record in found if any(Path(os.path.abspath(record.path)).is_relative_to(path) for path in paths)
    ]
    if inside and not exact:
        return inside
    if inside:
        raise ValueError(f"{name} is a folder with {plural(len(inside), 'run')}, not a run: name the runs in it")
    if any(os.path.lexists(path) for path in paths):
        raise ValueError(
            f"{name} is no run directory below {root}, or is reached by a link: see `rl-training runs list`"
        )
    raise ValueError(f"there is no run {name} below {root}: see `rl-training runs list`, or give another --root")


def run_named(name: str, root: str) -> RunRecord:
    """Returns the run that is called `name` below the root, or has this path anywhere."""
    folder, path = Path(root).expanduser(), Path(name).expanduser()
    found = list(find_runs(folder)) if folder.is_dir() else []
    if is_run(path) and all(record.path.resolve() != path.resolve() for record in found):
        return RunRecord(path)
    return runs_at(name, folder, found, exact=True)[0]


def why_none(options: argparse.Namespace) -> str:
    """Returns a sentence that says why no run was found, and what to do."""
    root = Path(options.root).expanduser()
    if not root.exists():
        return f"there is no folder {root} here, so there are no runs: {TRAIN_ONE}"
    if options.where is None or next(find_runs(root), None) is None:
        return f"there are no runs in {root}: {TRAIN_ONE}"
    return f"none of the {len(list(find_runs(root)))} runs in {root} fulfils {options.where!r}"
