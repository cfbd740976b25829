"""Grading of a tree of files: the agent's program, our tests, a fresh sandbox, and tests that must fail.

Only files that a repair may change are taken from the agent. Every expected test must be reported as passed in a
signed report, and tests with random names that fail on purpose must be reported as failed, which patched assertions
and patched reports do not do. Code under test and tests share a process: a program that looks for our plugin in memory
to forge the report is not stopped by this, and neither is one that behaves as wanted only under test.
"""

from __future__ import annotations

import math
import random
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from sage.grading.task import Task, is_editable
from sage.grading.test_files import with_canaries
from sage.grading.test_reports import PytestReport, function_of, run_tests
from sage.sandbox import Backend, Files, Limits

RESERVED = ("conftest.py", "sitecustomize.py", "usercustomize.py")


@dataclass(frozen=True, kw_only=True)
class Grade:
    """The grade of a tree of files: solved or not, and if not the reason: `tests`, `tampered`, or how the run ended."""

    solved: bool
    reason: str
    failed: frozenset[str]  # expected test functions that did not pass
    report: PytestReport

    @property
    def seconds(self) -> float:
        return self.report.result.wall_s


def graded_tree(task: Task, files: Files) -> dict[str, bytes]:
    """Returns the files to grade: those that the agent may change, and our tests instead of its own.

    A new file counts if it is Python below an editable folder.
    """
    return {path: content for path, content in files.items() if may_change(task, path)} | dict(task.graded)


def may_change(task: Task, path: str) -> bool:
    """Returns True if a file of this path is taken from the agent."""
    return (
        is_editable(task.editable, path, task.test_roots)
        and (path in task.files or path.endswith(".py"))
        and PurePosixPath(path).name not in RESERVED
    )


def grade(
    backend: Backend,
    task: Task,
    files: Files,
    shuffle: int | None = None,
    hash_seed: int | None = None,
    limits: Limits | None = None,
    *,
    unnamed: bool = False,
) -> Grade:
    """Runs all tests on the agent's program in a fresh sandbox and returns the grade.

    `shuffle` and `hash_seed` are seeds for the order of tests and for Python's hashes. With `unnamed`, tests that are
    not expected by name, such as inherited ones, run and must pass, too.
    """
    chooser = random.Random(secrets.randbits(64))
    tree = graded_tree(task, files)
    place = chooser.choice(task.tests)
    tree[place], canaries = with_canaries(tree[place], chooser)
    expected = {**task.visible, **task.hidden}
    failing = [f"{place}::{name}" for name in canaries]
    only = None if unnamed else (*expected, *failing)
    limits = limits or limits_of(task)
    report = run_tests(backend, tree, task.tests, limits, shuffle=shuffle, hash_seed=hash_seed, only=only)
    failed = frozenset(expected) if report.problem else missing(report, expected)
    if unnamed:
        failed |= unnamed_failures(report, expected) - set(failing)
    reason = report.problem or ("tests" if failed else "")
    if not report.problem and place not in report.broken:
        outcomes = report.functions()
        if any(outcomes.get(name) != "failed" for name in failing):
            reason = "tampered"
    return Grade(solved=not reason, reason=reason, failed=failed, report=report)


def missing(report: PytestReport, expected: Mapping[str, int]) -> frozenset[str]:
    """Returns the expected test functions of which a case failed or was not reported.

    `expected` has their numbers of cases.
    """
    worst, cases = report.functions(), report.cases()
    return frozenset(test for test, count in expected.items() if worst.get(test) != "passed" or cases[test] < count)


def unnamed_failures(report: PytestReport, expected: Iterable[str]) -> set[str]:
    """Returns test functions outside of `expected` of which a case did not pass, and files that failed to load.

    Files with expected tests are left out, as those are missing then.
    """
    known = set(expected)
    files = {path for path in report.broken if not any(test.startswith(f"{path}::") for test in known)}
    return files | {function_of(test) for test, found in report.tests.items() if found.outcome != "passed"} - known


def limits_of(task: Task) -> Limits:
    """Returns the limits of a task's grading: three times the processor time of the repaired program, and a second.

    Wall time allows for a machine with much other work: a container that starts Python for every run on two cores
    under a load of eight was seen to need more than four seconds.
    """
    cpu_s = 1 + math.ceil(3 * task.seconds)
    return replace(task.limits, cpu_s=cpu_s, wall_s=min(30.0, 10.0 + 20 * task.seconds), disk_mb=128)
