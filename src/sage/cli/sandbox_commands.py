"""`sage doctor --sandboxes`: what this host can enforce."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sage.sandbox.diagnosis import Diagnosis


def add_sandbox_doctor(doctor: argparse.ArgumentParser) -> None:
    doctor.add_argument("--json", action="store_true", help="one JSON object")
    doctor.set_defaults(func=show_sandboxes)


def show_sandboxes(arguments: argparse.Namespace) -> int:
    """Attacks every sandbox and times it; 1 if none holds."""
    import json

    from sage.sandbox.diagnosis import diagnoses

    found = []
    for diagnosis in diagnoses():
        found.append(diagnosis)
        if not arguments.json:
            print("\n".join(diagnosis_lines(diagnosis)), flush=True)
    if arguments.json:
        print(json.dumps([diagnosis_facts(diagnosis) for diagnosis in found]))
    holds = any(diagnosis.holds for diagnosis in found)
    if not arguments.json and not holds:
        print("No sandbox holds on this host, so `sage sim` will not run tasks here.")
    return 0 if holds else 1


def diagnosis_lines(diagnosis: Diagnosis) -> Iterator[str]:
    if diagnosis.problem:
        yield f"{diagnosis.name:<12}cannot be used: {diagnosis.problem}"
        return
    held = len(diagnosis.findings) - len(diagnosis.escapes)
    times = f"start {diagnosis.start_ms:.1f} ms, pytest {diagnosis.pytest_ms:.0f} ms"
    yield f"{diagnosis.name:<12}held {held} of {len(diagnosis.findings)} attempts to escape; {times}"
    yield " " * 12 + ", ".join(f"{name} {held}/{number}" for name, (held, number) in diagnosis.groups().items())
    for finding in diagnosis.escapes:
        yield f"            ESCAPED {finding.attempt.group}: {finding.attempt.name}: {finding.escape or 'it broke the sandbox'}"


def diagnosis_facts(diagnosis: Diagnosis) -> dict:
    return {
        "backend": diagnosis.name,
        "holds": diagnosis.holds,
        "problem": diagnosis.problem,
        "attempts": len(diagnosis.findings),
        "escapes": [f"{finding.attempt.group}: {finding.attempt.name}" for finding in diagnosis.escapes],
        "start_ms": round(diagnosis.start_ms, 2),
        "pytest_ms": round(diagnosis.pytest_ms, 2),
    }
