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
        common: dict = {"seed": 0, "n_envs": 4, "compile": False, "learning_rate": 3e-3, "gamma": 0.5}
        return getattr(rl_training, self.name)(env, **common | self.settings | settings)


CASES = [
    Case("PPO", {"n_steps": 32, "batch_size": 64, "n_epochs": 4}, 12_000),
    Case("A2C", {"n_steps": 8, "gae_lambda": 0.95}, 16_000),
    Case("TRPO", {"n_steps": 64, "batch_size": 64, "target_kl": 0.05, "cg_max_steps": 10}, 4_000),
    Case("RecurrentPPO", {"n_steps": 32, "batch_size": 64, "n_epochs": 4, "lstm_hidden_size": 16}, 6_000),
]
