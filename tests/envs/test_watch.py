"""An environment in this process that does not come back is interrupted, and said in a sentence."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest
import torch

from rl_training.envs import GymnasiumEnv
from rl_training.envs.failure import EnvFailedError
from rl_training.envs.vector import seeds_for
from rl_training.envs.watch import Watch
from tests.envs.fakes import NextStepOnly
from tests.envs.hostile import Scripted, open_scripted

TIMEOUT_S = 0.4
SECOND = rf"environment 1 \(seed {seeds_for(5, 2)[1]}, last action 1\)"


def compute() -> None:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        pass


@pytest.mark.parametrize("hang", [lambda: time.sleep(60), compute, lambda: threading.Event().wait(60)])
def test_a_step_that_hangs_is_named(hang: Callable[[], object]) -> None:
    def make(index: int) -> Scripted:
        return Scripted(on_step=lambda count: hang() if index == 1 and count == 3 else None)

    env = open_scripted(make, "sync", timeout_s=TIMEOUT_S)
    env.reset(seed=5)
    sentence = rf"{SECOND} has not come back for 0.4 s \(it is at .*\.py:\d+\): correct .* raise env.timeout_s"
    for _ in range(2):
        env.step(torch.tensor([0, 1]))
    with pytest.raises(EnvFailedError, match=sentence):
        env.step(torch.tensor([0, 1]))


def slow_if(now: bool) -> None:
    if now:
        time.sleep(60)


@pytest.mark.parametrize("where", ["build", "reset", "close"])
def test_so_is_every_other_call(where: str) -> None:
    class Slow(Scripted):
        def __init__(self) -> None:
            slow_if(where == "build")
            super().__init__(first=lambda answer: (slow_if(where == "reset"), answer)[1])

        def close(self) -> None:
            slow_if(where == "close")

    def run() -> None:
        env = open_scripted(Slow, "sync", num_envs=1, timeout_s=TIMEOUT_S)
        env.reset(seed=0)
        env.close()

    with pytest.raises(EnvFailedError, match=r"environment.* has not come back for 0.4 s"):
        run()


def test_a_foreign_vector_environment_is_watched_too() -> None:
    env = GymnasiumEnv(NextStepOnly(lambda: Scripted(on_step=lambda count: time.sleep(60)), 2), timeout_s=TIMEOUT_S)
    env.reset(seed=0)
    with pytest.raises(EnvFailedError, match=r"an environment has not come back for 0.4 s"):
        env.step(torch.tensor([0, 1]))


def test_many_short_calls_may_take_longer_together() -> None:
    watch = Watch(TIMEOUT_S)
    for _ in range(30):
        with watch:
            time.sleep(0.02)
    time.sleep(TIMEOUT_S)  # outside of a call, as when a network learns
    assert watch.waited < TIMEOUT_S


def test_what_cannot_be_interrupted_is_told(told: Callable[[], str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rl_training.envs.watch.GRACE", 0.2)

    def call() -> None:
        with Watch(TIMEOUT_S):
            time.sleep(4 * TIMEOUT_S)

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    said = told()
    assert said.startswith("an environment has not come back for 0.4 s (it is at ")
    assert said.endswith("it cannot be interrupted from here\n")
    assert said.count("\n") == 1
