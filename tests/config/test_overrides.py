"""Overrides as `--set` takes them: one setting changes, whatever its name and place, and mistakes are sentences."""

from __future__ import annotations

import pytest

from rl_training import ConfigError, RunConfig
from rl_training.config.overrides import apply_override

DQN_MINIMAL = {"algorithm": {"name": "dqn"}, "env": {"id": "CartPole-v1"}}


def test_overrides_are_yaml_and_leave_the_original_alone() -> None:
    values = {"algorithm": {"name": "ppo", "learning_rate": 1e-3}, "env": {"id": "CartPole-v1"}}
    changed = apply_override(values, "algorithm.learning_rate=1e-4")
    changed = apply_override(changed, "algorithm.net_arch=[8, 8]")
    changed = apply_override(changed, "env.kwargs.sutton_barto_reward=true")
    changed = apply_override(changed, "training.total_timesteps=1e5")
    config = RunConfig.from_mapping(changed)
    assert config.algorithm.learning_rate.initial == 1e-4
    assert config.algorithm.net_arch.pi == (8, 8)
    assert config.env.kwargs == {"sutton_barto_reward": True}
    assert config.training.total_timesteps == 100_000
    assert values == {"algorithm": {"name": "ppo", "learning_rate": 1e-3}, "env": {"id": "CartPole-v1"}}


def test_an_override_of_either_place_replaces_what_a_file_says_in_the_other() -> None:
    for first, second in (("algorithm", "experience"), ("experience", "algorithm")):
        given = DQN_MINIMAL | {first: DQN_MINIMAL.get(first, {}) | {"buffer_size": 50}}
        config = RunConfig.from_mapping(apply_override(given, f"{second}.buffer_size=60"))
        assert config.experience.buffer_size == 60
    capacity = DQN_MINIMAL | {"algorithm": {"name": "dqn", "buffer_capacity": 50}}
    assert RunConfig.from_mapping(apply_override(capacity, "algorithm.buffer_size=60")).experience.buffer_size == 60


def test_an_override_reaches_into_the_list() -> None:
    values = {"phases": [{"updates": 5}, {"env_steps": 6, "env": {"id": "X"}}]}
    for path, expected in (("phases[1].env_steps", 7), ("phases.1.env_steps", 7)):
        changed = apply_override(values, f"{path}={expected}")
        assert changed["phases"] == [{"updates": 5}, {"env_steps": 7, "env": {"id": "X"}}]
    changed = apply_override(values, "phases[1].env.kwargs.g=2.0")
    assert changed["phases"][1]["env"] == {"id": "X", "kwargs": {"g": 2.0}}
    assert apply_override(values, "phases=[{updates: 3}]")["phases"] == [{"updates": 3}]
    assert values["phases"][1]["env_steps"] == 6
    for key in ("2", "-1", "x", ""):
        with pytest.raises(
            ConfigError, match=rf"phases is a list of 2, use phases\[0\] to phases\[1\]; it has no '{key}'"
        ):
            apply_override(values, f"phases[{key}].updates=3")
    with pytest.raises(ConfigError, match="it has no 'updates'"):
        apply_override(values, "phases.updates=3")
    for none in ({}, {"phases": None}, {"phases": []}):
        with pytest.raises(
            ConfigError, match=r"phases\[0\]=.*there are no phases, set them as a whole, phases='\[{env_st"
        ):
            apply_override(none, "phases[0]={env_steps: 5}")


def test_a_key_given_twice_in_a_set_value_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"--set 'algorithm.net_arch=.*the key 'pi' is given twice"):
        apply_override({}, "algorithm.net_arch={pi: [1], pi: [2]}")
