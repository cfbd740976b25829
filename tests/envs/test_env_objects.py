"""What was set on an environment that is handed over as an object stays behind, and a note says so."""

from __future__ import annotations

from collections.abc import Iterator

import gymnasium as gym
import pytest

from rl_training import PPO
from rl_training.envs.env_objects import SAID, changed_attributes

SMALL = {"n_steps": 8, "batch_size": 8, "n_epochs": 1}


@pytest.fixture(autouse=True)
def nothing_said() -> Iterator[None]:
    SAID.clear()
    yield
    SAID.clear()


def heavy() -> gym.Env:
    env = gym.make("CartPole-v1", max_episode_steps=50)
    env.unwrapped.gravity = 20.0
    return env


@pytest.mark.parametrize("env_id", ["CartPole-v1", "Pendulum-v1", "MountainCar-v0", "Acrobot-v1", "FrozenLake-v1"])
def test_an_environment_that_was_used_is_not_a_changed_one(env_id: str) -> None:
    env = gym.make(env_id)
    assert changed_attributes(env, gym.make(env_id)) == {}
    env.reset(seed=0)
    for _ in range(20):
        _, _, terminated, truncated, _ = env.step(env.action_space.sample())
        if terminated or truncated:
            env.reset()
    assert changed_attributes(env, gym.make(env_id)) == {}


def test_a_changed_attribute_is_noted_once(told) -> None:
    assert changed_attributes(heavy(), gym.make("CartPole-v1")) == {"gravity": 20.0}
    for _ in range(2):
        PPO(heavy(), **SMALL)
    said = told()
    assert said.count("gravity=20.0 of the CartPole-v1 that was handed over") == 1
    assert "pass a function that builds and changes one" in said


def test_a_vector_environment_is_looked_into(told) -> None:
    PPO(gym.vector.SyncVectorEnv([heavy, heavy]), **SMALL)
    PPO(gym.make_vec("CartPole-v1", 2), **SMALL)
    assert told() == ""  # the first is only known as an object, of which no copies are made
    vector = gym.make_vec("CartPole-v1", 2, vectorization_mode="sync")
    vector.envs[0].unwrapped.gravity = 20.0
    PPO(vector, **SMALL)
    assert "gravity=20.0" in told()


def test_a_function_keeps_what_it_changes(told) -> None:
    agent = PPO(heavy, n_envs=2, **SMALL)
    assert [env.unwrapped.gravity for env in agent.env.envs] == [20.0, 20.0]
    assert "gravity" not in told()
