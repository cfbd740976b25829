"""Faults of a dataset, as the linter reports them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

SHOWN = 10  # rows that a finding names
FEW = 3  # episodes below which what they have in common says nothing


@dataclass(frozen=True)
class Finding:
    """A fault that the linter found: its name and severity, the rows that have it, its meaning and advice."""

    fault: str
    severity: Literal["error", "warning"]
    rows: tuple[int, ...]  # the first of them
    count: int  # how many there are
    meaning: str
    advice: str

    def __str__(self) -> str:
        more = ", ..." if self.count > len(self.rows) else ""
        where = f" (rows {', '.join(map(str, self.rows))}{more})" if self.rows else ""
        return f"{self.severity}: {self.fault}: {self.meaning}{where}; {self.advice}"


def finding(
    fault: str, severity: Literal["error", "warning"], rows: np.ndarray, meaning: str, advice: str
) -> Iterator[Finding]:
    """Yields one `Finding` about the given rows, of which it names the first 10; yields nothing if there are none."""
    if len(rows):
        yield Finding(fault, severity, tuple(int(row) for row in rows[:SHOWN]), len(rows), meaning, advice)
