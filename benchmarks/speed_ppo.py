"""PPO's speed beside Stable-Baselines3: the same work, alternated in one run, ratios with their spread.

.venv/bin/python benchmarks/speed_ppo.py --sb3-python /path/to/python-with-sb3
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import time
from pathlib import Path

import torch

from rl_training import PPO, __version__
from rl_training.experiment.run_directory import processor

FOLDER = Path(__file__).parent
CELLS = {
    "cartpole-gymnasium": (
        {"env": "CartPole-v1", "n_envs": 8, "n_steps": 128, "batch_size": 256, "n_epochs": 4},
        {},
        30,
    ),
    "cartpole-native": (
        {"env": "CartPole-v1", "n_envs": 8, "n_steps": 128, "batch_size": 256, "n_epochs": 4},
        {"backend": "native"},
        30,
    ),
    "halfcheetah-gymnasium": (
        {"env": "HalfCheetah-v5", "n_envs": 8, "n_steps": 256, "batch_size": 512, "n_epochs": 10},
        {},
        8,
    ),
}


class Peer:
    """A process that measures SB3 when asked."""

    def __init__(self, python: str, work: dict, threads: int) -> None:
        flags = [f"--{key.replace('_', '-')}={value}" for key, value in work.items()]
        self.process = subprocess.Popen(
            [python, str(FOLDER / "peers" / "sb3_speed.py"), *flags, f"--threads={threads}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": str(threads)},
        )
        self.version = self.read()["ready"]

    def read(self) -> dict:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def measure(self, rollouts: int) -> float:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"rollouts": rollouts}) + "\n")
        self.process.stdin.flush()
        return self.read()["steps_per_second"]

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def measure_ours(agent: PPO, rollouts: int) -> float:
    settings = agent.config
    return agent.learn(rollouts * settings.algorithm.n_steps * settings.env.n_envs, progress=False).steps_per_second


def run_cell(name: str, python: str, repeats: int, threads: int) -> dict:
    work, extra, rollouts = CELLS[name]
    ours_work = {key: value for key, value in work.items() if key != "env"}
    agent = PPO(work["env"], seed=0, compile=True, threads=threads, **ours_work, **extra)
    start = time.perf_counter()
    measure_ours(agent, 2)
    warm_up = time.perf_counter() - start
    peer = Peer(python, work, threads)
    peer.measure(1)
    ours, theirs = [], []
    for _ in range(repeats):
        ours.append(measure_ours(agent, rollouts))
        theirs.append(peer.measure(rollouts))
    peer.close()
    ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
    return {
        "cell": name,
        "work": work | extra,
        "threads": threads,
        "compile_and_warm_up_s": round(warm_up, 1),
        "ours_steps_per_second": [round(x) for x in ours],
        "sb3_steps_per_second": [round(x) for x in theirs],
        "ratio_median": round(statistics.median(ratios), 2),
        "ratio_min": round(min(ratios), 2),
        "ratio_max": round(max(ratios), 2),
        "versions": {"rl_training": __version__, "torch": torch.__version__, "sb3": peer.version},
        "machine": {"processor": processor(), "cores": os.cpu_count(), "platform": platform.platform()},
        "load_average": os.getloadavg(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sb3-python", required=True)
    parser.add_argument("--cells", nargs="*", default=list(CELLS))
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, default=FOLDER / "results" / "speed_ppo.json")
    options = parser.parse_args()
    results = json.loads(options.out.read_text()) if options.out.exists() else {}
    for name in options.cells:
        results[name] = run_cell(name, options.sb3_python, options.repeats, options.threads)
        print(json.dumps(results[name]))
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
