"""Writes a small gymnasium environment, checks it against the contract and trains on it."""

from typing import Any

import gymnasium as gym
import numpy as np

from rl_training import PPO
from rl_training.envs import check


class Corridor(gym.Env):
    """Walk to the right end; every step costs, the end pays. Starts at a random cell."""

    def __init__(self, length: int = 8) -> None:
        self.length = length
        self.observation_space = gym.spaces.Box(0.0, 1.0, (1,), np.float32)
        self.action_space = gym.spaces.Discrete(2)  # left, right

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.position = int(self.np_random.integers(self.length - 1))
        self.elapsed = 0
        return self.observe(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        self.position = max(self.position + (1 if action == 1 else -1), 0)
        self.elapsed += 1
        terminated = self.position == self.length - 1  # no value after this
        truncated = self.elapsed >= 50  # cut here; learning bootstraps
        return self.observe(), 1.0 if terminated else -0.1, terminated, truncated, {}

    def observe(self) -> np.ndarray:
        return np.array([self.position / (self.length - 1)], dtype=np.float32)


class Broken(Corridor):
    """The same corridor with a mistake: randomness that the seed does not reach."""

    def observe(self) -> np.ndarray:
        return super().observe() * np.float32(np.random.default_rng().uniform(0.9, 1.0))


def main() -> None:
    check(Corridor)
    print("Corridor keeps the contract")
    try:
        check(Broken)
    except ValueError as error:
        print(error)

    agent = PPO(Corridor, n_envs=8, n_steps=32, batch_size=64, learning_rate=1e-3, seed=0)
    agent.learn(6_000)
    mean, _ = agent.evaluate(20)
    print(f"return {mean:.2f}")
    assert mean > 0.5


if __name__ == "__main__":
    main()
