"""Whether a recurrent policy learns from replayed sequences what needs memory: T-maze, a corridor of eight steps.

OMP_NUM_THREADS=1 PYTHONPATH=src:. .venv/bin/python benchmarks/replayed_sequences.py

The method is deep recurrent Q-learning as tests/algorithms/recurrent_q.py has it. The return is the share of right turns:
1 with a perfect memory, 0.5 for the best policy without one. Writes benchmarks/results/replayed_sequences.json (or --out)
and exits with 1 if a seed stays below 0.95.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from pathlib import Path

import torch
from tests.algorithms.recurrent_q import RecurrentQ, RecurrentQAlgorithm, RecurrentQConfig

from rl_training.config import register_algorithm

OUT = Path(__file__).parent / "results" / "replayed_sequences.json"
SETTINGS = {
    "learning_rate": 3e-3,
    "gamma": 0.95,
    "batch_size": 512,  # 16 pieces
    "length": 32,  # the longest episode
    "hidden": 16,
    "gradient_steps": 8,
    "target_update_interval": 50,
    "train_freq": 64,
    "learning_starts": 2_000,
    "buffer_size": 20_000,
}


def train(seed: int, steps: int) -> dict[str, float]:
    began = time.process_time()
    agent = RecurrentQ(
        "TMaze-v0", backend="native", n_envs=16, seed=seed, threads=1, compile=False, device="cpu", **SETTINGS
    )
    agent.learn(steps, progress=False)
    mean = agent.evaluate(100, deterministic=True).mean
    return {"seed": seed, "return": mean, "cpu_seconds": round(time.process_time() - began, 1)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--out", type=Path, default=OUT)
    arguments = parser.parse_args()
    register_algorithm("recurrent_q", RecurrentQAlgorithm, RecurrentQConfig)
    runs = []
    for seed in arguments.seeds:
        runs.append(train(seed, arguments.steps))
        print(runs[-1], flush=True)
    machine = {"python": platform.python_version(), "torch": torch.__version__, "cpu": platform.machine()}
    record = {"steps": arguments.steps, "settings": SETTINGS, "machine": machine, "runs": runs}
    arguments.out.write_text(json.dumps(record, indent=2) + "\n")
    return int(min(run["return"] for run in runs) < 0.95)


if __name__ == "__main__":
    sys.exit(main())
