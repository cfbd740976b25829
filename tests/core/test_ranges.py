"""Every number of every config says what it may be."""

from __future__ import annotations

import dataclasses
from typing import Annotated, get_args, get_origin, get_type_hints

import pytest

from rl_training.algorithms.fqe import FQEConfig
from rl_training.config.sections import SECTIONS, MakeConfig, PhaseConfig
from rl_training.core import Schedule
from rl_training.core.ranges import Count, Positive, PositiveSchedule, Range, Real, ranges_in
from rl_training.core.registry import ALGORITHMS
from rl_training.experience.settings import STORES

SECTION_KINDS = [kind for kind in SECTIONS.values() if kind is not None]
KINDS = [*(entry.config for entry in ALGORITHMS.values()), FQEConfig, *STORES.values(), *SECTION_KINDS]
KINDS += [MakeConfig, PhaseConfig]


def unstated(hint: object) -> bool:
    """Whether it has a number of which no range is stated."""
    if get_origin(hint) is Annotated:
        return not any(ranges_in(hint)) and unstated(get_args(hint)[0])
    return hint in (int, float, Schedule) or any(unstated(part) for part in get_args(hint))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_number_of_a_config_has_a_range_or_says_that_it_has_none(kind: type) -> None:
    hints = get_type_hints(kind, include_extras=True)
    assert [field.name for field in dataclasses.fields(kind) if unstated(hints[field.name])] == []


def test_a_number_without_a_range_is_found() -> None:
    assert unstated(int)
    assert unstated(float | None)
    assert unstated(tuple[int, ...])
    assert not unstated(tuple[Count, ...] | None)
    assert not unstated(Real | None)
    assert not unstated(dict[str, object])


@pytest.mark.parametrize(
    ("limits", "number", "refusal"),
    [
        (Range(min=1), 1, None),
        (Range(min=1), 0, "must be at least 1"),
        (Range(max=0.9), 0.9, None),
        (Range(max=0.9), 1.0, "must be at most 0.9"),
        (Range(above=0), 1e-9, None),
        (Range(above=0), 0, "must be above 0"),
        (Range(), -1e9, None),
        (Range(), float("inf"), "must be finite"),
    ],
)
def test_a_number_outside_of_its_range_is_refused(limits: Range, number: float, refusal: str | None) -> None:
    assert limits.refusal(number) == refusal


def test_a_schedule_may_end_at_the_bound_that_it_starts_above() -> None:
    (limits,) = ranges_in(PositiveSchedule)
    assert limits.refusal(0.0) == "must be above 0"
    assert limits.after_the_start.refusal(0.0) is None
    assert limits.after_the_start.refusal(-0.1) == "must be at least 0"
    assert Range(min=0, max=1).after_the_start == Range(min=0, max=1)


def test_the_ranges_of_an_annotation_are_found_within_it() -> None:
    assert list(ranges_in(Positive | None)) == [Range(above=0)]
    assert list(ranges_in(tuple[Count, ...])) == [Range(min=1)]
    assert list(ranges_in(int)) == []
