"""Small agents whose environments may be stepped by samplers, and what they end with."""

from __future__ import annotations

from pathlib import Path

import rl_training
from rl_training import Agent
from tests.distributed.envs import Balanced, Masked
from tests.goals import Corridor
from tests.offline import QUICK, state_of

ROLLOUT = QUICK | {"n_steps": 8, "n_epochs": 2, "n_envs": 4, "total_timesteps": 128, "log_interval": 32}
REPLAY = QUICK | {
    "learning_starts": 24, "train_freq": 4, "gradient_steps": 2, "buffer_size": 96, "n_envs": 4, "total_timesteps": 96,
}  # fmt: skip
FILES = {"evaluation": {"episodes": 1}, "checkpoint": {"interval": 10_000}}
CASES: dict[str, tuple[str, object, dict]] = {
    "PPO": ("PPO", "CartPole-v1", ROLLOUT | {"normalize_observation": True}),
    "RecurrentPPO": ("RecurrentPPO", "CartPole-v1", ROLLOUT | {"lstm_hidden_size": 8}),
    "SAC": ("SAC", "Pendulum-v1", REPLAY),
    "masks": ("DQN", Masked, REPLAY),
    "masked rollouts": ("PPO", Masked, ROLLOUT),
    "noise that drifts": ("TD3", "Pendulum-v1", REPLAY | {"action_noise": "ou"}),
    "columns of episodes": ("PPO", Balanced, ROLLOUT | {"info_keys": ["far"], "max_episode_steps": 10}),
    "hindsight": ("DQN", Corridor, REPLAY | {"hindsight": {"strategy": "future", "k": 4}}),
}


def make(case: str, run_dir: Path | None = None, **settings: object) -> Agent:
    name, env, own = CASES[case]
    files = FILES if run_dir is not None else {}
    return getattr(rl_training, name)(env, run_dir=run_dir, **own | files | settings)


def trained(case: str, **settings: object) -> dict:
    """Where a run ends that nothing happens to."""
    return ended(make(case, **settings))


def ended(agent: Agent) -> dict:
    """What an agent holds after its budget."""
    try:
        agent.learn(progress=False)
        return state_of(agent)
    finally:
        agent.close()
