"""A run whose environment was defined in a script: a later process resumes it with the environment handed over again."""

from __future__ import annotations

import copy
import logging
from pathlib import Path

import gymnasium as gym
import pytest

from rl_training import PPO, Agent, ConfigError
from rl_training.config.code_objects import NOTED
from rl_training.config.trust import NAMED
from rl_training.envs.make import FACTORIES
from rl_training.experiment.checkpoint import difference

SETTINGS = {"n_steps": 16, "batch_size": 16, "n_epochs": 1, "compile": False, "n_envs": 2, "total_timesteps": 96}


def forget() -> None:
    """As in a process that has just begun."""
    for known in (FACTORIES, NAMED, NOTED):
        known.clear()


@pytest.fixture(autouse=True)
def as_it_was():
    before = dict(FACTORIES)
    yield
    FACTORIES.update(before)


def test_a_run_is_resumed_with_its_environment_handed_over_again(tmp_path, caplog) -> None:
    make = lambda: gym.make("CartPole-v1")  # noqa: E731
    forget()
    settings = SETTINGS | {"evaluation": {"env": make, "episodes": 2}}
    with caplog.at_level(logging.WARNING, logger="rl_training"):
        whole, part = (PPO(make, **settings, run_dir=tmp_path / name) for name in ("whole", "part"))
    notes = [record.getMessage() for record in caplog.records if "cannot be imported" in record.getMessage()]
    assert len(notes) == 1
    assert notes[0].endswith("hand it over again: Agent.resume(run_dir, env=...)")
    whole.learn(progress=False)
    part.learn(progress=False, stop_at=40)
    forget()
    with pytest.raises(ConfigError, match=r"hand it over again, Agent\.resume\(run_dir, env=\.\.\.\)"):
        PPO.resume(tmp_path / "part").learn(progress=False)
    FACTORIES[f"{__name__}:{make.__qualname__}"] = gym.Env  # another of that name: the run's gets a new one
    resumed = PPO.resume(tmp_path / "part", env=make)
    assert resumed.num_timesteps == 40
    result = resumed.learn(progress=False)
    assert (result.status, result.total_timesteps) == ("finished", 96)
    assert difference(*(dict(agent.algorithm.state_dict()) for agent in (whole, resumed))) is None
    forget()
    again = Agent.resume(tmp_path / "part", env=make, total_timesteps=128)
    assert again.learn(progress=False).total_timesteps == 128


def test_another_environment_is_refused(tmp_path) -> None:
    PPO("CartPole-v1", **SETTINGS, run_dir=tmp_path / "run").learn(progress=False, stop_at=32)
    for other in (lambda: gym.make("CartPole-v1"), "CartPole-v1"):
        with pytest.raises(ConfigError, match=r"a run keeps its environment, env\.id='CartPole-v1'.*load\(path, env="):
            PPO.resume(tmp_path / "run", env=other)


def test_run_dir_may_be_set_as_text(tmp_path) -> None:
    agent = PPO("CartPole-v1", **SETTINGS)
    agent.learn(32, progress=False)
    rival = copy.deepcopy(agent)
    rival.run_dir = str(tmp_path / "rival")
    assert rival.run_dir == Path(tmp_path / "rival")
    rival.learn(32, progress=False)
    assert Agent.resume(tmp_path / "rival").num_timesteps == 64
    with pytest.raises(ConfigError, match="run_dir=5 is not a path"):
        rival.run_dir = 5
