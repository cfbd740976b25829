"""Suites of modules: the tests that belong to a module, those of them that can be trusted, and the functions that they
call."""

from __future__ import annotations

import ast
import hashlib
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from sage.grading.source_text import SourceError
from sage.grading.test_files import guarded, is_hidden, is_test_function, name_of_test, without_hidden
from sage.grading.test_reports import PytestReport, function_of, run_tests
from sage.sandbox import Backend, Limits, Result
from sage.sim.tasks.sources import Source

MOST_TEST_FILES = 3
MOST_CASES = 200  # that grade a task
PROFILE_LIMITS = Limits(wall_s=20.0, cpu_s=15, memory_mb=1024, disk_mb=128)
NOTHING = Result(code=0, ended_by="exit")
LONGEST_S = 0.8  # of the tests of a module, or it is not used
FLAKY = re.compile(
    r"\b(time\.(time|sleep|monotonic|perf_counter)|datetime\.(now|today)|date\.today|utcnow|localtime|urandom|uuid[14]|getpid"
    r"|thread(s|ing)?|Thread|multiprocessing|subprocess|socket|asyncio|signal|tempfile|tmp_path|tmpdir|mkdtemp|random\."
    r"|secrets|gc\.|weakref|getrefcount|sys\.maxsize|memory|benchmark|perf_counter|given\()"
)


@dataclass(frozen=True, kw_only=True)
class Suite:
    """The tests of one module: files, and the trusted test functions with the number of their cases."""

    source: str
    source_sha256: str
    module: str
    tests: tuple[str, ...]
    visible: Mapping[str, int]
    hidden: Mapping[str, int]
    seconds: float  # of processor time
    callers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # function of the module: tests that call it

    @property
    def name(self) -> str:
        return f"{self.source}/{self.module}"

    def is_watched(self, function: str) -> bool:
        """Returns whether a visible and a hidden test call a function; a bug in any other function makes no task."""
        callers = set(self.callers.get(function, ()))
        return bool(callers & self.visible.keys() and callers & self.hidden.keys())

    def as_row(self) -> dict:
        return {
            "suite": self.name,
            "source": self.source,
            "source_sha256": self.source_sha256,
            "module": self.module,
            "tests": list(self.tests),
            "visible": dict(self.visible),
            "hidden": dict(self.hidden),
            "seconds": self.seconds,
        }

    @classmethod
    def of_row(cls, row: Mapping) -> Suite:
        return cls(
            source=row["source"],
            source_sha256=row["source_sha256"],
            module=row["module"],
            tests=tuple(row["tests"]),
            visible=row["visible"],
            hidden=row["hidden"],
            seconds=row["seconds"],
        )


