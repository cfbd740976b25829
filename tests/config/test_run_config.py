"""Whole configs: round trips, overrides, differences, presets."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import re

import gymnasium as gym
import pytest
import yaml

from rl_training import Agent, ConfigError, RunConfig
from rl_training.config import copy_preset, list_presets, load_config_values, preset_path
from rl_training.config.keywords import config_from_keywords
from rl_training.config.overrides import apply_override
from rl_training.config.presets import load_yaml
from rl_training.config.registry import ALGORITHMS
from rl_training.config.run_config import diff
from rl_training.envs import NATIVE
from rl_training.envs.make import ROBOTICS, register_robotics
from tests import needs
from tests.offline import steps_of

MINIMAL = {"algorithm": {"name": "ppo"}, "env": {"id": "CartPole-v1"}}
ENVS = ("acrobot", "cartpole", "halfcheetah", "hopper", "lunarlander", "mountaincar_continuous", "pendulum")


def installed(env_id: str) -> bool:
    register_robotics(env_id)
    if env_id.startswith(ROBOTICS) and env_id not in gym.registry:
        return False
    entry = str(gym.spec(env_id).entry_point)
    return all(importlib.util.find_spec(m) for m in ("mujoco", "Box2D") if m.lower() in entry)


def test_every_algorithm_has_a_preset_and_two_have_one_for_every_environment():
    assert {f"{algorithm}/{env}" for algorithm in ("ppo", "a2c") for env in ENVS} <= set(list_presets())
    assert {name.split("/")[0] for name in list_presets()} == set(ALGORITHMS)


@pytest.mark.parametrize("name", list_presets())
def test_preset_round_trip(name):
    values = load_config_values(name)
    if values["env"]["id"].startswith("ALE/"):
        needs.import_package("ale_py")
    assert values["about"]["source"]
    assert values["about"]["result"]
    config = RunConfig.from_mapping(values)
    assert config.name == name.split("/")[0]
    assert (
        config.env.id in NATIVE
        or config.env.backend == "ale"
        or not installed(config.env.id)
        or gym.spec(config.env.id).id == config.env.id
    )
    plain = config.to_mapping()
    assert RunConfig.from_mapping(plain) == config
    assert RunConfig.from_mapping(yaml.safe_load(yaml.safe_dump(plain))) == config
    said = {section: settings for section, settings in values.items() if section != "about"}
    for section, settings in said.items():  # nothing that the preset says is lost
        for key, value in settings.items():
            plain = apply_override(plain, f"{section}.{key}={json.dumps(value)}")
    assert diff(config, RunConfig.from_mapping(plain)) == []


SHORT = {  # changes for a rollout of 16 steps, and the updates it then takes
    "ppo": ({"n_steps": 8}, {"batch_size": 4, "n_epochs": 1}, 4),
    "a2c": ({"n_steps": 8}, {}, 1),
    "appo": ({"n_steps": 8}, {"batch_size": 4, "n_epochs": 1}, 4),
    "ippo": ({"n_steps": 8}, {"batch_size": 4, "n_epochs": 1}, 4),
    "mappo": ({"n_steps": 8}, {"batch_size": 4, "n_epochs": 1}, 4),
    "impala": ({"n_steps": 8}, {"batch_size": 8, "n_epochs": 1}, 2),
    # one of the policy, four of the value function
    "trpo": ({"n_steps": 8}, {"batch_size": 4, "n_critic_updates": 1}, 5),
    "recurrent_ppo": ({"n_steps": 8}, {"batch_size": 4, "n_epochs": 1}, 4),
    "recurrent_ippo": ({"n_steps": 8}, {"batch_size": 4, "n_epochs": 1}, 4),
    "recurrent_mappo": ({"n_steps": 8}, {"batch_size": 4, "n_epochs": 1}, 4),
    "pqn": ({"n_steps": 8}, {"batch_size": 4, "n_epochs": 1}, 4),
}
# What learns from replay, after 8, 12 and 16 steps.
SHORT_REPLAY = (
    {"buffer_size": 64, "learning_starts": 8, "train_freq": 4},
    {"gradient_steps": 1, "batch_size": 4},
    3,
)


def trains_from_little_data(config: RunConfig) -> int:
    """How many updates were taken when 16 were asked for, from random steps in place of the preset's data."""
    data = steps_of(config.env.id, 200)
    if config.needs.experience == "replay":
        config = config.replace("experience", learning_starts=8).replace("algorithm", gradient_steps=1)
    config = config.replace("algorithm", batch_size=min(config.algorithm.batch_size, 16))
    training = config.replace("training", total_timesteps=0, total_updates=16).training
    config = config.replace("evaluation", interval=0).replace("data", make=None, path=None)
    agent = Agent(dataclasses.replace(config, training=training), dataset=data)
    result = agent.learn(progress=False)
    agent.close()
    return result.offline_updates


