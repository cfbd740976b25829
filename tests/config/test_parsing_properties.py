"""Any text is a config or one sentence, and a config comes back from its own YAML."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from rl_base.strict_yaml import parse_yaml
from rl_training import ConfigError, RunConfig
from rl_training.config.overrides import apply_override
from rl_training.config.presets import load_yaml
from tests.properties import examples

START = {"algorithm": {"name": "dqn"}, "env": {"id": "CartPole-v1"}}
WHOLE = RunConfig.from_mapping(START).to_mapping()
PATHS = [f"{section}.{name}" for section, values in WHOLE.items() if isinstance(values, dict) for name in values]
NUMBERS = st.integers() | st.floats() | st.sampled_from([0, 1, -1, 0.5, 1e-3, 2**63, 1e400])
VALUES = st.one_of(
    NUMBERS.map(str),
    st.booleans().map(str),
    st.sampled_from(
        ["", "null", "~", "lin_1e-3", "[64, 64]", "{initial: 1, final: 0}", "{a: 1, a: 2}", "[[[", "&a [*a]"]
    ),
    st.lists(NUMBERS, max_size=3).map(str),
    st.dictionaries(st.sampled_from(["initial", "final", "fraction", "pi", "policies", "x"]), NUMBERS, max_size=3).map(
        str
    ),
    st.text(max_size=12),
)
ASSIGNMENTS = st.builds("{}={}".format, st.sampled_from(PATHS), VALUES) | st.text(max_size=30)


def assert_comes_back(config: RunConfig) -> None:
    plain = config.to_mapping()
    text = yaml.safe_dump(plain, sort_keys=False)
    again = RunConfig.from_mapping(parse_yaml(text)).to_mapping()  # pyrefly: ignore
    assert yaml.safe_dump(again, sort_keys=False) == text


@examples(160)
@example(["algorithm.learning_rate=lin_1e-3"])
@given(assignments=st.lists(ASSIGNMENTS, min_size=1, max_size=2))
def test_settings_are_taken_or_refused_in_a_sentence(assignments: list[str]) -> None:
    values: dict = START
    try:
        for assignment in assignments:
            values = apply_override(values, assignment)
        config = RunConfig.from_mapping(values)
    except ConfigError:
        return
    assert_comes_back(config)


@examples(150)
@given(path=st.sampled_from(PATHS), number=st.integers(-(10**6), 10**6) | st.floats(-1e6, 1e6).filter(lambda x: x == x))
def test_a_number_that_is_taken_is_the_number_that_was_given(path: str, number: float) -> None:
    section, name = path.split(".")
    try:
        config = RunConfig.from_mapping(apply_override(START, f"{path}={number!r}"))
    except ConfigError:
        return
    plain = config.to_mapping()
    taken = next(plain[place][name] for place in (section, "experience", "algorithm") if name in plain.get(place, {}))
    if not isinstance(taken, dict | list):  # a schedule or layers that were given as one number
        assert taken == number or str(taken) == str(number) or taken is bool(number)


@settings(parent=examples(150), suppress_health_check=list(HealthCheck))
@given(content=st.binary(max_size=40) | st.text(max_size=60).map(str.encode))
def test_any_file_is_a_config_or_a_sentence(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "run.yaml"
    file.write_bytes(content)
    with pytest.raises(ConfigError):  # no such short text names an algorithm and an environment
        RunConfig.from_mapping(load_yaml(file))


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@examples(150)
@example({"\x85": None})
@given(values=PLAIN)
def test_yaml_gives_back_what_was_written(values: object) -> None:
    """As configs are written; with `allow_unicode` PyYAML itself writes a key of U+0085 as a space."""
    assert parse_yaml(yaml.safe_dump(values, sort_keys=False)) == values


def test_every_section_is_tried() -> None:
    assert {path.split(".")[0] for path in PATHS} >= {
        "algorithm",
        "experience",
        "env",
        "training",
        "evaluation",
        "checkpoint",
    }
    assert {section.name for section in fields(RunConfig)} >= {"env", "training", "evaluation", "checkpoint"}
