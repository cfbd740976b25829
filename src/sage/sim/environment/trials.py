"""Runs of tests on variants of a task's program, many in one sandbox, and the lines that each test runs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files as package_files

from sage.grading.task import Task
from sage.sandbox import Backend, Command, SandboxError
from sage.sim.tasks.mutations import Edit

PROGRAM = package_files("sage.sim.environment").joinpath("trial_program.py").read_bytes()
Variant = Mapping[str, Sequence[Edit]]  # by file
MOST_AT_ONCE = 64
TRACING = 5.0  # times as long, at most
WAITING = 10.0  # seconds more than its processor time that a variant may take, since some tests sleep


class UntracedError(SandboxError):
    """Tests that cannot be traced, by their own fault."""


@dataclass(frozen=True)
class VariantOutcome:
    """Result of one variant: the test functions that passed, or, in `ended`, why nothing is known (a crash, a
    time-out)."""

    passed: frozenset[str]
    ended: str = ""


@dataclass(frozen=True)
class Spectrum:
    """Results of a traced run of tests: those that passed, the lines of each, and the error and the stack of each
    failed one."""

    passed: frozenset[str]
    lines: Mapping[str, frozenset[tuple[str, int]]]
    errors: Mapping[str, str] = field(default_factory=dict)
    frames: Mapping[str, tuple[tuple[str, int], ...]] = field(default_factory=dict)


def run_variants(
    backend: Backend, task: Task, variants: Sequence[Variant], tests: Sequence[str]
) -> list[VariantOutcome]:
    """Returns the result of every variant on some visible tests."""
    told: list[VariantOutcome] = []
    for start in range(0, len(variants), MOST_AT_ONCE):
        found = run(backend, task, variants[start : start + MOST_AT_ONCE], tests, editable=())
        told += [VariantOutcome(passed_of(task, one), one.get("ended", "")) for one in found]
    return told


def spectrum(backend: Backend, task: Task) -> Spectrum:
    """Runs the visible tests on the task's program with a tracer; raises UntracedError if they cannot be traced."""
    (one,) = run(backend, task, [{}], list(task.visible), editable=task.editable)
    if "ended" in one:
        raise UntracedError(f"the tests of {task.id} could not be traced ({one['ended']})")
    try:
        return spectrum_of(task, one)
    except (ValueError, LookupError, TypeError, AttributeError) as error:  # the program may have written the file
        raise UntracedError(
            f"the tests of {task.id} could not be traced (what they told is of another form)"
        ) from error


def spectrum_of(task: Task, one: Mapping) -> Spectrum:
    return Spectrum(
        passed_of(task, one),
        {name: frozenset((path, line) for path, line in lines) for name, lines in one["lines"].items()},
        {name: error for name, (error, _) in one["errors"].items()},
        {name: tuple((path, line) for path, line in frames) for name, (_, frames) in one["errors"].items()},
    )


def run(
    backend: Backend, task: Task, variants: Sequence[Variant], tests: Sequence[str], editable: Sequence[str]
) -> list[dict]:
    cpu_s = (1.0 + 3 * task.seconds) * (TRACING if editable else 1)
    wall_s = WAITING + 3 * cpu_s
    plan = {
        "tests": list(tests),
        "editable": list(editable),
        "cpu_s": cpu_s,
        "wall_s": wall_s,
        "variants": [
            {path: [(edit.start, edit.end, edit.replacement) for edit in edits] for path, edits in variant.items()}
            for variant in variants
        ],
    }
    own = {
        "trial_program.py": PROGRAM,
        "trials.json": json.dumps(plan).encode(),
        "pytest.ini": b"[pytest]\naddopts =\n",
    }
    limits = replace(task.limits, wall_s=2 + wall_s * len(variants), cpu_s=int(3 + cpu_s * len(variants)), disk_mb=128)
    result = backend.run({**task.files, **own}, Command(argv=("python", "trial_program.py")), limits)
    content = result.changed.get("told.json")
    if content is None:
        return [{"ended": result.ended_by}] * len(variants)
    try:
        told = json.loads(content)
    except (ValueError, RecursionError):
        told = None
    if not isinstance(told, list) or len(told) != len(variants) or not all(isinstance(one, dict) for one in told):
        return [{"ended": "forged"}] * len(variants)
    return told


def passed_of(task: Task, one: Mapping) -> frozenset[str]:
    """Returns the visible test functions that passed with all their cases."""
    cases = one.get("passed", {})
    return frozenset(name for name, count in task.visible.items() if cases.get(name, 0) >= count)
