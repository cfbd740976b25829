"""What samplers gain and cost: a slow environment; simulators, beside Stable-Baselines3; a lag; Ray's part of a rollout.

python benchmarks/scale/throughput.py      # writes benchmarks/results/scale/throughput.json

All but `whole_runs` are wall times of collection alone (no learning), on one thread for each process. Setups that are
compared take turns, so that what else the machine does (`load_average`) meets all of them. Stable-Baselines3 runs in an
environment of its own.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import gymnasium as gym
import numpy as np
from machine import described

from rl_training import APPO, PPO
from rl_training.api.training import build_run
from rl_training.bench.peer_environments import find_python
from rl_training.distributed import ray_engine
from rl_training.distributed.messages import Assignment
from rl_training.experiment.run_directory import write_atomically

OUT = Path(__file__).parents[1] / "results" / "scale" / "throughput.json"
SB3 = Path(__file__).parents[1] / "peers" / "sb3_collect.py"
STEP_S = 0.01
NUM_ENVS, NUM_STEPS, REPEATS = 8, 128, 15
LEARNED = 10 * 16 * 128  # env steps of ten iterations
Collect = Callable[[], float]  # collects once; returns the seconds


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


@contextmanager
def ours(env: object, num_envs: int, num_steps: int, **sampling: object) -> Iterator[Collect]:
    settings = {"n_envs": num_envs, "n_steps": num_steps, "batch_size": num_envs, "threads": 1, "compile": False}
    agent = PPO(env, **settings, seed=0, sampling=sampling)
    try:
        trainer = build_run(agent).trainer

        def collect() -> float:
            with trainer.session():
                started = time.perf_counter()
                trainer.collector.collect(agent.algorithm.policy, num_steps)
                return time.perf_counter() - started

        collect.collector = trainer.collector  # pyrefly: ignore (for who looks at its parts)
        yield collect
    finally:
        agent.close()


@contextmanager
def sb3(env: str, kind: str) -> Iterator[Collect]:
    command = [str(find_python("sb3", {})), str(SB3), env, kind]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        said, heard = process.stdin, process.stdout

        def collect() -> float:
            print(file=said, flush=True)
            return float(heard.readline())

        yield collect
        said.close()


def rate(found: list[float], steps: int) -> dict[str, float]:
    middle = statistics.median(found)
    return {"seconds": middle, "fastest_s": min(found), "slowest_s": max(found), "steps_per_s": steps / middle}


def slow() -> list[dict]:
    rows = []
    for workers in (1, 2, 4, 8, 16):
        with ours(Slow, 16, 32, workers=workers) as collect:
            collect()
            found = rate([collect() for _ in range(3)], 16 * 32)
        ideal = workers / STEP_S
        rows.append({"workers": workers} | found | {"ideal_steps_per_s": ideal, "share": found["steps_per_s"] / ideal})
        print(rows[-1], flush=True)
    return rows


def simulators(env: str) -> list[dict]:
    """8 x 128 steps by every setup in turn."""
    with ExitStack() as stack:
        setups = {
            "one process": stack.enter_context(ours(env, NUM_ENVS, NUM_STEPS)),
            "2 workers": stack.enter_context(ours(env, NUM_ENVS, NUM_STEPS, workers=2)),
            "2 Ray actors": stack.enter_context(ours(env, NUM_ENVS, NUM_STEPS, workers=2, engine="ray")),
            "SB3, DummyVecEnv": stack.enter_context(sb3(env, "DummyVecEnv")),
            "SB3, SubprocVecEnv": stack.enter_context(sb3(env, "SubprocVecEnv")),
        }
        found: dict[str, list[float]] = {name: [] for name in setups}
        for turn in range(REPEATS + 2):
            for name, collect in setups.items():
                seconds = collect()
                if turn >= 2:  # what comes before warms up
                    found[name].append(seconds)
    rows = [{"env": env, "setup": name} | rate(times, NUM_ENVS * NUM_STEPS) for name, times in found.items()]
    for row in rows:
        print(row, flush=True)
    return rows


def whole_runs() -> list[dict]:
    """Collecting and learning, in turns: what a lag gains, with which samplers go on while the learner learns."""
    setups = {
        "one process": (1, 0),
        "2 workers": (2, 0),
        "1 worker, lag 1": (1, 1),
        "2 workers, lag 1": (2, 1),
    }
    found: dict[str, list[float]] = {name: [] for name in setups}
    with ExitStack() as stack:
        agents: dict[str, APPO] = {}
        for name, (workers, lag) in setups.items():
            changes = [
                f"sampling.workers={workers}",
                f"sampling.lag={lag}",
                "training.threads=1",
                "evaluation.interval=0",
            ]
            agents[name] = APPO.from_preset("appo/hopper", overrides=changes)
            stack.enter_context(closing(agents[name]))
        for turn in range(1, 7):
            for name, agent in agents.items():
                started = time.perf_counter()
                agent.learn(stop_at=turn * LEARNED, progress=False)
                if turn > 1:  # the first compiles
                    found[name].append(time.perf_counter() - started)
    rows = [{"preset": "appo/hopper", "setup": name} | rate(times, LEARNED) for name, times in found.items()]
    for row in rows:
        print(row, flush=True)
    return rows


class TimedActor(ray_engine.Actor):
    """Keeps how long its sampler takes, apart from what Ray and the copies around it take."""

    def __init__(self, assignment: Assignment, slots: int) -> None:
        super().__init__(assignment, slots)
        self.inside, self.plain = 0.0, self.sampler.collect
        self.sampler.collect = self.timed

    def timed(self, request: object) -> object:
        started = time.perf_counter()
        block = self.plain(request)  # pyrefly: ignore
        self.inside = time.perf_counter() - started
        return block

    def last_seconds(self) -> float:
        return self.inside


def ray_parts(env: str) -> dict:
    """Where a rollout with two actors spends its time: milliseconds, medians."""
    plain_actor, ray_engine.Actor = ray_engine.Actor, TimedActor
    parts: dict[str, list[float]] = {
        "whole": [],
        "put the weights": [],
        "in the slower sampler": [],
        "join the steps": [],
    }
    try:
        with ours(env, NUM_ENVS, NUM_STEPS, workers=2, engine="ray") as collect:
            collector = collect.collector  # pyrefly: ignore
            engine = collector.env.pool.engine
            engine.publish = clocked(engine.publish, parts["put the weights"])
            collector.join = clocked(collector.join, parts["join the steps"])
            for _ in range(REPEATS + 2):
                parts["whole"].append(collect())
                inside = engine.ray.get([actor.last_seconds.remote() for actor in engine.actors])
                parts["in the slower sampler"].append(max(inside))
    finally:
        ray_engine.Actor = plain_actor
    middle = {name: 1e3 * statistics.median(times[2:]) for name, times in parts.items()}
    middle["Ray: asking, waiting, copies"] = 2 * middle["whole"] - sum(middle.values())
    outside = middle["whole"] - middle["in the slower sampler"]
    row = {"env": env, "milliseconds": middle, "overhead_share": outside / middle["whole"]}
    print(row, flush=True)
    return row


def clocked(function: Callable, times: list[float]) -> Callable:
    def call(*arguments: object) -> object:
        started = time.perf_counter()
        answer = function(*arguments)
        times.append(time.perf_counter() - started)
        return answer

    return call


def main() -> None:
    find_python("sb3", {})  # installed before anything is measured
    results = {"machine": described(), "sleeping_env": slow()}
    results["rollout_of_8_x_128"] = [row for env in ("HalfCheetah-v5", "CartPole-v1") for row in simulators(env)]
    results["whole_runs"] = whole_runs()
    results["ray"] = [ray_parts(env) for env in ("HalfCheetah-v5", "CartPole-v1")]
    write_atomically(OUT, json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
