"""Experiments on sage, which a checkout of the repository has and the package does not."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import sage

FOLDER = Path(str(sage.__file__)).parents[2] / "benchmarks" / "sage"
PROGRAMS = {"ablations": "ablations.py", "live": "live.py"}  # by the kind of their results


def program_of(kind: str) -> Path:
    """Returns the program that makes results of this kind and verifies their run packs.

    Raises ValueError if this is no checkout of the repository.
    """
    path = FOLDER / PROGRAMS[kind]
    if not path.is_file():
        raise ValueError(
            f"{kind}: these results are made by benchmarks/sage/{path.name}, which only a checkout of the repository has: "
            "install sage from one with `make setup`"
        )
    return path


def run_program(kind: str, words: Sequence[str]) -> int:
    """Runs the program of a kind of results with these arguments, and returns its exit code."""
    return subprocess.run([sys.executable, str(program_of(kind)), *words], check=False).returncode
