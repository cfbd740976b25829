"""Settings of its relatives that a method does not have: idle values of older files are passed over, others refused."""

import pytest

from rl_training import ConfigError, RunConfig
from rl_training.algorithms import BCQConfig, TD3Config
from rl_training.config.parsing import field_names
from rl_training.config.registry import ALGORITHMS

ABSENT = [(name, field) for name, entry in ALGORITHMS.items() for field in entry.config.absent]
OTHER = {
    "tau": 0.5,
    "target_update_interval": 7,
    "critic_subset": 1,
    "critic_layer_norm": True,
    "critic_dropout": 0.5,
    "actor_critics": "mean",
}


def config(name: str, **settings: object) -> RunConfig:
    return RunConfig.from_mapping({"algorithm": {"name": name} | settings, "env": {"id": "Pendulum-v1"}})


def test_methods_without_targets_have_no_settings_of_them() -> None:
    found = {name: set(entry.config.absent) for name, entry in ALGORITHMS.items() if entry.config.absent}
    assert found == {
        "crossq": set(OTHER) - {"actor_critics"},
        **{
            name: {"target_update_interval"}
            for name, entry in ALGORITHMS.items()
            if issubclass(entry.config, TD3Config | BCQConfig)
        },
        "tqc": {"actor_critics"},
    }
    for name, fields in found.items():
        assert not fields & set(field_names(ALGORITHMS[name].config))


@pytest.mark.parametrize(("name", "field"), ABSENT)
def test_idle_values_are_passed_over_and_others_are_refused(name: str, field: str) -> None:
    held = ALGORITHMS[name].config.absent[field].held
    plain = config(name)
    assert config(name, **{field: held}) == plain
    assert field not in plain.to_mapping()["algorithm"]
    if isinstance(held, float):
        assert config(name, **{field: str(held)}) == plain  # as YAML reads 5e-3
    for value in (OTHER[field], str(OTHER[field]), [held], {}):
        with pytest.raises(ConfigError, match=rf"algorithm\.{field}=.* has no effect in \w+, because .*: drop it"):
            config(name, **{field: value})


@pytest.mark.parametrize("delay", [1, 2, 3])
def test_the_targets_of_td3_may_be_said_to_move_with_the_actor(delay: int) -> None:
    assert config("td3", policy_delay=delay, target_update_interval=delay) == config("td3", policy_delay=delay)
    assert config("td3", target_update_interval=2) == config("td3")  # as policy_delay is by default
    with pytest.raises(ConfigError, match=r"algorithm\.target_update_interval=4 has no effect in TD3"):
        config("td3", policy_delay=delay, target_update_interval=4)
