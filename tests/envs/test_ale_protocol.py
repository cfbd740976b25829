"""Protocols of Atari games, and the sentences about settings that are wrong."""

from __future__ import annotations

import re
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from rl_training import PPO
from rl_training.config import ConfigError, RunConfig
from rl_training.envs import EnvConfig
from rl_training.envs.ale_protocol import PROTOCOLS, read_settings
from tests import needs

needs.import_package("ale_py")


def test_the_two_presets() -> None:
    machado, dqn = PROTOCOLS["machado"], PROTOCOLS["dqn"]
    assert (machado.sticky, machado.noop_max, machado.fire_reset, machado.life_loss_terminal) == (0.25, 0, False, False)
    assert (dqn.sticky, dqn.noop_max, dqn.fire_reset, dqn.life_loss_terminal) == (0.0, 30, True, True)
    for protocol in (machado, dqn):
        assert (protocol.frame_skip, protocol.size, protocol.max_steps * protocol.frame_skip) == (4, 84, 108_000)


def test_the_page_names_every_setting() -> None:
    page = (Path(__file__).parents[2] / "docs" / "atari.md").read_text(encoding="utf-8")
    assert [name for name in (*PROTOCOLS, *asdict(PROTOCOLS["dqn"])) if f"`{name}`" not in page] == []


def test_single_settings_change_a_preset_and_the_limit_is_that_of_the_section() -> None:
    read = read_settings({"protocol": "dqn", "sticky": 0.1, "num_threads": 3}, 500)
    assert (read.protocol.sticky, read.protocol.noop_max, read.protocol.max_steps, read.num_threads) == (
        0.1,
        30,
        500,
        3,
    )


def test_settings_know_the_protocol_that_results_carry() -> None:
    said = EnvConfig(id="ALE/Pong-v5", kwargs={"protocol": "dqn", "noop_max": 7}).protocol
    assert said == asdict(PROTOCOLS["dqn"]) | {"noop_max": 7, "frame_stack": 4}
    limited = EnvConfig(id="MinAtar/Breakout-v1", kwargs={"sticky_action_prob": 0.0}, max_episode_steps=99).protocol
    assert limited == {"sticky": 0.0, "difficulty_ramping": True, "actions": 3, "max_steps": 99}
    assert EnvConfig(id="CartPole-v1").protocol == EnvConfig(id="CartPole-v1", backend="native").protocol == {}


def test_an_id_implies_the_backend_and_four_pictures() -> None:
    env = EnvConfig(id="ALE/Pong-v5")
    assert (env.backend, env.frame_stack) == ("ale", 4)
    assert EnvConfig(id="ale_py:ALE/Pong-v5").frame_stack == EnvConfig(id="CartPole-v1").frame_stack == 1


def test_an_evaluation_in_another_environment_does_not_inherit_the_stack() -> None:
    values = {"algorithm": {"name": "ppo"}, "env": {"id": "ALE/Pong-v5"}, "training": {"total_timesteps": 100}}
    config = RunConfig.from_mapping(values | {"evaluation": {"env": {"id": "CartPole-v1"}}})
    assert (config.evaluated_env.backend, config.evaluated_env.frame_stack) == ("gymnasium", 1)
    again = RunConfig.from_mapping(values | {"evaluation": {"env": {"kwargs": {"sticky": 0.0}}}})
    assert (again.evaluated_env.frame_stack, again.evaluated_env.kwargs) == (4, {"sticky": 0.0})


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"kwargs": {"protocol": "dqm"}}, "env.kwargs.protocol='dqm' is not a protocol: did you mean 'dqn'?"),
        ({"kwargs": {"stiky": 1}}, "env.kwargs.stiky is not a setting of Atari games: did you mean 'sticky'?"),
        ({"kwargs": {"sticky": 2}}, "env.kwargs.sticky=2.0 must be at most 1"),
        ({"kwargs": {"fire_reset": 1}}, "env.kwargs.fire_reset=1 must be true or false"),
        ({"kwargs": {"noop_max": 1.5}}, "env.kwargs.noop_max=1.5 must be a whole number"),
        ({"kwargs": {"max_steps": 3}, "max_episode_steps": 7}, "env.max_episode_steps=7 are the same setting"),
        ({"kwargs": {"grayscale": False}}, "gives one coloured picture: use env.frame_stack=1 with it"),
        ({"id": "ALE/Pnog-v5"}, "env.id='ALE/Pnog-v5' is not a game of ale-py: did you mean 'ALE/Pong-v5'?"),
        ({"id": "ALE/MsPackman-v5"}, "did you mean 'ALE/MsPacman-v5'?"),
        ({"id": "ALE/Pong-ram-v5"}, "observes the memory of the console"),
        ({"vectorization": "async"}, "env.vectorization='async' is for gymnasium: ale environments need none"),
        ({"info_keys": ["lives"]}, "Atari games say nothing of their episodes"),
    ],
)
def test_what_is_wrong_is_refused_with_a_sentence(settings: dict, sentence: str) -> None:
    env = {"id": "ALE/Pong-v5"} | settings
    with pytest.raises(ConfigError, match=re.escape(sentence)):
        RunConfig.from_mapping({"algorithm": {"name": "ppo"}, "env": env, "training": {"total_timesteps": 100}})


def test_a_missing_ale_py_names_the_extra_and_its_licence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ale_py", None)
    with pytest.raises(ValueError, match=r"pip install 'rl-training\[atari\]' \(ale-py is licensed under GPL-2.0\)"):
        PPO("ALE/Pong-v5")
