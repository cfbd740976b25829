import json

import pytest
import torch

from rl_training.core import Schedule, Scheduled


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (3e-4, Schedule(3e-4, 3e-4)),
        (1, Schedule(1.0, 1.0)),
        ("2.5e-4", Schedule(2.5e-4, 2.5e-4)),
        ("lin_2.5e-4", Schedule(2.5e-4, 0.0)),
        ({"initial": 1, "final": 0.1}, Schedule(1.0, 0.1, 1.0)),
        ({"initial": 1.0, "final": 0.1, "fraction": 0.5}, Schedule(1.0, 0.1, 0.5)),
        (Schedule(2.0, 1.0, 0.3), Schedule(2.0, 1.0, 0.3)),
    ],
)
def test_parse_accepts(value: object, expected: Schedule) -> None:
    assert Schedule.parse(value) == expected


@pytest.mark.parametrize(
    "value", [True, None, [1, 2], "fast", "lin_", {"initial": 1}, {"initial": 1, "final": 0, "until": 0.5}]
)
def test_parse_refuses(value: object) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        Schedule.parse(value)


@pytest.mark.parametrize(
    ("progress", "expected"), [(0.0, 1.0), (0.1, 0.82), (0.25, 0.55), (0.5, 0.1), (0.75, 0.1), (1.0, 0.1)]
)
def test_goes_linearly_over_its_fraction_then_stays(progress: float, expected: float) -> None:
    assert Schedule(1.0, 0.1, 0.5).at(progress) == pytest.approx(expected)


def test_linear_ends_at_zero() -> None:
    assert Schedule.parse("lin_0.2").at(1.0) == 0


def test_a_fraction_of_zero_is_over_at_once() -> None:
    assert Schedule(1.0, 0.25, 0.0).at(0.0) == 0.25


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ((1.0, 0.0, -0.5), "Schedule.fraction=-0.5 must be at least 0"),
        ((1.0, 0.0, 2), "Schedule.fraction=2 must be at most 1"),
        ((float("nan"), 0.0), "Schedule.initial=nan must be finite"),
        ((1.0, "low"), "Schedule.final='low' must be a number"),
        ((True, 0.0), "Schedule.initial=True must be a number"),
    ],
)
def test_senseless_numbers_are_refused(given: tuple, reason: str) -> None:
    with pytest.raises(ValueError, match=f"^{reason}$"):
        Schedule(*given)


def half(progress: float) -> float:
    return 0.5 * (1 - progress)


@pytest.mark.parametrize(
    "schedule", [Schedule(0.2, 0.2), Schedule(0.2, 0.0), Schedule(1.0, 0.5, 0.25), Schedule.parse(half)]
)
def test_json_round_trip(schedule: Schedule) -> None:
    assert Schedule.parse(json.loads(json.dumps(schedule.to_json()))) == schedule


def test_scheduled_moves_one_tensor_in_place() -> None:
    scheduled = Scheduled(Schedule(1.0, 0.0))
    seen = scheduled()
    assert seen.item() == 1
    scheduled.set_progress(0.75)
    assert seen.item() == 0.25  # captured code holds this very tensor
    assert scheduled.state_dict()["value"].item() == 0.25


def test_scheduled_starts_at_progress_zero() -> None:
    assert Scheduled(Schedule(0.5, 0.0, 0.5))().item() == 0.5
    assert Scheduled(Schedule(0.5, 0.25))().dtype == torch.float32


def test_a_function_is_kept_by_its_import_path_and_asked_at_every_progress() -> None:
    schedule = Schedule.parse(half)
    assert schedule.to_json() == {"function": f"{__name__}:half"}
    scheduled = Scheduled(schedule)
    seen = scheduled()
    assert seen.item() == 0.5
    for progress in (0.25, 0.5, 1.0):
        scheduled.set_progress(progress)
        assert seen.item() == half(progress)  # captured code holds this very tensor


def test_a_function_that_is_only_named_is_imported_when_it_is_asked() -> None:
    schedule = Schedule.parse({"function": "no_such_package:half"})
    with pytest.raises(ValueError, match="schedule='no_such_package:half' cannot be imported"):
        schedule.at(0.0)


@pytest.mark.parametrize(
    ("progress", "expected"), [(0.0, 1.0), (0.125, 0.1 + 0.9 * (2 + 2**0.5) / 4), (0.25, 0.55), (0.5, 0.1), (1.0, 0.1)]
)
def test_a_cosine_is_slow_at_both_ends(progress: float, expected: float) -> None:
    assert Schedule(1.0, 0.1, 0.5, shape="cosine").at(progress) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("cos_3e-4", Schedule(3e-4, 0.0, shape="cosine")),
        ({"initial": 1, "final": 0.1, "shape": "cosine"}, Schedule(1.0, 0.1, shape="cosine")),
    ],
)
def test_a_cosine_is_parsed_and_written(value: object, expected: Schedule) -> None:
    assert Schedule.parse(value) == expected
    assert Schedule.parse(json.loads(json.dumps(expected.to_json()))) == expected


def test_an_unknown_shape_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^Schedule.shape='step' is not known: use 'linear' or 'cosine'$"):
        Schedule.parse({"initial": 1, "final": 0, "shape": "step"})
