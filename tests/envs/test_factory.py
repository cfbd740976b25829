"""Factories: env.kwargs are keywords, and the number of the environment goes to those that ask for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from rl_training import PPO
from rl_training.envs import check
from rl_training.envs.factory import call_factory
from tests.envs.hostile import VECTORIZATIONS, Scripted, open_scripted


class Level(Scripted):
    """Observes its level all the time."""

    def __init__(self, index: int = 7, size: int = 0) -> None:
        super().__init__(observe=lambda count: np.array([index, size], np.float32))
        self.made_with = (index, size)


class Sized(Level):
    def __init__(self, size: int) -> None:
        super().__init__(size=size)


def level_and_size(level: int, size: int = 1) -> Level:
    return Level(level, size)


@pytest.mark.parametrize(
    ("factory", "kwargs", "expected"),
    [
        (Level, {}, (3, 0)),
        (Level, {"size": 5}, (3, 5)),
        (Level, {"index": 1}, (1, 0)),
        (Sized, {"size": 2}, (7, 2)),
        (lambda index: Level(index), {}, (3, 0)),
        (lambda number: Level(number), {}, (3, 0)),
        (lambda *, index: Level(index), {}, (3, 0)),
        (lambda index=0: Level(index), {}, (3, 0)),
        (lambda: Level(), {}, (7, 0)),
        (lambda **kwargs: Level(**kwargs), {"size": 4}, (7, 4)),
        (level_and_size, {"size": 4}, (3, 4)),
        (level_and_size, {"level": 4}, (4, 1)),
    ],
)
def test_who_asks_gets_the_number(factory: Callable[..., Level], kwargs: dict[str, Any], expected: tuple) -> None:
    made = call_factory(factory, kwargs, 3, "name")
    assert isinstance(made, Level)
    assert made.made_with == expected


@pytest.mark.parametrize(
    ("factory", "kwargs", "reason"),
    [
        (Sized, {}, "missing a required argument: 'size'"),
        (lambda one, two: Level(), {}, "missing a required argument: '"),
        (lambda: Level(), {"size": 1}, "got an unexpected keyword argument 'size'"),
    ],
)
def test_what_does_not_fit_is_refused(factory: Callable[..., Level], kwargs: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=f"was refused by name, which takes .*{reason}.*`index`"):
        call_factory(factory, kwargs, 0, "name")


def test_errors_of_the_factory_itself_fly() -> None:
    with pytest.raises(TypeError, match="unsupported operand"):
        call_factory(lambda index: index + "a", {}, 0, "name")  # pyrefly: ignore


@pytest.mark.parametrize("vectorization", VECTORIZATIONS)
def test_every_environment_is_built_with_its_own_number(vectorization: str) -> None:
    env = open_scripted(lambda index: Level(index), vectorization, num_envs=3)
    assert torch.equal(env.reset(seed=0), torch.tensor([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0]]))  # pyrefly: ignore
    env.close()


def test_evaluation_and_check_number_theirs_too() -> None:
    seen: list[int] = []

    def make(index: int) -> Level:
        seen.append(index)
        return Level(index)

    agent = PPO(make, n_envs=2, n_steps=8, batch_size=8, n_epochs=1, compile=False, evaluation={"n_envs": 3})
    assert seen == [0, 1]
    agent.evaluate(4)
    assert seen[2:] == [0, 1, 2]
    check(make, num_envs=2, num_steps=20)
    assert seen[5:] == [0, 1]


def test_a_constructor_that_fails_is_named() -> None:
    def broken() -> Level:
        raise OSError("no display")

    with pytest.raises(ValueError, match=r"env\.id='mine:broken' could not be built: OSError: no display"):
        call_factory(broken, {}, 0, "mine:broken")
