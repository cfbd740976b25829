"""Pauses a run, resumes it from its checkpoint, and compares it with a run that was never paused, bit by bit."""

import tempfile
from pathlib import Path

import torch

from rl_training import PPO, RunConfig

CONFIG = {
    "algorithm": {"name": "ppo", "n_steps": 32, "batch_size": 64, "n_epochs": 4, "learning_rate": "lin_1e-3"},
    "env": {"id": "CartPole-v1", "n_envs": 4},
    "training": {"total_timesteps": 4000, "seed": 3},
}


def main() -> None:
    config = RunConfig.from_mapping(CONFIG)
    with tempfile.TemporaryDirectory() as folder:
        through = PPO(config, run_dir=Path(folder) / "through")
        through.learn()

        paused = PPO(config, run_dir=Path(folder) / "paused")
        result = paused.learn(stop_at=1500)  # in the middle of a rollout, which is kept
        print(f"{result.status}: {result.reason}")

        resumed = PPO.resume(Path(folder) / "paused")
        result = resumed.learn()
        print(f"{result.status}: {result.total_timesteps} steps")

    ours, theirs = resumed.algorithm.state_dict(), through.algorithm.state_dict()
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    print(f"all {len(ours)} tensors of networks and optimizer are equal, bit for bit")


if __name__ == "__main__":
    main()
