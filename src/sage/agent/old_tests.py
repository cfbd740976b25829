"""The tests as they were before the run, which judge every change of it.

A change passes if they pass with the agent's program in a fresh sandbox, as our own recorder reports it, and if tests
that we add fail as they must. No model can pass by changing its judge, because that is taken from before the run: test
files, the rest of a folder `test` or `tests`, every conftest.py, the settings of pytest, and what Python or pytest
load by themselves.
"""

from __future__ import annotations

import re
import secrets
import sys
from collections.abc import Collection, Mapping
from pathlib import PurePosixPath
from random import Random
from typing import NamedTuple

from sage.agent.pytest_words import named_files
from sage.grading.grading import RESERVED
from sage.grading.test_files import EQUAL, guarded, with_canaries
from sage.grading.test_reports import PytestReport, function_of, run_recorded
from sage.sandbox import Backend, Files, Limits

OPTIONS = ("--continue-on-collection-errors", "--maxfail=0", "--tb=no", "--assert=plain")  # win over the command's
SETTINGS = {"pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "tox.ini", "setup.cfg", "pyproject.toml"}
TEST_FILE = re.compile(r"test_.*\.py|.*_test\.py")
TEST_FOLDERS = {"test", "tests"}
NAMED_FOR_TESTS = re.compile(r"(^|[/_.-])(test|check|spec)s?([/_.-])", re.IGNORECASE)
# A module of the agent's with one of these names would be loaded instead of the real one, before any test runs.
LOADED_FIRST = sys.stdlib_module_names | {
    "pytest",
    "_pytest",
    "pluggy",
    "iniconfig",
    "packaging",
    "pygments",
    "hypothesis",
}
UNGUARDED = "list.__eq__"  # compares in a file without the guard
MOST_TOLD = 10  # tests that a model is told of


class OldTestsResult(NamedTuple):
    """The result of the old tests on a tree of files."""

    reason: str  # why it does not pass, in words for a model; "" if it passes
    honest: bool  # there is a report, in which tests that must fail failed
    broken: bool = False  # the sandbox failed by itself


class OldTests:
    """The tests of a repository before the run, which judge changes; running them once shows which there are."""

    def __init__(self, backend: Backend, files: Files, command: tuple[str, ...], limits: Limits) -> None:
        self.backend, self.before, self.command, self.limits = backend, dict(files), command, limits
        self.named = named_files(command)
        self.chooser = Random(secrets.randbits(64))
        self.judging: set[str] = set()  # files from which tests were collected, or could not be
        self.folders: set[str] = set()
        self.guarded: dict[str, bytes] = {}  # test files whose assertions refuse values that are equal to everything
        self.expected: dict[str, int] = {}  # test functions with the number of their cases that were not skipped
        self.broken: set[str] = set()  # test files that could not be collected
        self.first = OldTestsResult("", False)
        self.problem = self.learn()  # why the tests cannot judge; "" if they can

    def learn(self) -> str:
        plain = self.run(self.before)
        if plain.problem:
            return f"pytest ends without a report on the repository as it is ({plain.problem})"
        functions = {test for test in plain.tests if is_function(test)}
        self.judging = {path_of(test) for test in functions} | set(plain.broken)
        if not self.judging:
            return "there were no tests before the run"
        if odd := sorted(path for path in self.judging if not NAMED_FOR_TESTS.search(path)):
            return f"tests cannot be told from the program: {odd[0]} has tests and is not named like a test file"
        if not self.judging <= self.before.keys():
            return "pytest names its tests by other paths than those of the repository: start it in its root"
        self.folders = {folder for path in self.judging for folder in test_folders(path)}
        self.expected = {test: number for test, number in cases_run(plain).items() if is_function(test)}
        self.broken = {path for path in plain.broken if path.endswith(".py")}
        if not self.expected and not self.broken:
            return "all tests were skipped before the run"
        return self.try_defences(plain)

    def try_defences(self, plain: PytestReport) -> str:
        """Returns why the defences do not work on the repository as it is; '' if they do.

        Files that the guard breaks go without it.
        """
        sources = {path: self.before[path] for path in self.judging - set(plain.broken)}
        self.guarded = {path: found for path, content in sources.items() if (found := with_guard(content)) is not None}
        self.first, report = self.judge(self.before)
        changed = set(self.guarded) if report.problem else set(report.broken) - set(plain.broken)
        changed |= {path_of(test) for test, found in plain.tests.items() if outcome(report, test) != found.outcome}
        if changed & self.guarded.keys():
            self.guarded = {path: content for path, content in self.guarded.items() if path not in changed}
            self.first, _ = self.judge(self.before)
        return "" if self.first.honest else f"its defences do not work on the repository as it is: {self.first.reason}"

    def result_of(self, files: Files) -> OldTestsResult:
        return self.first if files == self.before else self.judge(files)[0]

    def judge(self, files: Files) -> tuple[OldTestsResult, PytestReport]:
        place = self.chooser.choice(sorted({path_of(test) for test in self.expected} or self.broken))
        content, equal = self.guarded.get(place, self.before[place]), EQUAL if place in self.guarded else UNGUARDED
        content, names = with_canaries(content.rstrip() + b"\n", self.chooser, equal)
        canaries = [f"{place}::{name}" for name in names]
        report = self.run(files, {place: content}, canaries)
        if report.problem:
            broken = report.result.ended_by == "broken"
            return OldTestsResult(
                f"Pytest ended without a report of the tests ({report.problem}).", False, broken
            ), report
        if place not in report.broken and any(report.functions().get(name) != "failed" for name in canaries):
            told = "Tests that must fail did not: they were skipped, or assertions or reports of pytest were replaced."
            return OldTestsResult(told, False), report
        return OldTestsResult(self.failure_text(files, report, self.not_passed(report, canaries)), True), report

    def not_passed(self, report: PytestReport, canaries: Collection[str]) -> list[str]:
        """Returns the old tests that failed or are gone, and the test files of which nothing passes."""
        passed, failed = report.cases("passed"), report.cases("failed")
        found = {test for test, number in self.expected.items() if passed.get(test, 0) < number}
        found |= {test for test, number in failed.items() if number and path_of(test) in self.judging} - {*canaries}
        silent = self.broken - {path_of(test) for test, number in passed.items() if number}
        return sorted(found | silent | (set(report.broken) & self.judging))

    def failure_text(self, files: Files, report: PytestReport, tests: list[str]) -> str:
        if not tests:
            return ""
        errors = {function_of(test): f"{found.error} {found.message}" for test, found in report.tests.items()} | dict(
            report.broken
        )
        lines = [f"- {test}: {errors.get(test, '').strip() or 'not reported'}" for test in tests[:MOST_TOLD]]
        if len(tests) > MOST_TOLD:
            lines.append(f"- and {len(tests) - MOST_TOLD} more")
        if changed := self.changed(files):
            lines.append(f"What was changed in {', '.join(changed)} does not count.")
        return "\n".join(["These tests do not pass as they were before the run:", *lines])

    def changed(self, files: Files) -> list[str]:
        """Returns the paths of the judge's files that `files` lacks, adds or has changed since before the run."""
        return sorted(p for p in {*files, *self.before} if self.is_judge(p) and files.get(p) != self.before.get(p))

    def run(
        self, files: Files, instead: Mapping[str, bytes] | None = None, canaries: Collection[str] = ()
    ) -> PytestReport:
        tree = {**self.tree(files), **self.guarded, **(instead or {})}
        targets = canaries if any("::" in word for word in self.command) else ()  # else their file is collected
        argv = (*self.command, *OPTIONS, *targets)
        return run_recorded(self.backend, tree, argv, self.limits, kept=tuple(canaries))

    def tree(self, files: Files) -> dict[str, bytes]:
        """Returns the files to test: the agent's program, with the judge's files as they were before the run."""
        judge = {path: content for path, content in self.before.items() if self.is_judge(path)}
        above = {folder for path in judge for folder in folders_of(path)}
        taken = {
            path: content
            for path, content in files.items()
            if not self.is_judge(path) and path not in above and not judge.keys() & folders_of(path)
        }
        return taken | judge

    def is_judge(self, path: str) -> bool:
        """Returns True if a file of this path belongs to the judge: a test, or something that decides how tests run."""
        parts, name = PurePosixPath(path).parts, PurePosixPath(path).name
        return (
            path in self.judging
            or path in self.named
            or name in RESERVED
            or name in SETTINGS
            or TEST_FILE.fullmatch(name) is not None
            or not self.folders.isdisjoint(folders_of(path))
            or "__pycache__" in parts
            or name.endswith((".pyc", ".pth"))
            or any(part.endswith((".egg-info", ".dist-info")) for part in parts)
            or (path not in self.before and parts[0].removesuffix(".py") in LOADED_FIRST)
        )


def path_of(test: str) -> str:
    return test.partition("::")[0]


def folders_of(path: str) -> set[str]:
    return {str(folder) for folder in PurePosixPath(path).parents} - {"."}


def test_folders(path: str) -> set[str]:
    return {folder for folder in folders_of(path) if PurePosixPath(folder).name in TEST_FOLDERS}


def is_function(test: str) -> bool:
    """Returns True if the id of a test names a function or a method; False for doctests, whose names have dots."""
    return function_of(test).rpartition("::")[2].isidentifier()


def cases_run(report: PytestReport) -> dict[str, int]:
    passed, failed = report.cases("passed"), report.cases("failed")
    return {test: number for test in passed if (number := passed[test] + failed[test])}


def outcome(report: PytestReport, test: str) -> str:
    found = report.tests.get(test)
    return "" if found is None else found.outcome


def with_guard(content: bytes) -> bytes | None:
    try:
        return guarded(content)
    except (SyntaxError, ValueError, RecursionError):
        return None
