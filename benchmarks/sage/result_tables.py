"""Readers of the result files, and tables in Markdown."""

from __future__ import annotations

import json
from pathlib import Path

ROOT = Path(__file__).parents[2]
RESULTS, DOCS = ROOT / "benchmarks" / "sage" / "results", ROOT / "docs" / "sage"


def table(head: list[str], lines: list[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(line)} |" for line in [head, ["---"] * len(head), *lines])


def numbers(result: dict, *keys: str) -> list[str]:
    return [f"{result[key]:.3f}" if isinstance(result.get(key), float) else "-" for key in keys]


def read(name: str | Path) -> dict:
    """A result file by its name, or any by its path."""
    return json.loads((RESULTS / name).read_text())


def folder(name: str | Path) -> list[dict]:
    return [read(path) for path in sorted((RESULTS / name).glob("*.json"))]
