"""A worker that dies, hangs or raises ends the run with a sentence, and no process is left."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable

import gymnasium as gym
import pytest
import torch

from rl_training.envs import EnvConfig, GymnasiumEnv, VectorEnv, make_env
from rl_training.envs.failure import EnvFailedError
from rl_training.envs.vector import seeds_for
from tests.envs.hostile import Scripted, open_scripted

SECOND = rf"environment 1 \(seed {seeds_for(5, 2)[1]}, last action 1\)"


class AwkwardError(Exception):
    """Cannot be built again from its arguments."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(first + second)


def at_third_step(act: Callable[[], object]) -> Callable[[int], gym.Env]:
    """The second environment does something at its third step."""
    return lambda index: Scripted(on_step=lambda count: act() if index == 1 and count == 3 else None)


def fail(error: BaseException) -> None:
    raise error


def run(env: VectorEnv, num_steps: int = 3) -> None:
    env.reset(seed=5)
    for _ in range(num_steps):
        env.step(torch.tensor([0, 1]))


def assert_ended(env: VectorEnv) -> None:
    assert isinstance(env, GymnasiumEnv)
    assert not any(process.is_alive() for process in env.env.processes)  # pyrefly: ignore
    env.close()  # again, which does nothing


@pytest.mark.parametrize(
    ("act", "how"),
    [
        (lambda: os._exit(3), "ended with exit code 3 during `step`"),
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "was ended by SIGKILL during `step`"),
    ],
)
def test_a_worker_that_dies_is_named(act: Callable[[], object], how: str) -> None:
    env = open_scripted(at_third_step(act), "async")
    with pytest.raises(EnvFailedError, match=f"the worker process of {SECOND} {how}: .*env.vectorization='sync'"):
        run(env)
    assert_ended(env)


def test_a_worker_that_hangs_is_named() -> None:
    env = open_scripted(at_third_step(lambda: time.sleep(600)), "async", timeout_s=1.5)
    with pytest.raises(EnvFailedError, match=f"of {SECOND} has not answered `step` for 1.5 s: .*raise env.timeout_s"):
        run(env)
    assert_ended(env)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (RuntimeError("broken"), RuntimeError),
        (EOFError("broken"), EOFError),
        (AwkwardError("bro", "ken"), RuntimeError),
    ],
)
def test_what_an_environment_raises_keeps_its_own_traceback(error: BaseException, kind: type[BaseException]) -> None:
    env = open_scripted(at_third_step(lambda: fail(error)), "async", timeout_s=30)
    with pytest.raises(kind, match="broken") as caught:
        run(env)
    (note,) = caught.value.__notes__
    assert note.startswith("raised in the worker process of environment 1 (seed ")
    assert "in fail\n    raise error" in note
    assert_ended(env)


def test_an_error_of_a_local_class_can_be_told() -> None:
    class LocalError(Exception):
        pass

    env = open_scripted(at_third_step(lambda: fail(LocalError("broken"))), "async", timeout_s=30)
    with pytest.raises(RuntimeError, match="LocalError: broken"):
        run(env)
    assert_ended(env)


@pytest.mark.parametrize(
    ("act", "sentence"),
    [
        (lambda: os._exit(4), "the worker process of environment 1 ended with exit code 4 during `__init__`"),
        (lambda: time.sleep(600), "the worker process of environment 1 has not answered `__init__` for 1.5 s"),
    ],
)
def test_a_worker_that_cannot_be_built_is_named(act: Callable[[], object], sentence: str) -> None:
    def make(index: int) -> gym.Env:
        if index == 1:
            act()
        return Scripted()

    before = set(multiprocessing.active_children())
    with pytest.raises(EnvFailedError, match=sentence):
        open_scripted(make, "async", timeout_s=1.5)
    assert set(multiprocessing.active_children()) <= before


class NeverCloses(Scripted):
    def __init__(self, index: int) -> None:
        super().__init__()
        self.index = index

    def close(self) -> None:
        if self.index == 1:
            time.sleep(600)


def test_workers_that_do_not_end_are_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rl_training.envs.env_processes.PATIENCE", 0.5)
    env = open_scripted(NeverCloses, "async")
    run(env)
    env.close()
    assert_ended(env)


def test_a_foreign_vector_environment_that_dies_is_a_sentence() -> None:
    builders = [lambda i=i: at_third_step(lambda: os._exit(3))(i) for i in range(2)]
    env = GymnasiumEnv(gym.vector.AsyncVectorEnv(builders, context="fork"))
    with pytest.raises(EnvFailedError, match="a process of AsyncVectorEnv ended while it was stepped or reset"):
        run(env)
    env.env.close_extras(terminate=True)  # pyrefly: ignore
    env.env.closed = True


def test_a_forked_process_leaves_the_workers_it_inherited_alone() -> None:
    env = make_env(EnvConfig(id="CartPole-v1", n_envs=2, vectorization="async"))
    child = os.fork()
    if child == 0:
        env.close()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    env.reset(0)
    env.step(torch.zeros(2, dtype=torch.int64))
    env.close()
