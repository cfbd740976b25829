"""Annotated types for settings that state the range of a number; configs are checked against them when read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, get_args

from rl_training.core.schedule import Range, Schedule

__all__ = [
    "Count",
    "Natural",
    "NonNegative",
    "Positive",
    "PositiveSchedule",
    "PositiveShare",
    "Real",
    "RealSchedule",
    "Several",
    "Share",
    "ShareSchedule",
]  # for authors of algorithms

Count = Annotated[int, Range(min=1)]
Natural = Annotated[int, Range(min=0)]
Several = Annotated[int, Range(min=2)]
Positive = Annotated[float, Range(above=0)]
NonNegative = Annotated[float, Range(min=0)]
Share = Annotated[float, Range(min=0, max=1)]
PositiveShare = Annotated[float, Range(above=0, max=1)]
Real = Annotated[float, Range()]  # any: it has no range
PositiveSchedule = Annotated[Schedule, Range(above=0)]
ShareSchedule = Annotated[Schedule, Range(min=0, max=1)]
RealSchedule = Annotated[Schedule, Range()]


def ranges_in(hint: object) -> Iterator[Range]:
    """Yields all `Range` objects in a type annotation, including those of nested types."""
    for part in get_args(hint):
        if isinstance(part, Range):
            yield part
        yield from ranges_in(part)
