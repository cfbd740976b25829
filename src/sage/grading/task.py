"""A program that is broken in a known way, with the tests that grade a repair."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sage.sandbox import Limits

LIMITS = Limits()


@dataclass(frozen=True, kw_only=True)
class Task:
    """A program that is broken in a known way, with tests that the agent sees and tests that grade."""

    id: str
    family: str
    level: int
    split: str
    instruction: str
    files: Mapping[str, bytes]  # what an agent begins with
    editable: tuple[str, ...]  # folders and files that a repair may change
    test_roots: tuple[str, ...]
    tests: tuple[str, ...]
    visible: Mapping[str, int]  # test functions with the number of their cases
    hidden: Mapping[str, int]
    graded: Mapping[str, bytes]  # all that grading does not take from the agent: tests, and what they need
    oracle: Mapping[str, bytes]  # files of the repair
    seconds: float  # of processor time that the tests take on the repaired program
    limits: Limits = LIMITS

    @property
    def visible_tests(self) -> tuple[str, ...]:
        return tuple(path for path in self.tests if path in self.files)

    @property
    def command(self) -> tuple[str, ...]:
        """Returns the command that runs the tests which an agent may see."""
        return ("python", "-m", "pytest", "-q", *self.visible_tests)

    def repaired(self) -> dict[str, bytes]:
        return {**self.files, **self.oracle}


def is_editable(editable: Sequence[str], path: str, test_roots: Sequence[str]) -> bool:
    inside = any(path == root or path.startswith(f"{root}/") for root in editable)
    return inside and not any(path == root or path.startswith(f"{root}/") for root in test_roots)
