"""DQN and PPO on Pong on one GPU, each compared with another library over the same vector environment of ale-py.

python benchmarks/pong_on_gpu.py --sb3-python PYTHON --out FOLDER           # on an H200 with 16 cores: about five minutes
python benchmarks/pong_on_gpu.py --sb3-python PYTHON --out FOLDER --tiny    # the same program on a CPU, to try it first

The five minutes are an estimate. `bench speed` has these cells, too. `dqn-pong-gpu` is compared with Stable-Baselines3, and
`ppo-pong-gpu` with CleanRL's loop, which needs torch and ale-py only. The emulators alone, which bound both, are measured
first. PYTHON has Stable-Baselines3, sb3-contrib, torch and ale-py; it needs no OpenCV. `speed.json` in the folder is written
after each measurement.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import torch

from rl_training.bench.speed import machine_and_versions, run_cell, sentence
from rl_training.bench.speed_cells import SPEED, SpeedCell
from rl_training.core import Discrete
from rl_training.envs import EnvConfig, make_env
from rl_training.experiment.run_directory import write_atomically

PAIRS = {"dqn-pong-gpu": "sb3", "ppo-pong-gpu": "cleanrl"}
ALONE_SECONDS = 8.0
TINY = {
    "dqn-pong-gpu": {"device": "cpu", "buffer_size": 400, "learning_starts": 80},
    "ppo-pong-gpu": {"device": "cpu", "n_envs": 8, "n_steps": 16, "batch_size": 32},
}
TINY_STEPS = 256  # a multiple of PPO's 8 x 16


def shrink(name: str, cell: SpeedCell) -> SpeedCell:
    """Returns the same cell on the CPU, with so few steps that it only shows that its program runs."""
    return replace(cell, work=cell.work | TINY[name], warm_up=TINY_STEPS, steps=TINY_STEPS)


def emulators_alone(cell: SpeedCell, seconds: float) -> dict[str, object]:
    """Steps the games of a cell with random actions; returns a row of `speed.json` with the steps per second."""
    config = EnvConfig(id=cell.work["env"], n_envs=cell.work["n_envs"], kwargs=cell.ours["kwargs"])
    with closing(make_env(config)) as env:
        env.reset(seed=0)
        assert isinstance(env.spec.action, Discrete)
        actions = torch.randint(env.spec.action.num, (1_024, config.n_envs))
        steps, start = 0, time.perf_counter()
        while time.perf_counter() - start < seconds:
            env.step(actions[steps % len(actions)])
            steps += 1
        speed = steps * config.n_envs / (time.perf_counter() - start)
    work = {"env": config.id, "n_envs": config.n_envs, "kwargs": config.kwargs}
    return {"work": work, "ours_steps_per_second": [round(speed, 1)]} | machine_and_versions({})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sb3-python", type=Path, required=True, help="interpreter that has Stable-Baselines3")
    parser.add_argument("--out", type=Path, required=True, help="folder for speed.json")
    parser.add_argument("--repeats", type=int, default=3, help="pairs of measurements (default: 3)")
    parser.add_argument("--peer-timeout", type=float, default=90.0, help="seconds for each answer of the other library")
    parser.add_argument("--tiny", action="store_true", help="a few steps on the CPU, to see that everything runs")
    options = parser.parse_args()
    if not options.tiny and not torch.cuda.is_available():
        parser.error("there is no usable GPU: --tiny runs the same program on a CPU")
    pythons = {"sb3": options.sb3_python, "cleanrl": Path(sys.executable)}
    rows: dict[str, dict] = {}

    def keep(name: str, row: dict) -> None:
        rows[name] = row
        write_atomically(options.out / "speed.json", json.dumps(rows, indent=2) + "\n")
        print(f"{name}: {sentence(row)}", flush=True)

    options.out.mkdir(parents=True, exist_ok=True)
    for name, peer in PAIRS.items():
        cell = SPEED[name]
        assert isinstance(cell, SpeedCell)
        cell = shrink(name, cell) if options.tiny else cell
        keep(f"{name}-emulators-alone", emulators_alone(cell, 1.0 if options.tiny else ALONE_SECONDS))
        asked = {peer: pythons[peer]}
        for key, row in run_cell(name, cell, asked, repeats=options.repeats, limit=options.peer_timeout).items():
            keep(key, row)


if __name__ == "__main__":
    main()
