"""Our speed beside Stable-Baselines3, sb3-contrib and SBX: the same work, alternated in one run, ratios with their spread.

.venv/bin/python benchmarks/speed.py --sb3-python /path/to/python-with-sb3-and-contrib --sbx-python /path/to/one-with-sbx
.venv/bin/python benchmarks/speed.py --cells dqn-cartpole-gymnasium dqn-prioritized-1m --sb3-python ...

Cells that are not chosen keep their rows. An option is measured against ourselves without it, as a ratio of times: what
it makes of a whole training step, from the environment to the update of the priorities. For prioritised replay both
buffers of a million rows are first filled to the last row by random steps through the same environment, so that draws
and new priorities fall on memory that is not in the cache; then both learn for a while before the first measurement.
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
DQN = {
    "algorithm": "DQN",
    "env": "CartPole-v1",
    "n_envs": 1,
    "net_arch": [128, 128],
    "batch_size": 128,
    "train_freq": 1,
    "gradient_steps": 1,
    "buffer_size": 50_000,
    "learning_starts": 1_000,
    "target_update_interval": 500,
    "exploration_initial_eps": 0.05,  # the same at all times: a random action costs less than one of the network
    "exploration_final_eps": 0.05,
}
CONTINUOUS = {
    "env": "HalfCheetah-v5",
    "n_envs": 1,
    "net_arch": [256, 256],
    "batch_size": 256,
    "train_freq": 1,
    "gradient_steps": 1,
    "buffer_size": 100_000,
    "learning_starts": 500,
}
SAC, TD3, TQC = ({"algorithm": name, **CONTINUOUS} for name in ("SAC", "TD3", "TQC"))
CROSSQ = {"algorithm": "CrossQ", **CONTINUOUS, "critic_net_arch": [1024, 1024]}
# SBX has REDQ's critics and updates, but no random subset of them in the targets.
REDQ = {"algorithm": "REDQ", **CONTINUOUS, "gradient_steps": 20}
MILLION = DQN | {"buffer_size": 1_000_000, "learning_starts": 1_000_000}


@dataclass(frozen=True)
class Cell:
    """Work for both libraries, env steps of the warm-up and of one measurement, and what is ours alone."""

    work: dict
    warm_up: int
    steps: int
    ours: dict = field(default_factory=dict)
    peer: str = "sb3"
    threads: int = 1


@dataclass(frozen=True)
class OptionCell:
    """Work of ours, done with an option and without it."""

    work: dict
    warm_up: int
    steps: int
    option: dict


CELLS = {
    "ppo-cartpole-gymnasium": Cell({"algorithm": "PPO", **CARTPOLE}, 2 * 1024, 30 * 1024),
    "ppo-cartpole-native": Cell({"algorithm": "PPO", **CARTPOLE}, 2 * 1024, 30 * 1024, {"backend": "native"}),
    "ppo-halfcheetah-gymnasium": Cell({"algorithm": "PPO", **HALFCHEETAH}, 2 * 2048, 8 * 2048),
    "recurrent-ppo-cartpole-gymnasium": Cell(RECURRENT, 2 * 1024, 4 * 1024),
    "recurrent-ppo-cartpole-native": Cell(RECURRENT, 2 * 1024, 4 * 1024, {"backend": "native"}),
    "dqn-cartpole-gymnasium": Cell(DQN, 3_000, 10_000),
    "sac-halfcheetah": Cell(SAC, 900, 600, threads=2),
    "sac-halfcheetah-sbx": Cell(SAC, 900, 600, peer="sbx", threads=2),
    "td3-halfcheetah": Cell(TD3, 900, 1_000, threads=2),
    "td3-halfcheetah-sbx": Cell(TD3, 900, 1_000, peer="sbx", threads=2),
    "tqc-halfcheetah": Cell(TQC, 900, 400, threads=2),
    "tqc-halfcheetah-sbx": Cell(TQC, 900, 400, peer="sbx", threads=2),
    "crossq-halfcheetah": Cell(CROSSQ, 900, 300, threads=2),
    "crossq-halfcheetah-sbx": Cell(CROSSQ, 900, 300, peer="sbx", threads=2),
    "redq-halfcheetah-sbx": Cell(REDQ, 540, 40, peer="sbx", threads=2),
    "dqn-prioritized-1m": OptionCell(MILLION, MILLION["learning_starts"] + 3_000, 10_000, {"prioritized": True}),
}


class Peer:
    """A process that measures the other library when asked."""

    def __init__(self, name: str, python: str, work: dict) -> None:
        self.process = subprocess.Popen(
            [python, str(FOLDER / "peers" / f"{name}_speed.py"), json.dumps(work)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": str(work["threads"])},
        )
        self.versions = self.read()

    def read(self) -> dict:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def measure(self, num_steps: int) -> float:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"steps": num_steps}) + "\n")
        self.process.stdin.flush()
        return self.read()["steps_per_second"]

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def build_ours(work: dict) -> Agent:
    settings = {key: value for key, value in work.items() if key not in ("algorithm", "env")}
    return getattr(rl_training, work["algorithm"])(work["env"], seed=0, compile=True, **settings)


def measure_ours(agent: Agent, num_steps: int) -> float:
    return agent.learn(num_steps, progress=False).steps_per_second


def run_cell(cell: Cell, python: str, repeats: int) -> dict:
    work = cell.work | {"threads": cell.threads}
    agent = build_ours(work | cell.ours)
    start = time.perf_counter()
    measure_ours(agent, cell.warm_up)
    warm_up = time.perf_counter() - start
    peer = Peer(cell.peer, python, work)
    peer.measure(cell.warm_up)
    ours, theirs = [], []
    for _ in range(repeats):
        ours.append(measure_ours(agent, cell.steps))
        theirs.append(peer.measure(cell.steps))
    peer.close()
    return {
        "work": work | cell.ours,
        "compile_and_warm_up_s": round(warm_up, 1),
        "ours_steps_per_second": [round(x, 1) for x in ours],
        "peer": cell.peer,
        "peer_steps_per_second": [round(x, 1) for x in theirs],
        **spread("ratio", [a / b for a, b in zip(ours, theirs, strict=True)]),
        **circumstances(peer.versions),
    }


def run_option(cell: OptionCell, repeats: int) -> dict:
    work = cell.work | {"threads": 1}
    start = time.perf_counter()
    agents = build_ours(work | cell.option), build_ours(work)
    for agent in agents:
        measure_ours(agent, cell.warm_up)
    warm_up = time.perf_counter() - start
    speeds = [[measure_ours(agent, cell.steps) for agent in agents] for _ in range(repeats)]
    return {
        "work": work,
        "option": cell.option,
        "compile_and_warm_up_s": round(warm_up, 1),
        "with_option_steps_per_second": [round(x) for x, _ in speeds],
        "without_option_steps_per_second": [round(x) for _, x in speeds],
        **spread("time_ratio", [without / with_option for with_option, without in speeds]),
        **circumstances({}),
    }


def spread(name: str, ratios: list[float]) -> dict[str, float]:
    numbers = {"median": statistics.median(ratios), "min": min(ratios), "max": max(ratios)}
    return {f"{name}_{key}": round(number, 2) for key, number in numbers.items()}


def circumstances(peer_versions: dict) -> dict:
    return {
        "versions": {"rl_training": rl_training.__version__, "torch": torch.__version__} | peer_versions,
        "machine": {"processor": processor(), "cores": os.cpu_count(), "platform": platform.platform()},
        "load_average_after": os.getloadavg(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sb3-python", help="a Python that has stable-baselines3 and sb3-contrib")
    parser.add_argument("--sbx-python", help="a Python that has sbx-rl; its cells are left out without it")
    parser.add_argument("--cells", nargs="*", default=list(CELLS), choices=list(CELLS))
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--out", type=Path, default=FOLDER / "results" / "speed.json")
    options = parser.parse_args()
    results = json.loads(options.out.read_text()) if options.out.exists() else {}
    pythons = {"sb3": options.sb3_python, "sbx": options.sbx_python}
    for name in options.cells:
        cell = CELLS[name]
        if isinstance(cell, OptionCell):
            results[name] = run_option(cell, options.repeats)
        elif pythons[cell.peer]:
            results[name] = run_cell(cell, pythons[cell.peer], options.repeats)
        else:
            print(f"{name} is left out: it needs --{cell.peer}-python")
            continue
        print(name, json.dumps(results[name]), flush=True)
        options.out.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(options.out, json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
