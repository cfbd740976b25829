"""Compilation of tasks in several sandboxes at a time, each task once; a killed compilation goes on."""

from __future__ import annotations

import functools
import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sage.sandbox import Backend, SandboxError
from sage.sandbox.pool import BackendPool, open_backends
from sage.settings import cache_folder
from sage.sim.environment import packed
from sage.sim.environment.equality import Disagreement, Transition, disagreements, transitions
from sage.sim.environment.growing import compiled
from sage.sim.environment.tables import Table
from sage.sim.tasks.manifest import Manifest
from sage.sim.tasks.rebuilding import Rebuilder, RebuildError
from sage.sim.tasks.sources import Sources

MOST_REASONS, MOST_DIFFERENCES = 5, 10  # that a summary shows


@dataclass
class Compilation:
    """The tables of tasks, and the reasons why some tasks have none."""

    tables: list[Table] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)  # by task


@dataclass(frozen=True)
class CompiledManifest:
    """A file of tables, and what came of executing some of their transitions again."""

    out: Path
    found: Compilation
    checked: list[Transition]
    wrong: list[Disagreement]

    def __str__(self) -> str:
        tables, skipped = self.found.tables, self.found.skipped
        solvable = sum(any(node.solves for node in table.nodes) for table in tables)
        lines = [f"{self.out}: {len(tables)} tasks, of which trials can solve {solvable}; {len(skipped)} skipped"]
        for reason, count in Counter(skipped.values()).most_common(MOST_REASONS):
            lines.append(f"  {count} skipped: {reason}")
        if self.checked:
            deep = sum(one.node > 0 for one in self.checked)
            lines.append(
                f"executed again: {len(self.checked)} transitions, {deep} after an edit; {len(self.wrong)} differ from "
                "the tables"
            )
        wrong = self.wrong[:MOST_DIFFERENCES]
        lines += [f"  {tables[one.transition.table].id}: {one.compiled}; executed: {one.executed}" for one in wrong]
        return "\n".join(lines)


def compile_manifest(
    tasks: Path,
    out: Path,
    *,
    workers: int = 2,
    limit: int | None = None,
    verify: int = 0,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> CompiledManifest:
    """Compiles the first `limit` tasks of a manifest (None: all) to one file, and executes `verify` transitions again."""
    manifest = Manifest.open(tasks)
    rebuilder = Rebuilder(Sources(cache_folder()), manifest.suites)
    rows = [dict(row) for row in manifest.rows[:limit]]
    with open_backends(workers) as backends:
        found = compile_tasks(rows, rebuilder, backends, cache_folder() / "tables", progress)
        packed.save(out, found.tables)
        checked = transitions(found.tables, verify)
        by_id = {row["id"]: row for row in rows}
        needed = {found.tables[one.table].id for one in checked}
        made = {name: rebuilder.materialise(by_id[name]) for name in needed}
        return CompiledManifest(out, found, checked, disagreements(backends[0], made, found.tables, checked))


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
