"""Protocols of scores: what they hold, and which differences forbid a comparison."""

from __future__ import annotations

from rl_training.config.score_protocol import describe_protocol, unlike
from rl_training.config.sections import EvaluationConfig
from rl_training.envs import EnvConfig

SETTINGS = EvaluationConfig(epsilon=0.05, max_steps=99)


def minatar(**kwargs: object) -> dict[str, object]:
    env = EnvConfig(id="MinAtar/Breakout-v1", kwargs=kwargs)
    return describe_protocol(SETTINGS, env, num_episodes=7, deterministic=False)


def test_a_protocol_holds_the_evaluation_and_the_environments_settings() -> None:
    assert minatar() == {
        "episodes": 7,
        "deterministic": False,
        "epsilon": 0.05,
        "max_steps": 99,
        "env": {"sticky": 0.1, "difficulty_ramping": True, "actions": 3, "max_steps": 5000},
    }
    assert describe_protocol(SETTINGS, None, num_episodes=7, deterministic=True)["env"] == {}


def test_each_difference_is_named() -> None:
    other = minatar(sticky_action_prob=0.0) | {"episodes": 10}
    assert unlike(minatar(), other) == ["env.sticky 0.1 and 0.0", "episodes 7 and 10"]
    assert unlike(minatar(), minatar()) == []


def test_silence_about_the_environment_is_a_difference_and_about_the_evaluation_is_not() -> None:
    said = unlike(minatar(), {"epsilon": 0.05})
    assert said[0] == "env.actions 3 and unknown"
    assert len(said) == 4
    assert unlike({"episodes": 10, "env": {}}, {}) == []
