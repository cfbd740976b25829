"""Worker processes that are spawned, as on Windows and macOS: they inherit nothing and import what they need."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator

import gymnasium as gym
import numpy as np
import pytest
import torch

from rl_training import PPO
from rl_training.envs.failure import EnvFailedError
from rl_training.envs.vector import seeds_for
from tests.envs.hostile import Scripted, open_scripted
from tests.envs.test_env_processes import AwkwardError, assert_ended, at_third_step, fail, run

SECOND = rf"environment 1 \(seed {seeds_for(5, 2)[1]}, last action 1\)"
OBS = np.zeros(2, np.float32)


@pytest.fixture(autouse=True)
def spawn() -> Iterator[None]:
    before = multiprocessing.get_start_method(allow_none=True)
    multiprocessing.set_start_method("spawn", force=True)
    yield
    multiprocessing.set_start_method(before, force=True)


def test_a_function_that_exists_in_this_process_only_reaches_a_worker_and_its_error_comes_back() -> None:
    def on_step(count: int) -> None:
        if count == 2:
            raise ValueError("broken")

    env = open_scripted(
        lambda: Scripted(answer=lambda _: (OBS, 3.0, False, False, {}), on_step=on_step), "async", 1, 60
    )
    env.reset(seed=5)
    assert env.step(torch.tensor([0])).reward.tolist() == [3.0]
    with pytest.raises(ValueError, match="broken") as caught:
        env.step(torch.tensor([0]))
    assert "in on_step\n" in caught.value.__notes__[0]
    assert_ended(env)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("act", "kind", "sentence"),
    [
        (lambda: os._exit(3), EnvFailedError, f"the worker process of {SECOND} ended with exit code 3 during `step`"),
        (lambda: fail(AwkwardError("bro", "ken")), RuntimeError, "AwkwardError: broken"),
    ],
)
def test_a_worker_that_dies_or_raises_is_named(
    act: Callable[[], object], kind: type[BaseException], sentence: str
) -> None:
    env = open_scripted(at_third_step(act), "async", timeout_s=60)
    with pytest.raises(kind, match=sentence):
        run(env)
    assert_ended(env)


@pytest.mark.slow
def test_training_is_the_same_as_in_this_process() -> None:
    def make() -> gym.Env:
        return gym.make("CartPole-v1")

    learned = []
    for vectorization in ("sync", "async"):
        agent = PPO(make, n_envs=2, n_steps=16, batch_size=16, n_epochs=1, vectorization=vectorization, seed=0)
        agent.learn(64)
        learned.append(agent.algorithm.policy.state_dict())
        agent.close()
    assert all(torch.equal(learned[0][name], learned[1][name]) for name in learned[0])
