"""`sage sim run` on copies of a small task, of which the third sleeps: a program that tests kill and interrupt."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace

from sage.cli import main
from sage.grading.task import Task
from sage.sandbox import Backend, Command, Limits, choose
from sage.sandbox.image import ensure
from sage.sandbox.zygote import Zygote
from sage.sim import policies
from sage.sim.policies import RepairAttempt, Solver, oracle
from sage.sim.tasks.manifest import Manifest
from sage.sim.tasks.rebuilding import Rebuilder
from tests.sage.sandbox.fixtures import CACHE
from tests.sage.sim.environment.small_task import TASK

COUNT = 4


def rows_of(count: int) -> list[dict]:
    return [{"id": f"small-{i}", "split": "train", "files_sha256": ""} for i in range(count)]


def small_task(row: Mapping) -> Task:
    return replace(TASK, id=row["id"])


def hanging_oracle(seconds: str) -> Solver:
    def solve(backend: Backend, task: Task) -> RepairAttempt:
        if task.id == "small-2":
            backend.run({}, Command(argv=("sleep", seconds)), Limits(wall_s=90.0))
        return oracle(backend, task)

    return solve


def install(put: Callable[[object, str, object], None], solve: Solver | None = None) -> None:
    """Gives the command other tasks, the sandbox of the tests, and another policy if one is given."""
    put(Manifest, "shipped", lambda: Manifest({}, {}, rows_of(COUNT)))
    put(Rebuilder, "materialise", lambda self, row: small_task(row))
    put(choose, "open_backend", lambda kind: Zygote(ensure(CACHE)))
    if solve is not None:
        put(policies, "named", lambda name, seed, **_: policies.Named(solve))


if __name__ == "__main__":
    install(setattr, hanging_oracle(sys.argv[1]))
    sys.exit(main(["sim", "run", "--workers", "1", "--out", sys.argv[2]]))
