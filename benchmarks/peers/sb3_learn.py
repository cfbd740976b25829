"""Stable-Baselines3's PPO on Pendulum-v1 with the settings of the preset `ppo/pendulum`, scored as in `learn.py`.

/path/to/python-with-sb3 benchmarks/peers/sb3_learn.py --seeds 0 1 2 3 4
"""

import argparse
import json
import statistics
import time
from pathlib import Path

import gymnasium
import stable_baselines3
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy

FOLDER = Path(__file__).parent.parent / "results" / "learning" / "ppo-pendulum-sb3"
SETTINGS = {"n_steps": 1024, "batch_size": 64, "n_epochs": 10, "gamma": 0.9, "gae_lambda": 0.95, "learning_rate": 1e-3}
TOTAL, N_ENVS = 100_000, 4


class Evaluations(BaseCallback):
    """Ten deterministic episodes at every 20th of the budget."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.env = make_vec_env("Pendulum-v1", n_envs=5, seed=10_000 + seed)
        self.rows: list[tuple[int, float]] = []

    def _on_step(self) -> bool:
        if self.num_timesteps % (TOTAL // 20) == 0:
            self.rows.append((self.num_timesteps, float(evaluate_policy(self.model, self.env, 10)[0])))
        return True


def run_one(seed: int) -> None:
    target = FOLDER / f"seed{seed}.json"
    if target.exists():
        return
    torch.set_num_threads(1)
    # The same optimizer epsilon as ours; SB3's own default for PPO is 1e-5 as well.
    model = PPO("MlpPolicy", make_vec_env("Pendulum-v1", n_envs=N_ENVS, seed=seed), seed=seed, device="cpu", **SETTINGS)
    evaluations = Evaluations(seed)
    start = time.perf_counter()
    model.learn(TOTAL, callback=evaluations)
    rows = [row for row in evaluations.rows if row[0] <= TOTAL]
    record = {
        "cell": "ppo-pendulum-sb3",
        "reference": "peer: Stable-Baselines3",
        "seed": seed,
        "score": statistics.fmean(mean for _, mean in rows[-10:]),
        "best_evaluation": max(mean for _, mean in rows),
        "training_return_last_100": statistics.fmean(e["r"] for e in model.ep_info_buffer),
        "evaluations": rows,
        "wall_time_s": round(time.perf_counter() - start, 1),
        "settings": SETTINGS | {"n_envs": N_ENVS, "total_timesteps": TOTAL},
        "versions": {
            "stable_baselines3": stable_baselines3.__version__,
            "torch": torch.__version__,
            "gymnasium": gymnasium.__version__,
        },
    }
    FOLDER.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(record, indent=1) + "\n")
    print(f"sb3 pendulum seed {seed}: {record['score']:.1f}, {record['wall_time_s']} s", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", nargs="*", type=int, default=[0, 1, 2, 3, 4])
    for seed in parser.parse_args().seeds:
        run_one(seed)
