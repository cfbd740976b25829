"""Stable-Baselines3 and sb3-contrib with the settings of our presets, scored as our runs are (`learning.py`).

Run in an environment that has them, with one JSON argument: name, seed, target file and settings of a cell.
"""

import json
import statistics
import sys
import time
from pathlib import Path

import gymnasium
import sb3_contrib
import stable_baselines3
import torch
from sb3_contrib import TRPO
from stable_baselines3 import PPO, SAC, HerReplayBuffer
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import VecEnv, VecNormalize, sync_envs_normalization

PLACE = ("env", "n_envs", "total_timesteps", "normalize", "hindsight")
KINDS = {"PPO": PPO, "SAC": SAC, "TRPO": TRPO}


def make_env(cell: dict, seed: int, *, training: bool, n_envs: int) -> VecEnv:
    if cell["env"].startswith("Fetch"):
        import gymnasium_robotics  # noqa: F401  (its import registers them)
    env = make_vec_env(cell["env"], n_envs=n_envs, seed=seed)
    if cell["normalize"]:
        scaled = training and "hindsight" not in cell  # rewards for other goals come unscaled
        env = VecNormalize(env, training=training, norm_reward=scaled, gamma=cell["settings"].get("gamma", 0.99))
    return env


def build(cell: dict, env: VecEnv, seed: int) -> BaseAlgorithm:
    kind, settings = KINDS[cell["algorithm"]], cell["settings"]
    if "hindsight" not in cell:
        return kind("MlpPolicy", env, seed=seed, device="cpu", **settings)
    goals = {"replay_buffer_class": HerReplayBuffer, "replay_buffer_kwargs": cell["hindsight"]}
    return kind("MultiInputPolicy", env, seed=seed, device="cpu", **settings, **goals)


class Evaluations(BaseCallback):
    """Ten deterministic episodes at every 20th of the budget."""

    def __init__(self, cell: dict, seed: int) -> None:
        super().__init__()
        self.cell, self.rows, self.successes, self.ended = cell, [], [], []
        # Far apart: environment i gets seed + i, and shared start states would tie the seeds' scores together.
        self.env = make_env(cell, 10_000 + 1_000 * seed, training=False, n_envs=5)

    def _on_step(self) -> bool:
        if self.num_timesteps % (self.cell["total_timesteps"] // 20) == 0:
            if self.cell["normalize"]:
                sync_envs_normalization(self.training_env, self.env)
            self.ended.clear()
            mean = float(evaluate_policy(self.model, self.env, 10, callback=self.look)[0])
            self.rows.append((self.num_timesteps, mean))
            if self.ended:
                self.successes.append((self.num_timesteps, statistics.fmean(self.ended)))
        return True

    def look(self, seen: dict, _: dict) -> None:
        """Keeps whether an episode of the evaluation that has ended succeeded, where the environment says so."""
        if seen["done"] and "is_success" in seen["info"]:
            self.ended.append(float(seen["info"]["is_success"]))


def run_one(cell: dict) -> None:
    torch.set_num_threads(1)
    name, seed, target = cell["name"], cell["seed"], Path(cell["target"])
    env = make_env(cell, 100 * seed, training=True, n_envs=cell["n_envs"])
    model = build(cell, env, seed)
    evaluations = Evaluations(cell, seed)
    start = time.perf_counter()
    model.learn(cell["total_timesteps"], callback=evaluations)
    rows = [row for row in evaluations.rows if row[0] <= cell["total_timesteps"]]
    record = {
        "cell": name,
        "reference": f"peer: {KINDS[cell['algorithm']].__module__.split('.')[0]}",
        "seed": seed,
        "score": statistics.fmean(mean for _, mean in (evaluations.successes or rows)[-10:]),
        "best_evaluation": max(mean for _, mean in rows),
        "training_return_last_100": statistics.fmean(e["r"] for e in model.ep_info_buffer),
        "evaluations": rows,
        **({"successes": evaluations.successes} if evaluations.successes else {}),
        "wall_time_s": round(time.perf_counter() - start, 1),
        "settings": cell["settings"] | {key: cell[key] for key in PLACE if key in cell},
        "versions": {
            "stable_baselines3": stable_baselines3.__version__,
            "sb3_contrib": sb3_contrib.__version__,
            "torch": torch.__version__,
            "gymnasium": gymnasium.__version__,
        },
    }
    partial = target.with_suffix(".part")
    partial.write_text(json.dumps(record, indent=1) + "\n")
    partial.replace(target)
    print(f"{name} seed {seed}: {record['score']:.1f}, {record['wall_time_s']} s", flush=True)


if __name__ == "__main__":
    run_one(json.loads(sys.argv[1]))
