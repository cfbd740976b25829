"""An environment whose steps can be counted, so that one that did not happen is noticed."""

from __future__ import annotations

from pathlib import Path

import gymnasium as gym
import numpy as np


class Counted(gym.Env):
    """Observes a number of its own for every episode, and how many steps it has; raises if a file asks it to."""

    def __init__(self, order: str, bulk: int) -> None:
        self.observation_space = gym.spaces.Box(0, np.inf, (2 + bulk,), np.float64)
        self.action_space, self.order, self.bulk = gym.spaces.Discrete(2), Path(order), np.zeros(bulk)

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple:
        super().reset(seed=seed)
        self.episode, self.count = float(self.np_random.integers(2**20)), 0
        self.length = int(self.np_random.integers(5, 40))
        return self.observe(), {}

    def step(self, action: int) -> tuple:
        if self.order.exists():
            self.order.unlink(missing_ok=True)
            raise OSError("the simulator is gone")
        self.count += 1
        return self.observe(), float(action), self.count == self.length, False, {}

    def observe(self) -> np.ndarray:
        return np.array([self.episode, self.count, *self.bulk])
