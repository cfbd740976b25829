"""Stores agents as this version saves them, in the middle of their runs, and where they were when they finished.

PYTHONPATH=. .venv/bin/python tests/golden/store_checkpoints.py FOLDER

tests/experiment/test_checkpoint_older.py loads what version 0.1.0 wrote: it must act as it did then, and finish its run.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
from tests.offline import rlpd, steps_of

import rl_training
from rl_training import Agent

SMALL: dict[str, object] = {"seed": 3, "threads": 1, "compile": False, "n_envs": 2, "learning_rate": "lin_1e-2"}
REPLAY: dict[str, object] = SMALL | {
    "buffer_size": 40, "learning_starts": 16, "batch_size": 8, "train_freq": 4, "gradient_steps": 2, "net_arch": [8],
}  # fmt: skip
ROLLOUT: dict[str, object] = SMALL | {"n_steps": 16, "batch_size": 16, "n_epochs": 2, "net_arch": [8]}
ROWS = 5


def paused(agent: Agent, total: int, at: int) -> Agent:
    agent.learn(total, stop_at=at, progress=False)
    return agent


def agents() -> dict[str, Agent]:
    both = rlpd(total_updates=40, total_timesteps=80)
    both.learn(stop_at=76, progress=False)
    return {
        "ppo": paused(rl_training.PPO("CartPole-v1", normalize_observation=True, normalize_reward=True, **ROLLOUT), 128, 70),
        "recurrent_ppo": paused(
            rl_training.RecurrentPPO("Pendulum-v1", lstm_hidden_size=4, **ROLLOUT), 128, 52
        ),
        "rainbow_dqn": paused(rl_training.RainbowDQN("CartPole-v1", n_atoms=5, **REPLAY), 120, 66),
        "sac": paused(rl_training.SAC("Pendulum-v1", normalize_observation=True, **REPLAY), 120, 66),
        "rlpd": both,
    }  # fmt: skip


def observations(agent: Agent) -> torch.Tensor:
    size = agent.spec.obs.size  # pyrefly: ignore (Boxes all)
    return torch.linspace(-1, 1, ROWS * size).view(ROWS, size)


def main(folder: Path) -> None:
    steps_of("Pendulum-v1").save(folder / "pendulum.npz")
    for name, agent in agents().items():
        agent.save(folder / name)
        seen = observations(agent)
        action, _ = agent.predict(seen.numpy())
        agent.learn(progress=False)
        after = {f"after.{key}": value.detach().clone() for key, value in agent.algorithm.named_parameters()}
        save_file({"obs": seen, "action": torch.as_tensor(action), **after}, folder / f"{name}.safetensors")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
