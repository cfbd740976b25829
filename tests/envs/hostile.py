"""An environment whose every answer can be replaced, to see what is said of wrong ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from rl_training.envs import EnvConfig, VectorEnv, make_env
from rl_training.envs.make import FACTORIES

VECTORIZATIONS = ("sync", "async")


class Scripted(gym.Env):
    """Ends after five steps; what it observes, returns and does at a step can be given."""

    def __init__(
        self,
        *,
        observation_space: gym.Space | None = None,
        action_space: gym.Space | None = None,
        observe: Callable[[int], Any] | None = None,
        answer: Callable[[tuple], Any] = lambda answer: answer,
        first: Callable[[tuple], Any] = lambda answer: answer,
        on_step: Callable[[int], object] = lambda count: None,
    ) -> None:
        self.observation_space = observation_space or spaces.Box(-9.0, 9.0, (2,), np.float32)
        self.action_space = action_space or spaces.Discrete(2)
        self.observe = observe or (lambda count: np.zeros(2, np.float32))
        self.answer, self.first, self.on_step = answer, first, on_step

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.count = 0
        return self.first((self.observe(0), {}))

    def step(self, action: Any) -> Any:
        self.count += 1
        self.on_step(self.count)
        return self.answer((self.observe(self.count), 1.0, False, self.count >= 5, {}))


def open_scripted(
    factory: Callable[..., gym.Env], vectorization: str, num_envs: int = 2, timeout_s: float | None = None
) -> VectorEnv:
    """Environments of a factory, by the way that users take."""
    name = f"tests:{id(factory)}"
    FACTORIES[name] = factory
    try:
        config = EnvConfig(id=name, n_envs=num_envs, vectorization=vectorization, timeout_s=timeout_s)  # pyrefly: ignore
        return make_env(config)
    finally:
        del FACTORIES[name]
