"""Environments that misbehave, or need what is not installed, are named in one sentence."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

from rl_training import (
    PPO,
    NonFiniteError,
    make_data,
)
from rl_training.envs import check
from tests.bad_environments import SMALL, altered, listing


@pytest.mark.parametrize(
    ("env_id", "error", "fix"),
    [
        ("Hopper-v5", gym.error.DependencyNotInstalled("mujoco"), r"pip install 'rl-training\[mujoco\]'"),
        ("LunarLander-v3", ImportError("No module named 'Box2D'"), r"pip install 'rl-training\[box2d\]'"),
    ],
)
def test_missing_package_of_an_environment(env_id, error, fix, monkeypatch, tmp_path):
    """The package may well be installed here, so gymnasium's refusal is played back."""

    def refuse(*arguments: object, **keywords: object) -> None:
        raise error

    monkeypatch.setattr(gym, "make", refuse)
    with pytest.raises(ValueError, match=rf"env.id='{env_id}'.*{fix}"):
        PPO(env_id, run_dir=tmp_path / "run")
    assert listing(tmp_path) == {}


NAN = np.array([0, np.nan], np.float32)
SHAPES = ["(2,)", "observation_space"]
CORRECT = "correct the environment"
MISBEHAVIOUR: dict[str, tuple[dict, type[Exception], list[str]]] = {
    "wrong shape at reset": ({"observation": np.zeros(3, np.float32)}, ValueError, ["shape (3,)", *SHAPES]),
    "wrong shape in step": ({"step_observation": np.zeros(5, np.float32)}, ValueError, ["shape (5,)", *SHAPES]),
    "nan observation": (
        {"step_observation": NAN},
        NonFiniteError,
        ["observation of environment 0 is not finite", CORRECT],
    ),
    "infinite reward": (
        {"reward": np.inf},
        NonFiniteError,
        ["the reward of environment 0 is not finite (inf)", CORRECT],
    ),
    "reward of wrong shape": ({"reward": np.zeros(3)}, ValueError, ["reward"]),
}


@pytest.mark.parametrize("kind", MISBEHAVIOUR)
def test_environments_that_misbehave(kind, tmp_path):
    changes, error, parts = MISBEHAVIOUR[kind]
    with pytest.raises(error) as caught:
        PPO(altered(**changes), **SMALL, run_dir=tmp_path / "run").learn(64, progress=False)
    for part in parts:
        assert part in str(caught.value)
    assert list(tmp_path.glob("run/checkpoints/*")) == []  # no checkpoint of a broken run


@pytest.mark.parametrize(
    ("changes", "what"), [({"step_observation": NAN}, "observation"), ({"reward": np.nan}, "reward")]
)
def test_evaluations_and_data_refuse_numbers_that_are_not_finite(changes, what, tmp_path):
    broken = altered(**changes)
    during = PPO(altered(), **SMALL, evaluation={"env": broken, "interval": 32}, run_dir=tmp_path / "run")
    told = f"the {what} of environment 0 is not finite .* near step \\d+ of the "
    with pytest.raises(NonFiniteError, match=told + "evaluation"):
        during.learn(64, progress=False)
    assert list(tmp_path.glob("run/checkpoints/*")) == []  # none is the best
    with pytest.raises(NonFiniteError, match=told + "evaluation"):
        during.evaluate(1, env=broken)
    with pytest.raises(NonFiniteError, match=told + "data of random"):
        make_data(broken, ["random"], 40)


def test_a_run_warns_once_of_numbers_outside_their_space(told):
    narrow = gym.spaces.Box(-1, 1, (2,))
    far = altered(step_observation=np.array([0, 7], np.float32), observation_space=narrow)
    PPO(far, **SMALL).learn(64, progress=False)
    said = told()
    assert said.count("observation holds 7 at place 1, and its space says -1 to 1: correct the space") == 1
    with pytest.raises(ValueError, match=r"observation leaves its space's bounds \(it holds 0 to 7, the space is Box"):
        check(far)
    PPO(altered(step_observation=np.ones(2, np.float32), observation_space=narrow), **SMALL).learn(64, progress=False)
    assert "its space says" not in told()


class NoActionLeft(gym.Env):
    """Returns a mask that forbids everything."""

    observation_space = gym.spaces.Dict({"x": gym.spaces.Box(-1, 1, (1,)), "action_mask": gym.spaces.MultiBinary(2)})
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return {"x": np.zeros(1, np.float32), "action_mask": np.zeros(2, np.int8)}, {}

    def step(self, action):
        return self.reset()[0], 0.0, False, False, {}


class OldInterface(gym.Env):
    """Steps as gym did before gymnasium."""

    observation_space = gym.spaces.Box(-1, 1, (1,))
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        return np.zeros(1, np.float32), 0.0, False, {}


@pytest.mark.parametrize(
    ("env", "message"), [(NoActionLeft, "without an allowed action"), (OldInterface, "four are the old gym API")]
)
def test_environments_that_leave_no_choice_or_speak_the_old_interface(env: type, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PPO(env, n_steps=8, batch_size=8, compile=False).learn(8, progress=False)
