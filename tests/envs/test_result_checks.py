"""Wrong answers of environments are sentences, in this process and in workers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

from rl_training.envs import EnvConfig, GymnasiumEnv, make_env
from tests.envs.fakes import NextStepOnly
from tests.envs.hostile import VECTORIZATIONS, Scripted, open_scripted


def replaced(position: int, value: Any) -> Callable[[tuple], tuple]:
    return lambda answer: (*answer[:position], value, *answer[position + 1 :])


def step_twice(factory: Callable[..., gym.Env], vectorization: str) -> float:
    env = open_scripted(factory, vectorization)
    try:
        env.reset(seed=0)
        return [env.step(torch.zeros(2, dtype=torch.int64)) for _ in range(2)][-1].reward.sum().item()
    finally:
        env.close()


WRONG_ANSWERS = [
    (replaced(1, "1.0"), r"environment 0 returned the reward '1.0': `step` must return one number as its reward"),
    (replaced(1, None), "the reward None: `step` must return one number"),
    (replaced(1, 1j), "the reward 1j: `step` must return one number"),
    (replaced(1, np.ones(2)), r"the reward array\(\[1., 1.\]\): `step` must return one number"),
    (replaced(1, [[1.0], []]), "the reward .*: `step` must return one number"),
    (replaced(2, None), "environment 0 returned terminated=None: `step` must return True or False there"),
    (replaced(2, math.nan), "terminated=nan: `step` must return True or False"),
    (replaced(3, 2), "truncated=2: `step` must return True or False"),
    (replaced(2, "False"), "terminated='False': `step` must return True or False"),
    (replaced(3, np.array([False])), r"truncated=array\(\[False\]\): `step` must return True or False"),
    (lambda answer: answer[:4], "environment 0: `step` returned 4 values: gymnasium wants 5 .* the old gym API"),
    (lambda answer: None, "environment 0: `step` returned NoneType: gymnasium wants 5"),
    (replaced(0, np.zeros(3)), r"an observation of shape \(3,\) \(ndarray\), but its observation space says \(2,\)"),
    (replaced(0, [0.0, [1.0]]), r"an observation of shape .* \(list\), but its observation space says \(2,\)"),
]


@pytest.mark.parametrize(("answer", "sentence"), WRONG_ANSWERS)
@pytest.mark.parametrize("vectorization", VECTORIZATIONS)
def test_wrong_answers_of_step(answer: Callable[[tuple], Any], sentence: str, vectorization: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        step_twice(lambda: Scripted(answer=answer), vectorization)


@pytest.mark.parametrize("reward", [2, 2.0, True, np.float16(2), np.int8(2), np.array(2.0), np.array([2.0]), [2.0]])
@pytest.mark.parametrize("vectorization", VECTORIZATIONS)
def test_any_single_number_is_a_reward(reward: Any, vectorization: str) -> None:
    total = 2.0 if reward is True else 4.0
    assert step_twice(lambda: Scripted(answer=replaced(1, reward)), vectorization) == total


@pytest.mark.parametrize(
    ("first", "given"),
    [
        (lambda answer: answer[0], "ndarray"),
        (lambda answer: (*answer, None), "a tuple of 3"),
        (lambda answer: (answer[0], None), "a tuple of 2"),
    ],
)
@pytest.mark.parametrize("vectorization", VECTORIZATIONS)
def test_wrong_answers_of_reset(first: Callable[[tuple], Any], given: str, vectorization: str) -> None:
    sentence = f"environment 0: `reset` returned {given}: gymnasium wants \\(observation, info\\)"
    with pytest.raises(ValueError, match=sentence):
        step_twice(lambda: Scripted(first=first), vectorization)


@pytest.mark.parametrize("settings", [{"max_episode_steps": 3}, {"frame_stack": 2}])
def test_wrappers_do_not_hide_the_old_api(settings: dict[str, int]) -> None:
    config = EnvConfig(id=f"{__name__}:OldStep", **settings)  # pyrefly: ignore
    env = make_env(config)
    env.reset(seed=0)
    with pytest.raises(ValueError, match="environment 0: `step` returned 4 values: gymnasium wants 5"):
        env.step(torch.zeros(1, dtype=torch.int64))
    with pytest.raises(ValueError, match="environment 0: `reset` returned ndarray"):
        make_env(EnvConfig(id=f"{__name__}:BareReset", **settings)).reset(seed=0)  # pyrefly: ignore


class OldStep(Scripted):
    def __init__(self) -> None:
        super().__init__(answer=lambda answer: answer[:4])


class BareReset(Scripted):
    def __init__(self) -> None:
        super().__init__(first=lambda answer: answer[0])


class OldReset(Scripted):
    def reset(self) -> Any:  # pyrefly: ignore  (the old gym API)
        return super().reset()


def test_a_reset_without_a_seed_is_the_old_api() -> None:
    with pytest.raises(
        ValueError, match=r"`reset` of OldReset cannot be called .* reset\(self, \*, seed=None, options"
    ):
        step_twice(OldReset, "sync")


BYTES = spaces.Box(0, 255, (2, 2, 3), np.uint8)
WRONG_OBSERVATIONS: list[tuple[gym.Space, Any, str]] = [
    (spaces.Discrete(4), 9, r"the observation 9, but its observation space says Discrete\(num=4, start=0\)"),
    (spaces.Discrete(4), -1, "the observation -1, but"),
    (spaces.Discrete(4, start=5), 4, r"the observation 4, but its observation space says Discrete\(num=4, start=5\)"),
    (spaces.Discrete(4), 1.5, "the observation 1.5, but"),
    (spaces.Discrete(4), "a", "observation .*(str|'a')"),
    (spaces.MultiDiscrete([2, 3]), np.array([1, 3]), r"the observation 3, but .* MultiDiscrete\(nums=\(2, 3\)\)"),
    (spaces.MultiBinary(3), np.array([0, 1, 2]), r"the observation 2, but .* MultiBinary\(num=3\)"),
    (spaces.Dict(x=spaces.Discrete(3)), {"x": 3}, r"the observation 3, but .* Discrete\(num=3"),
    (spaces.Dict(x=spaces.Discrete(3)), {"y": 3}, r"with the keys \['y'\], but its observation space has the key 'x'"),
    (BYTES, np.full((2, 2, 3), 0.5), "the observation 0.5, but its observation space says bytes"),
    (BYTES, np.full((2, 2, 3), 300), "the observation 300, but its observation space says bytes"),
    (spaces.Box(-1, 1, (2,)), ["1", "2"], r"the observation \['1', '2'\], which is not made of real numbers"),
    (spaces.Box(-1, 1, (2,)), np.ones(2) * 1j, "which is not made of real numbers"),
]


@pytest.mark.parametrize(("space", "wrong", "sentence"), WRONG_OBSERVATIONS)
@pytest.mark.parametrize("vectorization", VECTORIZATIONS)
def test_wrong_observations(space: gym.Space, wrong: Any, sentence: str, vectorization: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        step_twice(lambda: Scripted(observation_space=space, observe=lambda count: wrong), vectorization)


@pytest.mark.parametrize("vectorization", VECTORIZATIONS)
def test_whole_numbers_of_any_type_are_choices(vectorization: str) -> None:
    for given in (3, 3.0, np.int8(3), np.array(3)):
        env = open_scripted(
            lambda given=given: Scripted(observation_space=spaces.Discrete(2, start=2), observe=lambda count: given),
            vectorization,
            num_envs=1,
        )
        assert torch.equal(env.reset(seed=0), torch.tensor([1]))  # pyrefly: ignore
        env.close()


@pytest.mark.parametrize("side", ["observation", "action"])
@pytest.mark.parametrize("vectorization", VECTORIZATIONS)
def test_environments_of_one_batch_have_the_same_spaces(side: str, vectorization: str) -> None:
    with pytest.raises(
        ValueError, match=rf"environment 2 has the {side} space Discrete\(4\), environment 0 has Discrete\(2\)"
    ):
        open_scripted(
            lambda index: Scripted(**{f"{side}_space": spaces.Discrete(max(2, 2 * index))}),  # pyrefly: ignore
            vectorization,
            num_envs=3,
        )


class TextRewards(NextStepOnly):
    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        obs, reward, *rest = super().step(actions)
        return obs, reward.astype(str), *rest


def test_rewards_of_a_vector_environment_are_numbers() -> None:
    env = GymnasiumEnv(TextRewards(Scripted, 2))
    env.reset(seed=0)
    with pytest.raises(ValueError, match=r"rewards of shape \(2,\) and type <U.*one number per environment"):
        env.step(torch.zeros(2, dtype=torch.int64))