# Their critics are 2,048 wide: seconds for an update. crossq/halfcheetah has the same settings and is always run.
WIDE = ("crossq/ant", "crossq/hopper", "crossq/walker2d")
# Presets for data differ by the file, the environment and a few numbers: one of every algorithm is always run.
FROM_DATA = re.compile(r"(hopper|halfcheetah)_(medium|medium_replay|medium_expert)")
ALWAYS = "hopper_medium_replay"
PICTURES = re.compile(r"(?!ppo/|dqn/).*/atari|ppo/minatar_(?!breakout).*")  # one of a kind is always run
LARGER = re.compile(r"(?!ppo/).*/(ant|bipedalwalker|humanoid|swimmer|walker2d)")  # PPO's are always run, and Hopper's


def takes_long(name: str) -> bool:
    from_data = FROM_DATA.fullmatch(name.split("/")[1]) is not None and not name.endswith(ALWAYS)
    return name in WIDE or from_data or any(kind.fullmatch(name) for kind in (LARGER, PICTURES))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if takes_long(name) else []) for name in list_presets()]
)
def test_preset_trains_for_one_rollout(name):
    if name.endswith("/atari"):
        needs.import_package("ale_py")
    config = RunConfig.from_mapping(load_config_values(name))
    if config.env.backend == "gymnasium" and not installed(config.env.id):
        pytest.skip(needs.package(f"of {config.env.id}"))
    if config.data.given:  # learned from instead of a rollout
        assert trains_from_little_data(config) == 16
        return
    # A short rollout keeps this quick; everything else is the preset's.
    experience, algorithm, num_updates = SHORT_REPLAY if config.needs.experience == "replay" else SHORT[config.name]
    config = config.replace("experience", **experience).replace("algorithm", **algorithm)
    config = config.replace("env", n_envs=2).replace("evaluation", interval=0)
    agent = Agent(config)
    result = agent.learn(16, progress=False)
    agent.close()
    assert (result.total_timesteps, result.gradient_steps) == (16, num_updates)


def test_copy_never_overwrites(tmp_path):
    target = tmp_path / "deep" / "my.yaml"
    copy_preset("ppo/cartpole", target)
    assert target.read_text() == preset_path("ppo/cartpole").read_text()
    with pytest.raises(ConfigError, match="exists: choose another name"):
        copy_preset("a2c/cartpole", target)
    assert target.read_text() == preset_path("ppo/cartpole").read_text()


def test_keywords_find_their_section():
    config = config_from_keywords(
        "a2c", "CartPole-v1", {"n_steps": 7, "n_envs": 3, "seed": 9, "compile": False, "evaluation": {"episodes": 2}}
    )
    assert (config.experience.n_steps, config.env.n_envs, config.training.seed) == (7, 3, 9)
    assert (config.training.compile, config.evaluation.episodes) == (False, 2)
    assert config.env.id == "CartPole-v1"


def test_diff_lists_paths_with_both_values():
    a = RunConfig.from_mapping(MINIMAL)
    b = RunConfig.from_mapping({"algorithm": {"name": "ppo", "learning_rate": "lin_1e-3"}, "env": {"id": "Acrobot-v1"}})
    assert diff(a, a) == []
    assert diff(a, b) == [
        ("algorithm.learning_rate", 3e-4, {"initial": 1e-3, "final": 0.0, "fraction": 1.0}),
        ("env.id", "CartPole-v1", "Acrobot-v1"),
    ]


def test_replace_changes_one_section_only():
    config = RunConfig.from_mapping(MINIMAL)
    assert diff(config, config.replace("training", seed=5)) == [("training.seed", 0, 5)]


def test_yaml_errors_are_one_line_with_the_place(tmp_path):
    path = tmp_path / "bad.yaml"
    path.write_text("algorithm: {name: ppo\nenv: {id: x}\n")
    with pytest.raises(ConfigError, match=r"not valid YAML: .*line 2") as caught:
        load_yaml(path)
    assert "\n" not in str(caught.value)
