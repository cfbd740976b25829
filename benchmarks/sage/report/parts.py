"""A part of the report: what it is read from, its sentence in the abstract, and its text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from result_tables import RESULTS, ROOT, read

Writer = Callable[[Path], str]
DATA = "--data DATA"


@dataclass(frozen=True)
class Source:
    """A result file or a folder of them, and the command that writes it."""

    name: str
    command: str
    folder: Path | None = None  # if it is not with the others

    @property
    def link(self) -> str:
        place = (self.folder or RESULTS).relative_to(ROOT) / self.name
        return f"[{self.name}](../../{place.as_posix()})"


@dataclass(frozen=True)
class Part:
    title: str
    sources: tuple[Source, ...]
    write: Writer
    headline: Writer | None = None

    def missing(self, results: Path) -> list[Source]:
        return [source for source in self.sources if not ((source.folder or results) / source.name).exists()]

    def text(self, results: Path) -> str:
        missing = self.missing(results)
        if not missing:
            return self.write(results)
        told = "; ".join(f"`{source.name}`, which `{source.command}` writes" for source in missing)
        return f"This part has no result yet. It needs {told}."


def measured(name: str, more: str = DATA) -> Source:
    """Of the program with the name of its result."""
    return Source(name, " ".join(filter(None, (f"benchmarks/sage/{name.removesuffix('.json')}.py", more))))


def percent(share: float, digits: int = 1) -> str:
    return f"{100 * share:.{digits}f} %"


def spread(values: list[float], digits: int = 3) -> str:
    """The least and the most of several numbers, as they are read in a sentence."""
    low, high = f"{min(values):.{digits}f}", f"{max(values):.{digits}f}"
    return low if low == high else f"{low} to {high}"


def gate_rows(results: Path, setting: str = "random") -> list[dict]:
    return [row for row in read(results / "gate.json")["results"] if "draws" in row and row["setting"] == setting]


def prose(text: str) -> str:
    """A paragraph on one line."""
    return " ".join(text.split())


def paragraphs(*texts: str) -> str:
    return "\n\n".join(texts)
