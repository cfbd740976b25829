"""Tools that run in a sandbox and answer with text: tests, and a ranking of lines. They leave the files as they are."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from sage.grading.grading import limits_of, may_change, missing
from sage.grading.task import Task
from sage.grading.test_files import name_of_test
from sage.grading.test_reports import PytestReport, run_tests
from sage.sandbox import Backend, Files
from sage.sim.environment.suspects import looks_of
from sage.sim.environment.trials import Spectrum, UntracedError, spectrum
from sage.workspace.workspace import ToolError, shortened

MOST_SUSPECTS = 16
SHOWN = ("--tb=short", "--assert=rewrite", "--disable-warnings")  # of pytest, for whoever reads
SECONDS = re.compile(r" in \d+\.\d+s\b")  # differ from run to run


def selected(task: Task, names: Sequence[str]) -> list[str]:
    """Returns the visible tests that the names (ids, functions or files) mean, all of them if there are no names;
    raises ToolError if a name fits none."""
    chosen: list[str] = []
    for name in names:
        wanted = name.split("[", 1)[0]
        found = [test for test in task.visible if wanted in (test, test.split("::")[0], name_of_test(test))]
        if not found:
            raise ToolError(
                f"no visible test is called {name[:200]!r}: use names such as {', '.join(list(task.visible)[:3])}"
            )
        chosen += found
    return list(dict.fromkeys(chosen or task.visible))


def run_chosen_tests(backend: Backend, task: Task, files: Files, chosen: Sequence[str]) -> str:
    """Runs the chosen tests on the files and returns a text: which of them failed, and pytest's output."""
    targets = [path for path in task.visible_tests if any(test.startswith(f"{path}::") for test in chosen)]
    report = run_tests(backend, files, targets, limits_of(task), only=chosen, options=SHOWN)
    text = SECONDS.sub("", report.result.out.decode(errors="replace")).strip()
    return shortened(f"{summary(task, report, chosen)}\n\n{text}")


def summary(task: Task, report: PytestReport, chosen: Sequence[str]) -> str:
    if report.problem:
        limits = limits_of(task)
        allowed = f"at most {limits.cpu_s} s of processor time and {limits.memory_mb} MB"
        return f"The tests did not come to an end ({report.problem}; they may use {allowed})."
    failed = missing(report, {test: task.visible[test] for test in chosen})
    if not failed:
        return f"All {len(chosen)} tests passed." if len(chosen) > 1 else "The test passed."
    return f"{len(failed)} of {len(chosen)} tests failed: {', '.join(sorted(failed))}"


def suspicious_lines(backend: Backend, task: Task, files: Files) -> str:
    """Returns the lines that failing tests run, the most suspicious first, as text; raises ToolError if the tests
    cannot be traced."""
    now = replace(task, files=files)
    try:
        found = spectrum(backend, now)
    except UntracedError:
        raise ToolError("the tests could not be traced, since they crash or do not end: look at run_tests") from None
    failed = [test for test in task.visible if test not in found.passed]
    if not failed:
        return "All visible tests pass: there is nothing to localise."
    ranked = ranking(now, found, failed)
    if not ranked:
        return "Failing tests run no line that you may change: perhaps a module cannot be imported. Look at run_tests."
    lines = [suspect_line(files, place, looks, len(failed)) for place, looks in ranked[:MOST_SUSPECTS]]
    return shortened(
        "\n".join([f"{len(failed)} of {len(task.visible)} tests fail. Suspicious lines, the most first:", *lines])
    )


def ranking(task: Task, found: Spectrum, failed: Sequence[str]) -> list[tuple[tuple[str, int], tuple[float, ...]]]:
    """Returns ((path, line), looks) of the lines that failing tests run, ranked as statements are ranked for
    policies."""
    ran = {place for test in failed for place in found.lines.get(test, ()) if may_change(task, place[0])}
    looks = {place: looks_of(place, found, failed, list(task.visible)) for place in ran}
    return sorted(looks.items(), key=lambda one: (*(-look for look in one[1]), one[0]))


def suspect_line(files: Files, place: tuple[str, int], looks: Sequence[float], num_failed: int) -> str:
    path, line = place
    ochiai, _, in_traces, *_ = looks
    lines = files.get(path, b"").decode(errors="replace").split("\n")
    text = lines[line - 1].strip() if 0 < line <= len(lines) else ""
    traces = f", in {round(in_traces * num_failed)} of {num_failed} tracebacks" if in_traces else ""
    return f"{path}:{line}: {text}    (suspicion {ochiai:.2f}{traces})"
