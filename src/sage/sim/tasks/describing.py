"""Descriptions of tasks: the instruction for an agent, features, and a level of difficulty, from the results of
tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt

from sage.grading.grading import Grade
from sage.grading.task import Task
from sage.grading.test_reports import function_of
from sage.sim.tasks.recipes import Step
from sage.sim.tasks.suites import Suite

SHOWN = 3  # failing tests in an instruction


def instruction_of(task: Task, found: Grade) -> str:
    """Returns the instruction of a task: the visible tests that fail, with their errors, and the request to repair the
    cause."""
    failing = sorted(found.failed & task.visible.keys())
    lines = [f"{len(failing)} of {len(task.visible)} tests fail (`{' '.join(task.command)}`):", ""]
    for test in failing[:SHOWN]:
        error = next((o for name, o in found.report.tests.items() if function_of(name) == test and o.error), None)
        shown = f": {error.error}: {error.message[:160]}" if error else ""
        lines.append(f"- `{test}`{shown}")
    if len(failing) > SHOWN:
        lines.append(f"- and {len(failing) - SHOWN} more")
    where = ", ".join(f"`{root}`" for root in task.editable)
    lines += [
        "",
        f"Find the cause and repair it in {where}. Tests must stay as they are; hidden tests check the repair too.",
    ]
    return "\n".join(lines)


def ochiai_ranks(suite: Suite, failed: frozenset[str]) -> dict[str, int]:
    """Returns the rank of each function of the module by how much failing tests point at it; 1 is the most
    suspicious."""
    suspicion = {}
    for function, tests in suite.callers.items():
        executed = [test for test in tests if test in suite.visible]
        hits = sum(test in failed for test in executed)
        bad = sum(test in failed for test in suite.visible)
        suspicion[function] = hits / sqrt(bad * len(executed)) if bad and executed else 0.0
    ordered = sorted(suspicion.values(), reverse=True)
    return {function: ordered.index(value) + 1 for function, value in suspicion.items()}


def features_of(task: Task, suite: Suite, found: Grade, functions: Sequence[str]) -> dict[str, int | float | str]:
    """Returns numbers about a task; an agent that is tested sees none of them."""
    ranks = ochiai_ranks(suite, found.failed)
    frames = {
        name for outcome in found.report.tests.values() for path, _, name in outcome.frames if path == suite.module
    }
    return {
        "visible_failing": len(found.failed & task.visible.keys()),
        "hidden_failing": len(found.failed & task.hidden.keys()),
        "visible_tests": len(task.visible),
        "hidden_tests": len(task.hidden),
        "lines": task.files.get(suite.module, b"").count(b"\n"),
        "rank": max((ranks.get(function, len(ranks) + 1) for function in functions), default=0),
        "in_traceback": int(all(function.rsplit(".", 1)[-1] in frames for function in functions)),
        "seconds": round(found.seconds, 3),
    }


def level_of(steps: Sequence[Step], features: Mapping[str, int | float | str]) -> int:
    """Returns the level of a task: 1 if the bug is in the traceback or first in rank, 2 if neither, 3 for several bugs
    in a file, 4 for several files."""
    if len({step["path"] for step in steps}) > 1:
        return 4
    if len(steps) > 1:
        return 3
    return 1 if features["in_traceback"] or features["rank"] == 1 else 2
