"""Audit of a manifest: policies that cannot fail and policies that must not succeed are graded, which proves that its
tasks are sound."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from sage.grading.grading import grade
from sage.grading.task import Task
from sage.sandbox import Backend
from sage.sandbox.pool import BackendPool
from sage.sim.tasks.manifest import Manifest
from sage.sim.tasks.rebuilding import Rebuilder, RebuildError
from sage.sim.tasks.sources import Sources
from sage.sim.tasks.splits import share_of

REPETITIONS = 3


def without_tests(task: Task) -> dict[str, bytes]:
    return {path: content for path, content in task.files.items() if path not in task.tests}


def audit(
    manifest: Manifest,
    *,
    backends: Sequence[Backend],
    sources: Sources,
    sample: int | None = None,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> dict:
    """Returns counts over all tasks, or over a sample that is the same each time: tasks that the oracle, no change and
    deleted tests solve, and whose repetitions agree."""
    rebuilder = Rebuilder(sources, manifest.suites)
    rows = sorted(manifest.rows, key=lambda row: share_of(f"audit {row['id']}"))[:sample]
    pool = BackendPool(backends)
    skipped: Counter[str] = Counter()
    tasks: list[Task] = []
    for row in rows:
        try:
            tasks.append(rebuilder.materialise(row))
        except RebuildError as error:
            skipped[error.reason] += 1
    finished: list[Mapping[str, bool]] = []

    def work(task: Task) -> Mapping[str, bool]:
        with pool.borrowed() as backend:
            return findings(backend, task)

    for found in pool.map(work, tasks):
        finished.append(found)
        progress(len(finished), len(tasks))
    total = sum((Counter({name: int(true) for name, true in found.items()}) for found in finished), start=Counter())
    return {
        "tasks": len(tasks),
        "oracle_solved_twice": total["oracle"],
        "noop_solved": total["noop"],
        "deletion_solved": total["deletion"],
        "repetitions_agree": total["agree"],
        "skipped": dict(skipped),
    }


def findings(backend: Backend, task: Task) -> dict[str, bool]:
    broken = [grade(backend, task, task.files) for _ in range(REPETITIONS)]
    return {
        "oracle": all(grade(backend, task, task.repaired()).solved for _ in range(2)),
        "noop": any(one.solved for one in broken),
        "deletion": grade(backend, task, without_tests(task)).solved,
        "agree": len({one.failed for one in broken}) == 1,
    }
