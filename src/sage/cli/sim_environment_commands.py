"""`sage sim compile`: tasks become tables that an environment answers from."""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sage.sandbox import Backend


def add_commands(actions: argparse._SubParsersAction) -> None:
    compiling = actions.add_parser("compile", help="run every repair that a policy can try, and store what each does")
    compiling.add_argument("--tasks", type=Path, required=True, help="a manifest of `sage sim generate`")
    compiling.add_argument("--out", type=Path, required=True, help="the tables, as .npz")
    compiling.add_argument("--workers", type=int, default=2, help="sandboxes at a time")
    compiling.add_argument("--limit", type=int, help="how many tasks; all if not given")
    compiling.add_argument("--verify", type=int, default=0, help="execute so many transitions again and compare")
    compiling.set_defaults(func=compile_tables)


def compile_tables(arguments: argparse.Namespace) -> int:
    return compile_manifest(
        arguments.tasks, arguments.out, workers=arguments.workers, limit=arguments.limit, verify=arguments.verify
    )


def compile_manifest(tasks: Path, out: Path, *, workers: int, limit: int | None = None, verify: int = 0) -> int:
    from sage.cli.sim_task_commands import progress_bar
    from sage.sandbox.choose import open_backend
    from sage.settings import cache_folder
    from sage.sim.environment import compiling, packed
    from sage.sim.environment.equality import disagreements, transitions
    from sage.sim.tasks.manifest import Manifest
    from sage.sim.tasks.rebuilding import Rebuilder
    from sage.sim.tasks.sources import Sources

    if workers < 1:
        raise ValueError(f"--workers {workers} must be at least 1")
    manifest = Manifest.open(tasks)
    rebuilder = Rebuilder(Sources(cache_folder()), manifest.suites)
    rows = [dict(row) for row in manifest.rows[:limit]]
    backends: list[Backend] = []
    try:
        kept = cache_folder() / "tables"
        with progress_bar("compile") as show:
            backends.extend(open_backend() for _ in range(workers))
            found = compiling.compile_tasks(
                rows, rebuilder, backends, kept, lambda done, total: show(done, total, "tasks")
            )
        packed.save(out, found.tables)
        chosen = transitions(found.tables, verify)
        by_id = {row["id"]: row for row in rows}
        needed = {found.tables[one.table].id for one in chosen}
        made = {name: rebuilder.materialise(by_id[name]) for name in needed}
        wrong = disagreements(backends[0], made, found.tables, chosen)
    finally:
        for backend in backends:
            backend.close()
    solvable = sum(any(node.solves for node in table.nodes) for table in found.tables)
    print(f"{out}: {len(found.tables)} tasks, of which trials can solve {solvable}; {len(found.skipped)} skipped")
    for reason, count in Counter(found.skipped.values()).most_common(5):
        print(f"  {count} skipped: {reason}")
    if chosen:
        deep = sum(one.node > 0 for one in chosen)
        print(f"executed again: {len(chosen)} transitions, {deep} after an edit; {len(wrong)} differ from the tables")
    for one in wrong[:10]:
        print(f"  {found.tables[one.transition.table].id}: {one.compiled}; executed: {one.executed}")
    return 1 if wrong else 0
