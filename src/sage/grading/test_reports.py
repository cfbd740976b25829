"""Runs of tests in a sandbox, and their signed reports."""

from __future__ import annotations

import hmac
import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files as package_files

from sage.sandbox import Backend, Command, Files, Limits, Result

PLUGIN = package_files("sage.grading").joinpath("report_plugin.py").read_text(encoding="utf-8")
CONFIGURATION = b"[pytest]\naddopts =\n"
OPTIONS = (
    "-q",
    "--continue-on-collection-errors",
    "--no-header",
    "--tb=no",
    "--assert=plain",
    "-p",
    "no:cacheprovider",
    "-p",
    "no:randomly",
    "-p",
    "no:xdist",
    "-p",
    "no:timeout",
)


@dataclass(frozen=True, kw_only=True)
class CaseOutcome:
    """The outcome of one test: `passed`, `failed` or `skipped`, with a failed one's error and the functions called."""

    outcome: str
    seconds: float = 0.0
    error: str = ""
    message: str = ""
    frames: tuple[tuple[str, int, str], ...] = ()  # file, line, function
    calls: tuple[tuple[str, str], ...] = ()  # file, function


@dataclass(frozen=True, kw_only=True)
class PytestReport:
    """The outcomes of a run of tests; without a valid report, `tests` is empty and `problem` says why."""

    tests: Mapping[str, CaseOutcome] = field(default_factory=dict)
    broken: Mapping[str, str] = field(default_factory=dict)  # files that could not be collected
    problem: str = ""
    result: Result

    def functions(self) -> dict[str, str]:
        """Returns for each test function 'failed' if one of its cases failed, else the outcome of its last case."""
        worst: dict[str, str] = {}
        for test, outcome in self.tests.items():
            name = function_of(test)
            worst[name] = "failed" if "failed" in (worst.get(name), outcome.outcome) else outcome.outcome
        return worst

    def cases(self, outcome: str = "passed") -> dict[str, int]:
        """Returns for each test function the number of its cases that had this outcome."""
        counts: dict[str, int] = {}
        for test, found in self.tests.items():
            counts[function_of(test)] = counts.get(function_of(test), 0) + (found.outcome == outcome)
        return counts


def function_of(test: str) -> str:
    """Returns the id of a test without the parameters of its case."""
    return test.split("[", 1)[0]


def run_tests(
    backend: Backend,
    files: Files,
    targets: Sequence[str],
    limits: Limits,
    *,
    shuffle: int | None = None,
    profile: bool = False,
    hash_seed: int | None = None,
    only: Sequence[str] | None = None,
    options: Sequence[str] = (),
) -> PytestReport:
    """Runs test files once in the sandbox, all their tests or the functions `only`, and returns the report.

    A `hash_seed` starts a new interpreter; `shuffle` is a seed for the order; `options` for pytest come after our own.
    """
    argv = ("python", "-m", "pytest", *OPTIONS, *options, "-c", "pytest.ini", *targets)
    if hash_seed is not None:
        argv = ("sh", "-c", f'PYTHONHASHSEED={hash_seed} exec "$@"', "sh", *argv)
    tree = {**files, "pytest.ini": CONFIGURATION}
    return run_recorded(backend, tree, argv, limits, shuffle=shuffle, profile=profile, only=only)


def run_recorded(
    backend: Backend,
    files: Files,
    argv: Sequence[str],
    limits: Limits,
    *,
    shuffle: int | None = None,
    profile: bool = False,
    only: Sequence[str] | None = None,
    kept: Sequence[str] = (),
) -> PytestReport:
    """Runs a command that ends with arguments for pytest, adds our plugin to it, and returns the report.

    Test functions of `kept` run even if options such as -k leave them out; `only` leaves out all others (None: no
    others).
    """
    key, name = secrets.token_bytes(32), f"sage_{secrets.token_hex(8)}"
    report = f".{name}.json"
    chosen = None if only is None else list(only)
    settings = {"key": key.hex(), "report": report, "shuffle": shuffle, "profile": profile, "only": chosen}
    plugin = PLUGIN.replace("SETTINGS: dict = {}", f"SETTINGS: dict = {settings | {'kept': list(kept)}!r}", 1)
    command = Command(argv=(*argv, "-p", name))
    return read_report(backend.run({**files, f"{name}.py": plugin.encode()}, command, limits), report, key)


def read_report(result: Result, path: str, key: bytes) -> PytestReport:
    if result.ended_by != "exit":
        return PytestReport(problem=f"ended by {result.ended_by}", result=result)
    signature, _, body = (result.changed.get(path) or b"").partition(b"\n")
    if not body:
        return PytestReport(problem="no report", result=result)
    if not hmac.compare_digest(signature, hmac.digest(key, body, "sha256").hex().encode()):
        return PytestReport(problem="the report is not signed", result=result)
    try:
        values = json.loads(body)
        tests = {name: outcome_of(test) for name, test in values["tests"].items() if "outcome" in test}
        return PytestReport(tests=tests, broken=dict(values["broken"]), result=result)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):  # by a program that found the key
        return PytestReport(problem="the report cannot be read", result=result)


def outcome_of(test: dict) -> CaseOutcome:
    error, message, frames = test.get("error", ("", "", ()))
    return CaseOutcome(
        outcome=test["outcome"],
        seconds=test.get("seconds", 0.0),
        error=error,
        message=message,
        frames=tuple((path, line, name) for path, line, name in frames),
        calls=tuple((path, name) for path, name in test.get("calls", ())),
    )
