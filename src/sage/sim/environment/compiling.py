"""Compilation of tasks in several sandboxes at a time, each task once; a killed compilation goes on."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sage.sandbox import Backend, SandboxError
from sage.sandbox.pool import BackendPool
from sage.sim.environment import packed
from sage.sim.environment.growing import compiled
from sage.sim.environment.tables import Table
from sage.sim.tasks.rebuilding import Rebuilder, RebuildError


@dataclass
class Compilation:
    """The tables of tasks, and the reasons why some tasks have none."""

    tables: list[Table] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)  # by task


def compile_tasks(
    rows: Sequence[dict],
    rebuilder: Rebuilder,
    backends: Sequence[Backend],
    folder: Path,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> Compilation:
    """Returns the tables of the rows, in their order; each is kept in `folder` as soon as it is done. `progress` gets
    the numbers of compiled and of all tasks."""
    pool = BackendPool(backends)
    found = Compilation()
    done: dict[str, list[Table]] = {}
    tasks = {}
    for row in rows:
        try:
            tasks[row["id"]] = rebuilder.materialise(row)
        except RebuildError as error:
            found.skipped[row["id"]] = error.reason

    def work(name: str) -> None:
        path = folder / f"{name}-{version()}.npz"
        if not path.exists():
            try:
                with pool.borrowed() as backend:
                    table = compiled(backend, tasks[name])
                    packed.save(path, [table] if table else [])
            except SandboxError as error:
                found.skipped[name] = str(error)
                return
        done[name] = packed.load(path)
        if not done[name]:
            found.skipped[name] = "nothing can be tried"
        progress(len(done), len(tasks))

    list(pool.map(work, tasks))
    found.tables = [table for name in tasks for table in done.get(name, ())]
    return found


@functools.cache  # the code that runs, whatever becomes of its files
def version() -> str:
    """Returns a hash of the code that decides what a table contains; kept tables have it in their names."""
    folder = Path(__file__).parent
    names = ("naturalness.py", "suspects.py", "tables.py", "growing.py", "trials.py", "trial_program.py")
    return hashlib.sha256(b"".join((folder / name).read_bytes() for name in names)).hexdigest()[:12]
