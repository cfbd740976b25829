"""`sage sim compile`: tasks become tables that an environment answers from."""

from __future__ import annotations

import argparse
from pathlib import Path

from sage.cli.sim_task_commands import progress_bar


def add_compile(compiling: argparse.ArgumentParser) -> None:
    compiling.add_argument("--tasks", type=Path, required=True, help="a manifest of `sage sim generate`")
    compiling.add_argument("--out", type=Path, required=True, help="the tables, as .npz")
    compiling.add_argument("--workers", type=int, default=2, help="sandboxes at a time")
    compiling.add_argument("--limit", type=int, help="how many tasks; all if not given")
    compiling.add_argument("--verify", type=int, default=0, help="execute so many transitions again and compare")
    compiling.set_defaults(func=compile_tables)


def compile_tables(arguments: argparse.Namespace) -> int:
    from sage.sim.environment.compiling import compile_manifest

    with progress_bar("compile") as show:
        compiled = compile_manifest(
            arguments.tasks,
            arguments.out,
            workers=arguments.workers,
            limit=arguments.limit,
            verify=arguments.verify,
            progress=lambda done, total: show(done, total, "tasks"),
        )
    print(compiled)
    return 1 if compiled.wrong else 0
