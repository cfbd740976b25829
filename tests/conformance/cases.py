"""Every algorithm in the suite: a new one joins by adding one line."""

from dataclasses import dataclass

import rl_training
from rl_training import Agent


@dataclass(frozen=True)
class Case:
    """An algorithm with settings small enough for a test, and how many steps it needs on a probe."""

    name: str
    settings: dict[str, object]
    probe_steps: int

    def agent(self, env: object, **settings: object) -> Agent:
        merged: dict = {"seed": 0, "n_envs": 4, "compile": False} | self.settings | settings
        return getattr(rl_training, self.name)(env, **merged)


CASES = [
    Case("PPO", {"n_steps": 32, "batch_size": 64, "n_epochs": 4, "learning_rate": 3e-3, "gamma": 0.5}, 12_000),
    Case("A2C", {"n_steps": 8, "learning_rate": 3e-3, "gamma": 0.5, "gae_lambda": 0.95}, 16_000),
]
