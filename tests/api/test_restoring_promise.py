"""What `resume` says in results is tried out before: an environment that keeps something gets `boundary`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from rl_training import PPO

SETTINGS = {"n_envs": 2, "n_steps": 32, "batch_size": 32, "n_epochs": 1, "compile": False, "seed": 3}
NOTE = "a copy of {} that went on from a saved state gave another"


def test_a_run_finds_what_a_copy_would_not_continue(tmp_path: Path, told: Callable[[], str]) -> None:
    env_id = "tests.envs.test_probe:Curriculum"
    settings = SETTINGS | {"evaluation": {"episodes": 1, "n_envs": 1}, "max_episode_steps": 20}
    result = PPO(env_id, run_dir=tmp_path / "run", total_timesteps=128, **settings).learn(stop_at=64, progress=False)
    assert result.resume == "boundary"
    assert json.loads((tmp_path / "run" / "result.json").read_text())["resume"] == "boundary"
    assert told().count(NOTE.format(env_id)) == 1
    resumed = PPO.resume(tmp_path / "run", trust=["tests"])
    assert resumed.learn(progress=False).resume == "boundary"
    said = told()
    assert said.count("new episodes were started") == 1
    assert NOTE.format(env_id) not in said


def test_bipedal_walker_is_found(told: Callable[[], str]) -> None:
    assert PPO("BipedalWalker-v3", **SETTINGS).learn(64, progress=False).resume == "boundary"
    assert told().count(NOTE.format("BipedalWalker-v3")) == 1


def test_a_run_that_keeps_its_promise_says_nothing(told: Callable[[], str]) -> None:
    assert PPO("CartPole-v1", **SETTINGS).learn(64, progress=False).resume == "replayed"
    assert told() == ""


def test_the_promise_is_tried_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A further `learn` does not pay for it again."""
    from rl_training.api import training

    asked: list[str] = []
    monkeypatch.setattr(training, "verify_resumability", lambda env, config, trust, *, say: asked.append(config.id))
    agent = PPO("CartPole-v1", n_envs=2, n_steps=8, batch_size=8, seed=0, compile=False, threads=1)
    for _ in range(3):
        agent.learn(16, progress=False)
    assert asked == ["CartPole-v1"]
