"""Stable-Baselines3 and sb3-contrib with the settings of our presets, scored as in `learn.py`.

/path/to/python-with-sb3 benchmarks/peers/sb3_learn.py --cells ppo-pendulum-sb3 --seeds 0 1 2 3 4
"""

import argparse
import json
import statistics
import time
from pathlib import Path

import gymnasium
import sb3_contrib
import stable_baselines3
import torch
from sb3_contrib import TRPO
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import VecEnv, VecNormalize, sync_envs_normalization

FOLDER = Path(__file__).parent.parent / "results" / "learning"
CELLS = {
    "ppo-pendulum-sb3": {
        "algorithm": PPO,
        "env": "Pendulum-v1",
        "n_envs": 4,
        "total_timesteps": 100_000,
        "normalize": False,
        "settings": {
            "n_steps": 1024,
            "batch_size": 64,
            "n_epochs": 10,
            "gamma": 0.9,
            "gae_lambda": 0.95,
            "learning_rate": 1e-3,
        },
    },
    "trpo-hopper-300k-sb3": {
        "algorithm": TRPO,
        "env": "Hopper-v5",
        "n_envs": 2,
        "total_timesteps": 300_000,
        "normalize": True,
        "settings": {
            "n_steps": 1024,
            "batch_size": 128,
            "n_critic_updates": 20,
            "cg_max_steps": 25,
            "cg_damping": 0.1,
            "learning_rate": 1e-3,
        },
    },
}


def make_env(cell: dict, seed: int, *, training: bool, n_envs: int) -> VecEnv:
    env = make_vec_env(cell["env"], n_envs=n_envs, seed=seed)
    if cell["normalize"]:
        env = VecNormalize(env, training=training, norm_reward=training, gamma=cell["settings"].get("gamma", 0.99))
    return env


class Evaluations(BaseCallback):
    """Ten deterministic episodes at every 20th of the budget."""

    def __init__(self, cell: dict, seed: int) -> None:
        super().__init__()
        self.cell, self.rows = cell, []
        # Far apart: environment i gets seed + i, and shared start states would tie the seeds' scores together.
        self.env = make_env(cell, 10_000 + 1_000 * seed, training=False, n_envs=5)

    def _on_step(self) -> bool:
        if self.num_timesteps % (self.cell["total_timesteps"] // 20) == 0:
            if self.cell["normalize"]:
                sync_envs_normalization(self.training_env, self.env)
            self.rows.append((self.num_timesteps, float(evaluate_policy(self.model, self.env, 10)[0])))
        return True


def run_one(name: str, seed: int) -> None:
    target = FOLDER / name / f"seed{seed}.json"
    if target.exists():
        return
    torch.set_num_threads(1)
    cell = CELLS[name]
    env = make_env(cell, 100 * seed, training=True, n_envs=cell["n_envs"])
    model = cell["algorithm"]("MlpPolicy", env, seed=seed, device="cpu", **cell["settings"])
    evaluations = Evaluations(cell, seed)
    start = time.perf_counter()
    model.learn(cell["total_timesteps"], callback=evaluations)
    rows = [row for row in evaluations.rows if row[0] <= cell["total_timesteps"]]
    record = {
        "cell": name,
        "reference": f"peer: {cell['algorithm'].__module__.split('.')[0]}",
        "seed": seed,
        "score": statistics.fmean(mean for _, mean in rows[-10:]),
        "best_evaluation": max(mean for _, mean in rows),
        "training_return_last_100": statistics.fmean(e["r"] for e in model.ep_info_buffer),
        "evaluations": rows,
        "wall_time_s": round(time.perf_counter() - start, 1),
        "settings": cell["settings"] | {key: cell[key] for key in ("env", "n_envs", "total_timesteps", "normalize")},
        "versions": {
            "stable_baselines3": stable_baselines3.__version__,
            "sb3_contrib": sb3_contrib.__version__,
            "torch": torch.__version__,
            "gymnasium": gymnasium.__version__,
        },
    }
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(record, indent=1) + "\n")
    print(f"{name} seed {seed}: {record['score']:.1f}, {record['wall_time_s']} s", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", nargs="*", default=list(CELLS), choices=list(CELLS))
    parser.add_argument("--seeds", nargs="*", type=int, default=[0, 1, 2, 3, 4])
    options = parser.parse_args()
    for cell_name in options.cells:
        for number in options.seeds:
            run_one(cell_name, number)