class Prepared:
    """A source with both forms of its tests, made once: those that grade a repair, and those that an agent may see."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.graded: dict[str, bytes] = {}
        self.visible: dict[str, bytes] = {}
        for path in source.tests:
            try:
                self.graded[path] = guarded(source.files[path])
                seen = without_hidden(source.files[path], source.name, path, source.hidden_share)
            except (SourceError, SyntaxError, UnicodeDecodeError):
                continue  # a test file of another Python
            if seen is not None:
                self.visible[path] = seen
        self.others = {path: content for path, content in source.files.items() if path not in source.tests}
        self.sha256 = source.sha256
        self.flaky = flaky_tests(source)

    def graded_tree(self, tests: tuple[str, ...]) -> dict[str, bytes]:
        """Returns the unbroken source with the tests that grade it."""
        return self.others | {path: self.graded[path] for path in tests}

    def agent_tree(self, tests: tuple[str, ...]) -> dict[str, bytes]:
        """Returns the unbroken source with the tests that an agent may see."""
        return self.others | {path: self.visible[path] for path in tests if path in self.visible}


def flaky_tests(source: Source) -> frozenset[str]:
    """Returns the names of tests whose text shows that they depend on more than the code, such as time or threads."""
    found = set()
    for path in source.tests:
        try:
            text = source.files[path].decode()
            tree = ast.parse(text)
            lines = text.split("\n")
        except (SyntaxError, UnicodeDecodeError):
            continue
        for node in ast.walk(tree):
            if is_test_function(node) and FLAKY.search("\n".join(lines[node.lineno - 1 : node.end_lineno])):
                found.add(node.name)
    return frozenset(found)


def find_suites(backend: Backend, prepared: Prepared) -> list[Suite]:
    """Returns the suites of all modules that at least four passing tests call, by a profiled run; their bases are not
    checked yet."""
    report = profiled(backend, prepared)
    passed = {test: outcome for test, outcome in report.tests.items() if outcome.outcome == "passed"}
    sizes = Counter(test.split("::", 1)[0] for test in report.tests)
    suites = []
    for module in prepared.source.modules:
        callers: dict[str, set[str]] = {}
        counts: dict[str, int] = {}
        for test, outcome in passed.items():
            called = {name.replace(".<locals>", "") for path, name in outcome.calls if path == module}
            for name in called:
                callers.setdefault(name, set()).add(function_of(test))
            if called or prepared.source.faults:
                path = test.split("::", 1)[0]
                counts[path] = counts.get(path, 0) + 1
        if sum(counts.values()) < 4:
            continue
        files = chosen_files(counts, sizes)
        visible, hidden = trusted(prepared, [report], files)
        suites.append(
            Suite(
                source=prepared.source.name,
                source_sha256=prepared.sha256,
                module=module,
                tests=files,
                seconds=sum(outcome.seconds for test, outcome in passed.items() if test.split("::", 1)[0] in files),
                callers={name: tuple(sorted(tests)) for name, tests in sorted(callers.items())},
                visible=visible,
                hidden=hidden,
            )
        )
    return suites


def chosen_files(counts: Mapping[str, int], sizes: Mapping[str, int]) -> tuple[str, ...]:
    """Returns the test file with the most tests that call a module, and further ones as long as they have at most
    MOST_CASES cases together."""
    ranked = sorted(counts, key=lambda path: (-counts[path], path))
    files = ranked[:1]
    for path in ranked[1:MOST_TEST_FILES]:
        if sum(sizes[other] for other in files) + sizes[path] <= MOST_CASES:
            files.append(path)
    return tuple(sorted(files))


def profiled(backend: Backend, prepared: Prepared) -> PytestReport:
    """Runs all tests of a source, one file at a time, so that a file that hangs costs only itself; returns one report
    of them all."""
    reports = [
        run_tests(backend, prepared.graded_tree((path,)), (path,), PROFILE_LIMITS, profile=True)
        for path in prepared.graded
    ]
    tests = {test: outcome for report in reports for test, outcome in report.tests.items()}
    return replace(reports[0], tests=tests) if reports else PytestReport(result=NOTHING)


def trusted(
    prepared: Prepared, reports: list[PytestReport], files: tuple[str, ...]
) -> tuple[dict[str, int], dict[str, int]]:
    """Returns the visible and the hidden test functions whose cases all passed in every run, with their numbers of
    cases, at most MOST_CASES in all."""
    visible: dict[str, int] = {}
    hidden: dict[str, int] = {}
    cases = [report.cases() for report in reports]
    worst = [report.functions() for report in reports]
    total = 0
    for test in sorted(cases[0], key=lambda test: hashlib.sha256(test.encode()).digest()):
        count = cases[0][test]
        path, name = test.split("::", 1)[0], name_of_test(test)
        same = all(run.get(test) == count for run in cases) and all(run.get(test) == "passed" for run in worst)
        if path in files and same and name not in prepared.flaky and total + count <= MOST_CASES:
            total += count
            unseen = path not in prepared.visible or is_hidden(
                prepared.source.name, path, name, prepared.source.hidden_share
            )
            (hidden if unseen else visible)[test] = count
    return visible, hidden
