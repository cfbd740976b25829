"""Examination of this host's sandboxes: every backend is started, attacked and timed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from sage.sandbox.choose import BACKENDS
from sage.sandbox.contract import Backend, Command, Limits, SandboxError
from sage.sandbox.escape_check import EscapeFinding, attempts

STARTS = 20  # timed
PYTEST = ("python", "-m", "pytest", "-q", "-p", "no:cacheprovider")
SAMPLE = {"test_sample.py": b"def test_one():\n    assert 1\n\n\ndef test_two():\n    assert 2\n"}


@dataclass
class Diagnosis:
    """Findings on one backend; `problem` says why it cannot be used at all."""

    name: str
    problem: str = ""  # why it cannot be used at all
    findings: list[EscapeFinding] = field(default_factory=list)
    start_ms: float = 0.0  # median
    pytest_ms: float = 0.0

    @property
    def escapes(self) -> list[EscapeFinding]:
        return [finding for finding in self.findings if finding.escape or finding.result.ended_by == "broken"]

    @property
    def holds(self) -> bool:
        return not self.problem and bool(self.findings) and not self.escapes

    def groups(self) -> dict[str, tuple[int, int]]:
        """Returns (attempts that were contained, all attempts) by group of attempts to escape."""
        names = dict.fromkeys(finding.attempt.group for finding in self.findings)
        escaped = [finding.attempt for finding in self.escapes]
        all_of = {name: [f.attempt for f in self.findings if f.attempt.group == name] for name in names}
        return {name: (sum(a not in escaped for a in found), len(found)) for name, found in all_of.items()}


def diagnoses() -> Iterator[Diagnosis]:
    """Yields the diagnosis of each backend as soon as it is done."""
    for name, build in BACKENDS.items():
        try:
            backend = build()
        except SandboxError as error:
            yield Diagnosis(name, problem=str(error))
            continue
        try:
            yield diagnosis(backend)
        except SandboxError as error:
            yield Diagnosis(name, problem=str(error))
        finally:
            backend.close()


def diagnosis(backend: Backend) -> Diagnosis:
    found = Diagnosis(backend.name, findings=list(attempts(backend)))
    found.start_ms = median_ms(backend, ("true",))
    found.pytest_ms = median_ms(backend, PYTEST)
    return found


def median_ms(backend: Backend, argv: tuple[str, ...]) -> float:
    times = []
    for _ in range(STARTS):
        start = time.perf_counter()
        backend.run(SAMPLE, Command(argv=argv), Limits())
        times.append(1000 * (time.perf_counter() - start))
    return sorted(times)[STARTS // 2]
