"""An environment that counts, so that every number it must produce is known in advance."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor

from rl_training.core import Box, Discrete, Spec
from rl_training.envs import EnvStep, NativeDynamics, VectorEnv

HORIZON = 1e6


class CountingEnv(gym.Env):
    """Observes (episode number, step number); reward is the step number.

    Even episodes terminate after `terminate_after` steps, odd ones are truncated after `truncate_after`.
    """

    def __init__(self, terminate_after: int = 3, truncate_after: int = 5) -> None:
        self.observation_space = gym.spaces.Box(-1.0, HORIZON, (2,), np.float32)
        self.action_space = gym.spaces.Discrete(2)
        self.terminate_after, self.truncate_after = terminate_after, truncate_after
        self.episode, self.count = -1, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        # A seed starts the whole sequence afresh; without one the next episode follows.
        self.episode, self.count = (0 if seed is not None else self.episode + 1), 0
        return self.observation(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        self.count += 1
        ends = self.count >= (self.terminate_after if self.episode % 2 == 0 else self.truncate_after)
        terminated = bool(ends and self.episode % 2 == 0)
        return self.observation(), float(self.count), terminated, bool(ends and not terminated), {}

    def observation(self) -> np.ndarray:
        return np.array([self.episode, self.count], dtype=np.float32)


class CountingDynamics(NativeDynamics):
    """The terminating half of the counting environment as tensor code; the time limit truncates."""

    num_random = 1
    spec = Spec(Box((2,), (-1.0, -1.0), (HORIZON, HORIZON)), Discrete(2))

    def __init__(self, terminate_after: int = 3, max_episode_steps: int = 5) -> None:
        self.terminate_after, self.max_episode_steps = terminate_after, max_episode_steps

    def initial(self, uniform: Tensor) -> Tensor:
        return torch.cat([(uniform < 0.5).to(uniform.dtype), torch.zeros_like(uniform)], -1)

    def step(self, state: Tensor, action: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        kind, count = state.unbind(-1)
        count = count + 1
        terminated = (kind == 0) & (count >= self.terminate_after)
        return torch.stack([kind, count], -1), count, terminated


class CountingVector(VectorEnv):
    """Episodes of `length` steps, all at once and without gymnasium; observes the step number."""

    spec = Spec(Box((1,), (0.0,), (HORIZON,)), Discrete(2))
    state_kind = "exact"

    def __init__(self, num_envs: int, length: int = 3) -> None:
        self.num_envs, self.length, self.count = num_envs, length, torch.zeros(num_envs, 1)

    def reset(self, seed: int) -> Tensor:
        self.count = torch.zeros(self.num_envs, 1)
        return self.count

    def step(self, action: Tensor) -> EnvStep:
        count = self.count + 1
        ended = count[:, 0] >= self.length
        self.count = count.masked_fill(ended.unsqueeze(-1), 0)
        never = torch.zeros_like(ended)
        return EnvStep(count[:, 0], ended, never, count, self.count, ~never)

    def get_state(self) -> dict:
        return {"count": self.count}

    def set_state(self, state: dict) -> None:
        self.count = state["count"]
