"""Our speed beside Stable-Baselines3 and sb3-contrib: the same work, alternated in one run, ratios with their spread.

.venv/bin/python benchmarks/speed.py --sb3-python /path/to/python-with-sb3-and-contrib
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

import torch

import rl_training
from rl_training import Agent
from rl_training.experiment.run_directory import processor, write_atomically

FOLDER = Path(__file__).parent
CARTPOLE = {"env": "CartPole-v1", "n_envs": 8, "n_steps": 128, "batch_size": 256, "n_epochs": 4}
HALFCHEETAH = {"env": "HalfCheetah-v5", "n_envs": 8, "n_steps": 256, "batch_size": 512, "n_epochs": 10}
RECURRENT = {
    "algorithm": "RecurrentPPO",
    "env": "CartPole-v1",
    "n_envs": 8,
    "n_steps": 128,
    "batch_size": 128,
    "n_epochs": 10,
    "lstm_hidden_size": 64,
}


@dataclass(frozen=True)
class Cell:
    """Work for both libraries, what is ours alone, and how many rollouts make one measurement."""

    work: dict
    rollouts: int
    ours: dict = field(default_factory=dict)


CELLS = {
    "ppo-cartpole-gymnasium": Cell({"algorithm": "PPO", **CARTPOLE}, 30),
    "ppo-cartpole-native": Cell({"algorithm": "PPO", **CARTPOLE}, 30, {"backend": "native"}),
    "ppo-halfcheetah-gymnasium": Cell({"algorithm": "PPO", **HALFCHEETAH}, 8),
    "recurrent-ppo-cartpole-gymnasium": Cell(RECURRENT, 4),
    "recurrent-ppo-cartpole-native": Cell(RECURRENT, 4, {"backend": "native"}),
}


class Peer:
    """A process that measures the other library when asked."""

    def __init__(self, python: str, work: dict) -> None:
        self.process = subprocess.Popen(
            [python, str(FOLDER / "peers" / "sb3_speed.py"), json.dumps(work)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": str(work["threads"])},
        )
        self.versions = self.read()

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


def measure_ours(agent: Agent, work: dict, rollouts: int) -> float:
    return agent.learn(rollouts * work["n_steps"] * work["n_envs"], progress=False).steps_per_second


def run_cell(cell: Cell, python: str, repeats: int, threads: int) -> dict:
    work = cell.work | {"threads": threads}
    settings = {key: value for key, value in work.items() if key not in ("algorithm", "env")}
    agent = getattr(rl_training, work["algorithm"])(work["env"], seed=0, compile=True, **settings, **cell.ours)
    start = time.perf_counter()
    measure_ours(agent, work, 2)
    warm_up = time.perf_counter() - start
    peer = Peer(python, work)
    peer.measure(1)
    ours, theirs = [], []
    for _ in range(repeats):
        ours.append(measure_ours(agent, work, cell.rollouts))
        theirs.append(peer.measure(cell.rollouts))
    peer.close()
    ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
    return {
        "work": work | cell.ours,
        "compile_and_warm_up_s": round(warm_up, 1),
        "ours_steps_per_second": [round(x) for x in ours],
        "sb3_steps_per_second": [round(x) for x in theirs],
        "ratio_median": round(statistics.median(ratios), 2),
        "ratio_min": round(min(ratios), 2),
        "ratio_max": round(max(ratios), 2),
        "versions": {"rl_training": rl_training.__version__, "torch": torch.__version__} | peer.versions,
        "machine": {"processor": processor(), "cores": os.cpu_count(), "platform": platform.platform()},
        "load_average_after": os.getloadavg(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sb3-python", required=True, help="a Python that has stable-baselines3 and sb3-contrib")
    parser.add_argument("--cells", nargs="*", default=list(CELLS), choices=list(CELLS))
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, default=FOLDER / "results" / "speed.json")
    options = parser.parse_args()
    results = json.loads(options.out.read_text()) if options.out.exists() else {}
    for name in options.cells:
        results[name] = run_cell(CELLS[name], options.sb3_python, options.repeats, options.threads)
        print(name, json.dumps(results[name]), flush=True)
        options.out.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(options.out, json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
