"""What samplers gain and cost: a slow environment, HalfCheetah, and Ray's part of a rollout.

python benchmarks/scale/throughput.py      # writes benchmarks/results/scale/throughput.json

All are wall times of collection alone (no learning), medians over repeats; `load_average` says what else the machine did.
"""

from __future__ import annotations

import json
import statistics
import time
from pathlib import Path

import gymnasium as gym
import numpy as np
from machine import described

from rl_training import PPO
from rl_training.experiment.run_directory import write_atomically

OUT = Path(__file__).parents[1] / "results" / "scale" / "throughput.json"
STEP_S = 0.01
REPEATS = 5


class Slow(gym.Env):
    """Sleeps: what an environment costs that waits for something else than this processor."""

    def __init__(self) -> None:
        self.observation_space, self.action_space = gym.spaces.Box(-1, 1, (4,), np.float32), gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple:
        super().reset(seed=seed)
        return np.zeros(4, np.float32), {}

    def step(self, action: int) -> tuple:
        time.sleep(STEP_S)
        return np.zeros(4, np.float32), 0.0, False, False, {}


def seconds(env: object, num_envs: int, num_steps: int, repeats: int, **sampling: object) -> list[float]:
    """Wall times of collecting so many steps of every environment, sorted."""
    settings = {"n_envs": num_envs, "n_steps": num_steps, "batch_size": num_envs, "threads": 1, "compile": False}
    agent = PPO(env, **settings, seed=0, sampling=sampling)
    try:
        trainer = agent.prepare_trainer()
        policy, collector = agent.algorithm.policy, trainer.collector
        with trainer.session():
            collector.collect(policy, 2)
            found = []
            for _ in range(repeats):
                started = time.perf_counter()
                collector.collect(policy, num_steps)
                found.append(time.perf_counter() - started)
        return sorted(found)
    finally:
        agent.close()


def rate(found: list[float], steps: int) -> dict[str, float]:
    return {
        "seconds": statistics.median(found),
        "fastest_s": found[0],
        "slowest_s": found[-1],
        "steps_per_s": steps / statistics.median(found),
    }


def slow() -> list[dict]:
    rows = []
    for workers in (1, 2, 4, 8, 16):
        found = rate(seconds(Slow, 16, 32, 3, workers=workers), 16 * 32)
        ideal = workers / STEP_S
        rows.append({"workers": workers} | found | {"ideal_steps_per_s": ideal, "share": found["steps_per_s"] / ideal})
        print(rows[-1], flush=True)
    return rows


def simulators() -> list[dict]:
    """HalfCheetah and CartPole, 8 x 128 steps: in this process, with two workers, with two actors of Ray."""
    rows = []
    for env in ("HalfCheetah-v5", "CartPole-v1"):
        for name, sampling in (
            ("one process", {"workers": 1}),
            ("2 workers", {"workers": 2}),
            ("2 Ray actors", {"workers": 2, "engine": "ray"}),
        ):
            rows.append({"env": env, "setup": name} | rate(seconds(env, 8, 128, REPEATS, **sampling), 8 * 128))
            print(rows[-1], flush=True)
    return rows


def main() -> None:
    results = {"machine": described(), "sleeping_env": slow(), "rollout_of_8_x_128": simulators()}
    write_atomically(OUT, json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
