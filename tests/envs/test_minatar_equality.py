"""The five games equal the package `minatar`, which is installed to be compared with, when both get the same draws."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable
from types import ModuleType

import numpy as np
import pytest
import torch
from torch import Tensor

from rl_training.envs.minatar import GAMES, MinAtarGame
from tests import needs

NAMES = {
    "Asterix": "asterix",
    "Breakout": "breakout",
    "Freeway": "freeway",
    "Seaquest": "seaquest",
    "SpaceInvaders": "space_invaders",
}


class Draws(np.random.RandomState):
    """Random numbers that are written down, as numbers in [0, 1)."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.drawn: list[float] = []

    def rand(self, *shape: int) -> float | np.ndarray:
        drawn = super().rand(*shape)
        self.drawn += np.atleast_1d(drawn).tolist()
        return drawn

    def randint(self, low: int, high: int | None = None, size: int | None = None) -> int | np.ndarray:
        low, high = (0, low) if high is None else (low, high)
        drawn = super().randint(low, high, size)
        self.drawn += ((np.atleast_1d(drawn) - low + 0.5) / (high - low)).tolist()
        return drawn

    def pop(self) -> list[float]:
        drawn, self.drawn = self.drawn, []
        return drawn


@pytest.fixture(scope="module")
def package() -> ModuleType:
    pytest.importorskip("minatar", reason=needs.package("minatar"))
    logging.disable(logging.WARNING)  # it says that seaborn is missing
    module = importlib.import_module("minatar")
    logging.disable(logging.NOTSET)
    return module


def cars(drawn: list[float]) -> list[float]:
    """Speeds and directions of eight cars as one number each: the left ones of ten are cars that drive to the left."""
    speeds, directions = np.array(drawn[:8]), np.array(drawn[8:])
    return ((directions >= 0.5) * 0.5 + speeds / 2).tolist()


def numbers(name: str, drawn: list[float], spawns: tuple[bool, bool]) -> list[float]:
    """What a step's rules draw, where our rules look for it; `spawns` says whether an enemy and a diver came."""
    if name == "Freeway":
        return cars(drawn) if drawn else [0.0] * 8
    if name == "Asterix":
        return [*drawn, *[0.0] * (3 - len(drawn))]
    if name == "Seaquest":
        enemy, diver = (drawn[:3], drawn[3:]) if spawns[0] else ([0.0] * 3, drawn)
        return [*enemy, *(diver or [0.0] * 2)]
    assert not drawn
    return []


class Pair:
    """A game of the package and one of ours, driven with the same actions and random numbers."""

    def __init__(self, package: ModuleType, name: str, seed: int, *, sticky: float = 0.1, ramping: bool = True) -> None:
        self.name, self.draws = name, Draws(seed)
        self.theirs = package.Environment(NAMES[name], sticky_action_prob=sticky, difficulty_ramping=ramping)
        self.theirs.random = self.theirs.env.random = self.draws
        self.ours = GAMES[name](sticky, ramping, minimal_actions=False)
        self.reset()

    def reset(self) -> None:
        self.theirs.reset()
        self.theirs.last_action = 0  # the package goes on with the last episode's
        drawn = self.draws.pop()
        drawn = cars(drawn) if self.name == "Freeway" else drawn
        self.state = self.ours.initial(torch.tensor([drawn]).view(1, -1))
        self.compare()

    def step(self, action: int) -> bool:
        game = self.theirs.env
        spawns = (getattr(game, "e_spawn_timer", 1) == 0, getattr(game, "d_spawn_timer", 1) == 0)
        reward, ended = self.theirs.act(action)
        sticky, *drawn = self.draws.pop()
        uniform = torch.tensor([[sticky, *numbers(self.name, drawn, spawns)]])
        self.state, our_reward, our_end = self.ours.step(self.state, torch.tensor([action]), uniform)
        assert (our_reward.item(), our_end.item()) == (reward, ended)
        self.compare()
        return ended

    def compare(self) -> None:
        ours = self.ours.observe(self.state)[0].numpy()
        assert np.array_equal(ours, self.theirs.state())
        assert ours.dtype == np.uint8


def drive(pair: Pair, num_steps: int, seed: int) -> int:
    """Takes random steps; returns the number of episodes that ended."""
    rng, ends = np.random.default_rng(seed), 0
    for _ in range(num_steps):
        if pair.step(int(rng.integers(6))):
            ends += 1
            pair.reset()
    return ends


@pytest.mark.parametrize("name", GAMES)
def test_random_steps_equal_the_package(package: ModuleType, name: str) -> None:
    ends = drive(Pair(package, name, 1), 500, 2)
    assert ends > 0 or name == "Freeway"


@pytest.mark.slow
@pytest.mark.parametrize("name", GAMES)
def test_ten_thousand_random_steps_equal_the_package(package: ModuleType, name: str) -> None:
    assert drive(Pair(package, name, 3), 10_000, 4) > 2


def careful_action(game: MinAtarGame, state: Tensor, generator: torch.Generator, *, depth: int = 10) -> int:
    """The action whose random futures are best, so that games are seen that random play never reaches."""
    futures = 16
    states = state.expand(6 * futures, -1)
    first = torch.arange(6).repeat_interleave(futures)
    alive, worth = torch.ones(len(states)), torch.zeros(len(states))
    for time in range(depth):
        action = first if time == 0 else torch.randint(6, (len(states),), generator=generator)
        uniform = torch.rand(len(states), game.num_step_random, generator=generator)
        states, reward, ended = game.step(states, action, uniform)
        worth += alive * (reward - 10 * ended)
        alive *= ~ended
    return int(worth.view(6, futures).mean(-1).argmax())


def play_carefully(
    pair: Pair, num_steps: int, *, depth: int = 10, prepare: Callable[[Pair], None] | None = None
) -> None:
    generator = torch.Generator().manual_seed(6)
    for number in range(num_steps):
        if pair.step(careful_action(pair.ours, pair.state, generator, depth=depth)) or number == 0:
            pair.reset()
            if prepare is not None:
                prepare(pair)


@pytest.mark.slow
@pytest.mark.parametrize("name", GAMES)
def test_careful_play_equals_the_package(package: ModuleType, name: str) -> None:
    play_carefully(Pair(package, name, 5, sticky=0.0), 2_000)


@pytest.mark.slow
def test_play_without_a_ramp_equals_the_package(package: ModuleType) -> None:
    play_carefully(Pair(package, "Asterix", 9, sticky=0.5, ramping=False), 600)


@pytest.mark.slow
def test_seaquest_at_the_end_of_its_ramp_equals_the_package(package: ModuleType) -> None:
    """Up to one enemy arrives in each step, and almost all slots are in use."""
    most = 0

    def prepare(pair: Pair) -> None:
        nonlocal most
        game = pair.theirs.env
        game.e_spawn_speed, game.move_speed, game.ramp_index, game.diver_count = 1, 2, 19, 5
        pair.state[0, [5, 9, 11, 12]] = torch.tensor([5.0, 1.0, 2.0, 19.0])

    pair = Pair(package, "Seaquest", 7, sticky=0.0)
    for _ in range(20):
        play_carefully(pair, 100, depth=5, prepare=prepare)
        most = max(most, len(pair.theirs.env.e_fish) + len(pair.theirs.env.e_subs))
    assert most > 15


def test_new_bricks_come_as_in_the_package(package: ModuleType) -> None:
    pair = Pair(package, "Breakout", 3, sticky=0.0)
    pair.theirs.env.brick_map[:] = 0
    pair.state[0, -30:] = 0
    while not pair.step(0):
        pass
    assert pair.state[0, -30:].sum() == 30
