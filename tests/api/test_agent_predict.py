"""`predict` takes one observation or many of every kind, and answers in the environment's units."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
import torch

from rl_training import A2C, PPO, ConfigError
from tests.api.small_agents import KINDS, OBS, SMALL, make
from tests.envs.counting import CountingEnv


class DictEnv(gym.Env):
    """A dictionary of an array, a choice and a mask of the actions; one step long."""

    observation_space = gym.spaces.Dict(
        {
            "position": gym.spaces.Box(-1, 1, (3,)),
            "room": gym.spaces.Discrete(4),
            "action_mask": gym.spaces.MultiBinary(3),
        }
    )
    action_space = gym.spaces.Discrete(3, start=5)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observation(), {}

    def observation(self):
        return {
            "position": self.np_random.uniform(-1, 1, 3).astype(np.float32),
            "room": np.int64(self.np_random.integers(4)),
            "action_mask": np.array([0, 1, 1], np.int8),
        }

    def step(self, action):
        assert action in (6, 7), "the mask forbids the first action"
        return self.observation(), 1.0, True, False, {}


class WideEnv(CountingEnv):
    """Actions whose bounds differ by side; the reward is the action it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.action_space = gym.spaces.Box(np.array([-0.5, 2.0], np.float32), np.array([0.25, 3.0], np.float32))

    def step(self, action):
        assert self.action_space.contains(np.asarray(action, np.float32))
        return super().step(action)


class RoomEnv(CountingEnv):
    """Observes one of five rooms, counted from 10."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = gym.spaces.Discrete(5, start=10)

    def observation(self):
        return np.int64(10 + self.count % 5)


@pytest.mark.parametrize("kind", KINDS)
def test_predict_one_or_many(kind):
    agent = make(kind)
    agent.learn(64, progress=False)
    one, memory = agent.predict(OBS)
    assert (one.shape, memory) == ((), None)
    many, _ = agent.predict(np.array([OBS] * 3))
    assert many.shape == (3,)
    assert (many == one).all()
    assert agent.predict(torch.tensor(OBS))[0] == one
    assert {int(agent.predict(OBS)[0]) for _ in range(20)} == {int(one)}  # deterministic by default
    assert {int(agent.predict(OBS, deterministic=False)[0]) for _ in range(100)} == {0, 1}


def test_predict_speaks_the_environments_units_and_clips():
    agent = PPO(WideEnv, **SMALL["ppo"], log_std_init=2.0)
    agent.learn(32, progress=False)
    actions, _ = agent.predict(np.zeros((200, 2)), deterministic=False)
    assert actions.shape == (200, 2)
    assert actions.min(0).tolist() == [-0.5, 2.0]
    assert actions.max(0).tolist() == [0.25, 3.0]
    assert agent.predict([0.0, 0.0])[0].shape == (2,)


def test_predict_dictionaries_masks_and_choices_counted_from_elsewhere():
    agent = make(PPO, DictEnv)
    agent.learn(32, progress=False)
    one = {"position": [0.0, 0.1, 0.2], "room": 2, "action_mask": [1, 0, 0]}
    assert agent.predict(one)[0] == 5
    batch = {"position": [[0.0, 0.1, 0.2]] * 2, "room": [2, 3], "action_mask": [[0, 1, 0], [0, 0, 1]]}
    assert agent.predict(batch)[0].tolist() == [6, 7]


def test_predict_discrete_observations():
    agent = make(A2C, RoomEnv)
    agent.learn(32, progress=False)
    assert agent.predict(12)[0] in (0, 1)
    assert agent.predict([10, 11, 14])[0].shape == (3,)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_one_array_of_floats_is_read_as_a_batch_is(dtype):
    agent = A2C("Pendulum-v1", normalize_observation=True, seed=1)
    rows = np.random.default_rng(0).normal(size=(20, 3)).astype(dtype)
    batch, _ = agent.predict(rows)
    np.testing.assert_allclose([agent.predict(row)[0] for row in rows], batch, rtol=1e-6)
    strided = np.repeat(rows, 2, 0)[::2]
    np.testing.assert_array_equal(agent.predict(strided[3])[0], agent.predict(rows[3])[0])
    for wrong, sentence in ((np.nan, "not finite"), (np.inf, "not finite"), (1e39, "float32 ends at")):
        obs = np.array([0, wrong, 1], dtype)
        with (
            np.errstate(over="ignore"),
            pytest.raises(ConfigError, match="not finite" if dtype is np.float32 else sentence),
        ):
            agent.predict(obs)
    large = np.full(3, 3e38, dtype)  # finite, and their sum is not
    assert np.isfinite(agent.predict(large)[0]).all()
