"""Rules that make a broken program a task. Every refusal has a code of REASONS, which reports count."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import replace
from difflib import unified_diff

from sage.grading.grading import Grade, grade, graded_tree, limits_of, missing
from sage.grading.task import LIMITS, Task
from sage.grading.test_reports import PytestReport, run_tests
from sage.sandbox import Backend, Result
from sage.sim.tasks.rebuilding import make_task
from sage.sim.tasks.recipes import Step, broken_files
from sage.sim.tasks.suites import FLAKY, LONGEST_S, Prepared, Suite, trusted

LONGEST_WAIT_S = 5.0
LONGEST_DIFF = 40  # changed lines
REASONS = {  # code: rule of the reference, and what it means
    "base_fails": "1: too few tests pass three times on the source itself (shuffled once, with two hash seeds)",
    "base_slow": "5: the tests of the module take too long, or wait",
    "not_graded": "3: the source itself is not solved when it is graded, for example since its tests wait",
    "survived": "2: no test notices the bug, so that doing nothing would solve it (4)",
    "not_hidden": "2: no hidden test notices the bug",
    "not_visible": "2: no visible test notices the bug",
    "unsteady": "2: the failing tests differ between runs",
    "import_error": "2: tests cannot be collected, so that the bug is in plain sight",
    "oracle_differs": "3: the repair is not the source that passed three times",
    "empty_passes": "4: an empty file passes",
    "deletion_matters": "4: deleting the tests changes what is graded",
    "timeout": "5: it runs into the time limit",
    "killed": "5: it is killed for memory or by a signal",
    "unchanged": "6: the bug changes nothing but white space",
    "not_python": "6: the bug is a syntax error",
    "hidden_shown": "7: a hidden test can be read in the files of the task",
    "long_diff": "8: the repair is longer than 40 lines",
    "tells": "9: the instruction names the place or the kind of the bug",
    "other_backend": "10: a second sandbox disagrees",
    "flaky_code": "11: the code depends on time, chance, threads or the like",
    "duplicate": "another task has the same broken file, or the same failing tests in the same function",
    "shape": "there are enough tasks of this masked shape",
    "function": "there are enough tasks in this function or ones like it",
    "package": "there are enough tasks of this package",
}


def checked_base(backend: Backend, prepared: Prepared, suite: Suite) -> Suite | str:
    """Returns the suite with the tests that pass three times on the source, or the code of a refusal (rules 1, 3, 4,
    5)."""
    tree = prepared.graded_tree(suite.tests)
    limits = replace(LIMITS, wall_s=30.0, disk_mb=128)
    runs: tuple[tuple[int | None, int | None], ...] = ((None, None), (1, None), (None, 1))
    reports = []
    for shuffle, hash_seed in runs:
        reports.append(run_tests(backend, tree, suite.tests, limits, shuffle=shuffle, hash_seed=hash_seed))
        if reports[-1].problem:
            return "base_fails"
        if waits(reports[-1].result):
            return "base_slow"
    visible, hidden = trusted(prepared, reports, suite.tests)
    if len(visible) < 2 or len(hidden) < 2:
        return "base_fails"
    seconds = min(report.result.cpu_s for report in reports[:2])
    if seconds > LONGEST_S:
        return "base_slow"
    suite = replace(suite, seconds=round(seconds, 3), visible=visible, hidden=hidden)
    unbroken = make_task(prepared, suite, [])
    if not grade(backend, unbroken, unbroken.files).solved:
        return "not_graded"
    files = {**unbroken.files, suite.module: b""}
    return "empty_passes" if grade(backend, unbroken, files).solved else suite


def waits(result: Result) -> bool:
    """Returns whether tests sleep or wait for each other, whatever the load of the machine."""
    return result.wall_s > LONGEST_WAIT_S + 5 * result.cpu_s


def cheap_reason(prepared: Prepared, steps: Sequence[Step]) -> str:
    """Returns the code of a refusal that is known before anything runs; '' if there is none (rules 6, 8, 11)."""
    for path, broken in broken_files(prepared.source, steps).items():
        original = prepared.source.files[path]
        changed = changed_lines(original, broken)
        before, after = ("".join("".join(line[1:] for line in changed if line[0] == mark).split()) for mark in "-+")
        if before == after:
            return "unchanged"
        if path.endswith(".py"):
            try:
                ast.parse(broken)
            except (SyntaxError, ValueError):
                return "not_python"
        if len(changed) > LONGEST_DIFF:
            return "long_diff"
        if any(FLAKY.search(line) for line in changed):
            return "flaky_code"
    return ""


def changed_lines(before: bytes, after: bytes) -> list[str]:
    lines = unified_diff(before.decode().splitlines(), after.decode().splitlines(), n=0, lineterm="")
    return [line for line in list(lines)[2:] if not line.startswith("@@")]


def quick_reason(backend: Backend, task: Task, callers: Sequence[str]) -> str:
    """Runs the tests (`callers`) that call a broken function; returns the code of a refusal if they do not notice the
    bug, else ''."""
    expected = {test: count for test, count in {**task.visible, **task.hidden}.items() if test in callers}
    report = run_tests(backend, graded_tree(task, task.files), task.tests, limits_of(task), only=tuple(expected))
    return ran_badly(report) or unnoticed(task, missing(report, expected))


def ran_badly(report: PytestReport) -> str:
    """Returns the code of a refusal because of how a run of a broken program ended; '' if it ended well (rules 2,
    5)."""
    if report.problem:
        return "timeout" if "wall_s" in report.problem or "cpu_s" in report.problem else "killed"
    return "import_error" if report.broken else ""


def unnoticed(task: Task, failed: frozenset[str]) -> str:
    if not failed:
        return "survived"
    if not failed & task.hidden.keys():
        return "not_hidden"
    return "" if failed & task.visible.keys() else "not_visible"


def broken_reason(backend: Backend, task: Task) -> tuple[str, Grade]:
    """Runs all tests on the broken program; returns the code of a refusal ('' if it is a task) and the grade."""
    found = grade(backend, task, task.files)
    return ran_badly(found.report) or unnoticed(task, found.failed), found


def is_steady(backend: Backend, task: Task, found: Grade) -> bool:
    """Returns whether the same tests fail in two more runs, in other orders (rule 2)."""
    return all(grade(backend, task, task.files, shuffle=order).failed == found.failed for order in (1, 2))


def static_reason(prepared: Prepared, task: Task, suite: Suite) -> str:
    """Returns the code of a refusal by rules 3, 4 and 7, or ''; the way in which trees are made ensures these rules,
    and they are checked anyway."""
    graded = graded_tree(task, task.repaired())
    base = prepared.graded_tree(suite.tests)
    if any(graded.get(path) != content for path, content in base.items()):
        return "oracle_differs"
    without = {path: content for path, content in task.files.items() if path not in task.tests}
    if graded_tree(task, without) != graded_tree(task, task.files):
        return "deletion_matters"
    shown = b"\n".join(task.files.get(path, b"") for path in task.tests)
    names = {test.rsplit("::", 1)[-1] for test in task.hidden} - {test.rsplit("::", 1)[-1] for test in task.visible}
    return "hidden_shown" if any(f"def {name}(".encode() in shown for name in names) else ""


def instruction_reason(instruction: str, steps: Sequence[Step], changed: Mapping[str, Sequence[str]]) -> str:
    """Returns `tells` if the instruction names an operator or has a changed line in it, else '' (rule 9)."""
    operators = {str(step.get("operator", "")) for step in steps} - {""}
    lines = {line[1:].strip() for path in changed for line in changed[path]}
    tells = any(operator in instruction for operator in operators) or any(
        len(line) > 12 and line in instruction for line in lines
    )
    return "tells" if tells else ""
