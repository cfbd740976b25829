"""How many threads a preset's updates want: steps per second with each number, alternated in one process, eager.

python benchmarks/threads.py --out benchmarks/results/threads.json                    # every kind of network, 1 and 2 threads
python benchmarks/threads.py --presets sac/halfcheetah --cores 2 --load 1                # beside a process that never rests
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import statistics
from pathlib import Path

import torch

from rl_training import Agent
from rl_training.config import load_config_values
from rl_training.config.registry import ALGORITHMS
from rl_training.experiment.run_directory import processor

PRESETS = (
    "ppo/cartpole", "ppo/halfcheetah", "a2c/halfcheetah", "trpo/hopper", "recurrent_ppo/tmaze", "pqn/cartpole",
    "dqn/cartpole", "dqn/lunarlander", "c51/acrobot", "qr_dqn/cartpole", "iqn/cartpole", "rainbow_dqn/cartpole",
    "discrete_sac/cartpole", "crossq/pendulum", "crossq/lunarlander_continuous", "crossq/halfcheetah",
    "ddpg/pendulum", "redq/pendulum", "redq/halfcheetah", "sac/pendulum", "sac/halfcheetah",
    "sac/lunarlander_continuous", "td3/hopper", "td3/pendulum", "tqc/pendulum",
)  # fmt: skip
WARM_UP = 300  # steps at random


def build(preset: str, threads: int) -> Agent:
    values = load_config_values(preset)
    name = values["algorithm"]["name"]
    overrides = [
        f"training.threads={threads}",
        "training.compile=false",
        "evaluation.interval=0",
        "training.total_timesteps=100000000",
    ]
    if ALGORITHMS[name].config.needs.experience == "replay":
        overrides.append(f"experience.learning_starts={WARM_UP}")
    return Agent.class_for(name).from_preset(preset, overrides=overrides)


def measure(preset: str, threads: list[int], *, seconds: float, repeats: int) -> dict:
    agents = {number: build(preset, number) for number in threads}
    speeds: dict[int, list[float]] = {number: [] for number in threads}
    steps = {}
    for number, agent in agents.items():
        agent.learn(2 * WARM_UP, progress=False)
        rate = agent.learn(2 * WARM_UP, progress=False).steps_per_second
        config = agent.config
        rollout = config.needs.experience == "rollout"
        per_rollout = config.experience.supply(config.env.n_envs).num_steps if rollout else 1
        steps[number] = max(1, round(rate * seconds / per_rollout)) * per_rollout
    for _ in range(repeats):
        for number, agent in agents.items():
            speeds[number].append(agent.learn(max(steps.values()), progress=False).steps_per_second)
    for agent in agents.values():
        agent.close()
    first = speeds[threads[0]]
    return {
        "parameters": sum(p.numel() for p in agents[threads[0]].algorithm.parameters()),
        "batch_size": getattr(agents[threads[0]].config.algorithm, "batch_size", None),
        "steps_per_second": {str(number): [round(x, 1) for x in row] for number, row in speeds.items()},
        "ratio_median": {
            str(number): round(statistics.median(b / a for a, b in zip(first, row, strict=True)), 3)
            for number, row in speeds.items()
            if number != threads[0]
        },
    }


def never_rest() -> None:
    while True:
        pass


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--presets", nargs="+", default=PRESETS)
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--cores", type=int, help="stay on so many cores")
    parser.add_argument("--load", type=int, default=0, help="processes that never rest, on the same cores")
    parser.add_argument("--seconds", type=float, default=1.0, help="of one measurement")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if options.cores:
        os.sched_setaffinity(0, set(range(options.cores)))
    load = [multiprocessing.Process(target=never_rest, daemon=True) for _ in range(options.load)]
    for process in load:
        process.start()
    rows = {}
    for preset in options.presets:
        rows[preset] = measure(preset, options.threads, seconds=options.seconds, repeats=options.repeats)
        print(preset, json.dumps(rows[preset]), flush=True)
    for process in load:
        process.kill()
    if options.out:
        machine = {"processor": processor(), "cores": options.cores or os.cpu_count(), "platform": platform.platform()}
        told = {"machine": machine | {"torch": torch.__version__, "load": options.load}, "presets": rows}
        options.out.write_text(json.dumps(told, indent=2) + "\n")


if __name__ == "__main__":
    main()
