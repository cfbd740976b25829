"""Plain data to typed settings and back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

import pytest

from rl_training.algorithms import PPOConfig
from rl_training.config import ConfigError
from rl_training.config.parsing import check_range, nearest, parse_dataclass, parse_path, parse_value, to_plain
from rl_training.core import Schedule
from rl_training.core.ranges import Positive, PositiveSchedule, Range

NetArch = type(PPOConfig().net_arch)  # settings within settings


@dataclass(frozen=True, kw_only=True)
class Sample:
    count: Annotated[int, Range(min=1, max=100)]
    rate: Positive = 0.5
    name: str = "x"
    flag: bool = False
    maybe: float | None = None
    mode: Literal["auto"] | bool = "auto"
    kind: Literal["sync", "async"] = "sync"
    schedule: PositiveSchedule = Schedule(1.0, 1.0)
    net: NetArch = NetArch()
    extras: dict[str, object] = field(default_factory=dict)


@pytest.mark.parametrize(
    ("hint", "given", "parsed"),
    [
        (int, 5, 5),
        (int, "1e5", 100_000),
        (int, 2.0, 2),
        (int, 10**18 + 1, 10**18 + 1),
        (float, 1, 1.0),
        (float, "3e-4", 3e-4),
        (float, "1e5", 1e5),
        (str, "text", "text"),
        (bool, True, True),
        (float | None, None, None),
        (float | None, "0.5", 0.5),
        (Literal["auto"] | bool, False, False),
        (Literal["auto"] | bool, "auto", "auto"),
        (tuple[int, ...], [64, "32"], (64, 32)),
        (dict[str, object], {"a": 1}, {"a": 1}),
        (Schedule, 1e-3, Schedule(1e-3, 1e-3)),
        (Schedule, "2.5e-4", Schedule(2.5e-4, 2.5e-4)),
        (Schedule, "lin_2.5e-4", Schedule(2.5e-4, 0.0)),
        (Schedule, {"initial": 1, "final": 0.1, "fraction": 0.5}, Schedule(1.0, 0.1, 0.5)),
        (Schedule, {"initial": "1e-3", "final": 0}, Schedule(1e-3, 0.0, 1.0)),
        (Schedule | None, None, None),
        (NetArch, [8, 4], NetArch(pi=(8, 4), vf=(8, 4))),
        (NetArch, {"pi": [8], "shared": [16]}, NetArch(pi=(8,), vf=(64, 64), shared=(16,))),
    ],
)
def test_values_become_the_annotated_type(hint, given, parsed):
    result = parse_value(hint, given, "field")
    assert result == parsed
    assert type(result) is type(parsed)


@pytest.mark.parametrize(
    ("hint", "given", "message"),
    [
        (int, 2.5, "field=2.5 must be a whole number"),
        (int, True, "field=True must be a whole number"),
        (int, "many", "field='many' must be a whole number"),
        (int, "inf", "field='inf' must be a whole number"),
        (int, None, "field=None must be a whole number"),
        (float, "fast", "field='fast' must be a number"),
        (float, [1], "field=[1] must be a number"),
        (
            float | Literal["by_size"],
            "bysize",
            "field='bysize' is neither a number nor one of 'by_size': did you mean 'by_size'",
        ),
        (bool, 1, "field=1 must be true or false"),
        (bool, "yes", "field='yes' must be true or false"),
        (str, 3, "field=3 must be text"),
        (Literal["sync", "async"], "asinc", "field='asinc' is not one of 'sync', 'async': did you mean 'async'?"),
        (tuple[int, ...], 64, "field=64 must be a list, for example [64, 64]"),
        (tuple[int, ...], [64, "x"], "field[1]='x' must be a whole number"),
        (dict[str, object], 3, "field=3 must be a mapping"),
        (Schedule, True, "field=True: a schedule is a number, not True"),
        (Schedule, "lin_", "field='lin_'"),
        (Schedule, "exp_1", "field='exp_1'"),
        (Schedule, {"initial": 1}, "field={'initial': 1}: a schedule is a number, 'lin_<number>',"),
        (Schedule, {"function": 3}, "field={'function': 3}: a schedule is"),
    ],
)
def test_wrong_types_name_field_value_and_fix(hint, given, message):
    with pytest.raises(ConfigError) as caught:
        parse_value(hint, given, "field")
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"count": 0}, "s.count=0 must be at least 1"),
        ({"count": 101}, "s.count=101 must be at most 100"),
        ({"rate": 0}, "s.rate=0.0 must be above 0"),
        ({"rate": "nan"}, "s.rate=nan must be finite"),
        ({"maybe": float("inf")}, "s.maybe=inf must be finite"),
        ({"schedule": 0}, "s.schedule=0.0 must be above 0"),
        ({"schedule": {"initial": 1, "final": -1}}, "s.schedule.final=-1.0 must be at least 0"),
        ({"schedule": {"initial": 1, "final": 0, "fraction": 2}}, "s.schedule.fraction=2.0 must be at most 1"),
        ({"net": [64, 0]}, "s.net.pi[1]=0 must be at least 1"),
        ({"net": {"vf": [-1]}}, "s.net.vf[0]=-1 must be at least 1"),
        ({"net": {"pj": [1]}}, "s.net.pj is not a setting: did you mean 'pi'?"),
        ({"coutn": 1}, "s.coutn is not a setting: did you mean 'count'?"),
        ({"lr": 1}, "s.lr is not a setting: here it is called learning_rate"),
    ],
)
def test_ranges_and_names(changes, message):
    with pytest.raises(ConfigError) as caught:
        parse_dataclass(Sample, {"count": 1} | changes, "s")
    assert str(caught.value) == message


def test_missing_values_and_mappings():
    with pytest.raises(ConfigError, match=r"s\.count is missing: give it a value"):
        parse_dataclass(Sample, {}, "s")
    with pytest.raises(ConfigError, match=r"s=3 must be a mapping of settings"):
        parse_dataclass(Sample, 3, "s")


def test_schedules_may_end_at_zero_but_not_start_there():
    check_range(Schedule(1.0, 0.0), Range(above=0), "x")
    with pytest.raises(ConfigError, match=r"x=0\.0 must be above 0"):
        check_range(Schedule(0.0, 1.0), Range(above=0), "x")


def test_plain_data_is_the_inverse():
    sample = Sample(
        count=3,
        rate=0.1,
        maybe=2.0,
        mode=True,
        schedule=Schedule(1.0, 0.5, 0.25),
        net=NetArch(pi=(1,), vf=(2, 3)),
        extras={"a": [1, 2]},
    )
    plain = to_plain(sample)
    assert plain["schedule"] == {"initial": 1.0, "final": 0.5, "fraction": 0.25}
    assert plain["net"] == {"pi": [1], "vf": [2, 3], "shared": []}
    assert parse_dataclass(Sample, plain, "s") == sample


def test_nearest_prefers_other_libraries_names_then_spelling_then_the_list():
    assert nearest("num_envs", ["n_envs", "n_steps"]) == "here it is called n_envs"
    assert nearest("n_stesp", ["n_envs", "n_steps"]) == "did you mean 'n_steps'?"
    assert nearest("zzz", ["n_envs", "n_steps"]) == "choose from n_envs, n_steps"


@pytest.mark.parametrize("path", [None, 5, "", b"", ["a"], "a\0b", "n" * 300])
def test_what_is_no_path_is_refused(path):
    with pytest.raises(ConfigError, match=r"^path=.*: (give|choose)"):
        parse_path(path, "path")
