"""`sage sim ...`: sandboxes, and the tasks that run in them."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sage.sim.doctor import Diagnosis


def add_commands(actions: argparse._SubParsersAction) -> None:
    doctor = actions.add_parser("doctor", help="what this host can enforce: attack every sandbox, and time it")
    doctor.add_argument("--json", action="store_true", help="for programs")
    doctor.set_defaults(func=show_doctor)
    image = actions.add_parser("image", help="build the image of all sandboxes from this machine's Python, or find it")
    image.add_argument("--json", action="store_true", help="for programs")
    image.set_defaults(func=show_image)


def show_doctor(arguments: argparse.Namespace) -> int:
    import json

    from sage.sim.doctor import diagnoses

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


def show_image(arguments: argparse.Namespace) -> int:
    import json

    from sage.sandbox import image

    found = image.ensure()
    if arguments.json:
        facts = {"sha256": found.sha256, "tar": str(found.tar), "root": str(found.root)}
        print(json.dumps(facts | {"python": found.python, "packages": found.packages}))
        return 0
    packages = ", ".join(f"{name} {version}" for name, version in found.packages.items())
    print(f"image   {found.sha256}\nPython  {found.python} with {packages}")
    print(f"tar     {found.tar} ({found.tar.stat().st_size / 2**20:.0f} MB)\nroot    {found.root}")
    return 0
