"""Every algorithm learns from stacks of pictures, and is saved, loaded, paused and resumed there without a bit changing.

The games are Atari's where ale-py is installed, by the protocol in which lives end and rewards are clipped for learning;
otherwise, and for Box actions, drawn ones of the same shape.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import rl_training
from tests.conformance.cases import CASES, Case
from tests.conformance.test_life_cycle import assert_resumes_exactly

SIDE, STACK = 36, 4
ATARI = {"kwargs": {"protocol": "dqn", "size": SIDE, "noop_max": 3}, "max_episode_steps": 60}
# One of each family: from rollouts, with memory, Q-learning from rollouts, with replay by value and by actor.
ALWAYS = ("PPO", "RecurrentPPO", "PQN", "DQN", "SAC")


class Falling(gym.Env):
    """A bright square falls; an episode ends when it is down. The action does nothing but pay."""

    continuous = False

    def __init__(self) -> None:
        self.observation_space = gym.spaces.Box(0, 255, (SIDE, SIDE), np.uint8)
        self.action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32) if self.continuous else gym.spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.row, self.column = 0, int(self.np_random.integers(SIDE - 4))
        return self.draw(), {}

    def draw(self) -> np.ndarray:
        picture = np.zeros((SIDE, SIDE), np.uint8)
        picture[self.row : self.row + 4, self.column : self.column + 4] = 255
        return picture

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        self.row += int(self.np_random.integers(1, 3))
        return self.draw(), float(np.ravel(action)[0]), self.row >= SIDE - 5, False, {}


class FallingContinuous(Falling):
    continuous = True


def game_for(case: Case) -> tuple[str, dict[str, Any]]:
    """An environment id in which the algorithm can act, with settings."""
    if case.acts_in != "box" and importlib.util.find_spec("ale_py"):
        return "ALE/Breakout-v5", ATARI
    name = "FallingContinuous" if case.acts_in == "box" else "Falling"
    return f"{__name__}:{name}", {"frame_stack": STACK}


@pytest.mark.parametrize(
    "case",
    [pytest.param(c, id=c.name, marks=[] if c.name in ALWAYS else pytest.mark.slow) for c in CASES],
)
def test_a_game_of_pictures_is_paused_saved_loaded_and_resumed_exactly(case: Case, tmp_path: Path) -> None:
    game, settings = game_for(case)
    agent = assert_resumes_exactly(case, game, settings, tmp_path)
    assert agent.spec.obs.shape == (STACK, SIDE, SIDE)
    agent.save(tmp_path / "resumed")
    loaded = rl_training.load(tmp_path / "resumed", trust=["tests"])
    pictures = np.random.default_rng(0).integers(256, size=(16, STACK, SIDE, SIDE), dtype=np.uint8)
    np.testing.assert_array_equal(agent.predict(pictures)[0], loaded.predict(pictures)[0])


def test_the_drawn_games_take_the_place_of_ataris(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    (case,) = (case for case in CASES if case.name == "DQN")
    assert game_for(case) == (f"{__name__}:Falling", {"frame_stack": STACK})
