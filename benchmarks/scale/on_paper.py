"""A run with many samplers on paper: what 256 of them would do, from what one step, one act and one update cost here.

.venv/bin/python benchmarks/scale/on_paper.py measure     # writes ../results/scale/on_paper.json: constants of this machine
.venv/bin/python benchmarks/scale/on_paper.py table       # writes the tables of benchmarks/scale/README.md from them

Costs of computing are CPU seconds of one thread, which other programs on the machine do not change much; costs of Ray are
the smallest of many trials. Nothing here was run on 256 machines: it is arithmetic, and the page says so.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path

import torch

from rl_training import PPO, SAC, Agent
from rl_training.core import tree_leaves
from rl_training.runtime import executors
from rl_training.runtime.trainer import Trainer

HERE = Path(__file__).parent
RESULT = HERE.parent / "results" / "scale" / "on_paper.json"
PAGE = HERE / "README.md"
BEGIN, END = "<!-- benchmarks/scale/on_paper.py writes from here -->\n", "<!-- to here -->"
ENVS = 8  # of one sampler
CORES = 16  # of one machine, a sampler each
NETWORK = 1.25e9  # bytes/s into one machine: 10 Gbit/s
SLOW_S = 0.01  # a step of an environment that is worth distributing
HEAD = "| samplers | exact, lag 0 | own rows, lag 0 | own rows, lag 1 | waits for | into the learner | weights out |"
SAMPLERS = (1, 4, 16, 64, 256)
ROWS = (8, 32, 128, 512, 2048)  # for which acting is timed


@dataclass(frozen=True)
class Work:
    """What one kind of run costs, in CPU seconds and bytes."""

    step_s: float  # of one environment
    act_s: dict[str, float]  # of one call of the policy, by its number of rows
    learn_s: float  # of the updates, per env step
    row_bytes: int  # of one stored step
    weight_bytes: int  # of the policy
    n_steps: int  # of every environment in one iteration


@dataclass(frozen=True)
class Ray:
    """What Ray costs the learner, in seconds."""

    call_s: float  # one call of an actor and its answer
    put_s_per_mb: float
    get_s_per_mb: float


def measure_work(agent: Agent, timesteps: int, n_steps: int) -> Work:
    spent = {"collect": 0.0, "learn": 0.0}

    def timed(name: str, call: Callable) -> Callable:
        def run(*given: object, **named: object) -> object:
            began = time.process_time()
            try:
                return call(*given, **named)
            finally:
                spent[name] += time.process_time() - began

        return run

    collect, learn = Trainer.collect, executors.Executor.learn
    Trainer.collect, executors.Executor.learn = timed("collect", collect), timed("learn", learn)
    try:
        agent.learn(timesteps, progress=False)  # to warm up
        spent.update(collect=0.0, learn=0.0)
        agent.learn(timesteps, progress=False)
    finally:
        Trainer.collect, executors.Executor.learn = collect, learn
    trainer = agent.trainer
    latest, policy = trainer.collector.latest, trainer.algorithm.policy
    obs = torch.as_tensor(latest.obs)[0]
    act = {}
    with torch.no_grad():
        for rows in ROWS:
            many = obs.repeat(-(-rows // len(obs)), 1)[:rows]
            first = torch.zeros(rows, dtype=torch.bool)
            memory = policy.initial_memory(rows)
            act[str(rows)] = cheapest(lambda: policy.act(many, memory, first), 100)  # noqa: B023
    row = sum(leaf[0, 0].nbytes for leaf in tree_leaves(latest))
    weights = sum(x.nbytes for x in (*policy.parameters(), *policy.buffers()))
    step = spent["collect"] / timesteps - act[str(ENVS)] / ENVS
    return Work(step, act, spent["learn"] / timesteps, row, weights, n_steps)


def cheapest(call: Callable[[], object], times: int, clock: Callable[[], float] = time.process_time) -> float:
    """Seconds of one call: the best of ten rounds."""
    rounds = []
    for _ in range(10):
        began = clock()
        for _ in range(times):
            call()
        rounds.append((clock() - began) / times)
    return min(rounds)


def measure_ray() -> Ray:
    import numpy as np
    import ray

    class Echo:
        def echo(self, given: object) -> object:
            return given

    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
    try:
        actor = ray.remote(Echo).remote()
        ray.get(actor.echo.remote(0))
        call = cheapest(lambda: ray.get(actor.echo.remote(0)), 50, time.perf_counter)
        million = np.zeros(10_000_000, np.uint8)
        put = cheapest(lambda: ray.put(million), 2, time.perf_counter) / 10
        there = ray.put(million)
        get = cheapest(lambda: ray.get(there).sum(), 5, time.perf_counter) / 10
    finally:
        ray.shutdown()
    return Ray(call, put, get)


def measure() -> dict:
    torch.set_num_threads(1)
    plain = {"n_envs": ENVS, "seed": 0, "threads": 1, "compile": False}
    cheetah = {"n_steps": 256, "batch_size": 512, "n_epochs": 10}
    works = {
        "PPO on CartPole": measure_work(
            PPO("CartPole-v1", n_steps=128, batch_size=256, n_epochs=4, **plain), 20_480, 128
        ),
        "PPO on HalfCheetah": measure_work(PPO("HalfCheetah-v5", **cheetah, **plain), 20_480, 256),
        "SAC on HalfCheetah": measure_work(
            SAC("HalfCheetah-v5", learning_starts=0, train_freq=ENVS, gradient_steps=ENVS, **plain), 2_400, 1
        ),
    }
    return {"works": {name: asdict(work) for name, work in works.items()}, "ray": asdict(measure_ray())}


def acting(work: Work, rows: int) -> float:
    """Seconds of one call with so many rows: on the line between the two that were timed."""
    known = sorted((int(number), seconds) for number, seconds in work.act_s.items())
    for (low, a), (high, b) in pairwise(known):
        if rows <= high:
            return a + (b - a) * max(rows - low, 0) / (high - low)
    return known[-1][1] * rows / known[-1][0]


@dataclass(frozen=True)
class Rates:
    """Of a run with so many samplers."""

    steps_per_s: float
    limit: str  # what it waits for
    into_learner: float  # bytes/s
    out_of_learner: float  # bytes/s


def rates(work: Work, ray: Ray, samplers: int, *, exact: bool, lag: bool) -> Rates:
    """One learner on one core. With `exact`, every sampler acts for all environments; with `lag`, learner and samplers
    work at the same time."""
    steps = samplers * ENVS * work.n_steps  # of one iteration
    block = ENVS * work.n_steps * work.row_bytes
    machines = -(-samplers // CORES)
    sampling = work.n_steps * (acting(work, samplers * ENVS if exact else ENVS) + ENVS * work.step_s)
    sampling += ray.call_s + ray.put_s_per_mb * block / 1e6
    carrying = ray.put_s_per_mb * work.weight_bytes / 1e6 + samplers * (ray.call_s / 5 + ray.get_s_per_mb * block / 1e6)
    carrying += (samplers * block + machines * work.weight_bytes) / NETWORK
    learning = steps * work.learn_s
    parts = {"samplers": sampling, "transport": carrying, "learner": learning}
    seconds = max(sampling, carrying + learning) if lag else sum(parts.values())
    into, out = samplers * block / seconds, machines * work.weight_bytes / seconds
    return Rates(steps / seconds, max(parts, key=parts.__getitem__), into, out)


def table(stored: dict) -> str:
    ray = Ray(**stored["ray"])
    lines = []
    works = {name: Work(**given) for name, given in stored["works"].items()}
    works["PPO where a step takes 10 ms"] = replace(works["PPO on HalfCheetah"], step_s=SLOW_S)
    for name, work in works.items():
        costs = f"{1e6 * work.step_s:.0f} us a step, {1e6 * acting(work, ENVS):.0f} us to act for {ENVS} environments"
        sizes = f"{work.row_bytes} bytes a step, {work.weight_bytes / 1e3:.0f} kB of weights"
        lines += [
            f"**{name}**: {costs}, {1e6 * work.learn_s:.0f} us to learn from a step; {sizes}.",
            "",
            HEAD,
            "|---" * 7 + "|",
        ]
        for samplers in SAMPLERS:
            exact = rates(work, ray, samplers, exact=True, lag=False)
            own = rates(work, ray, samplers, exact=False, lag=False)
            lagged = rates(work, ray, samplers, exact=False, lag=True)
            lines.append(
                f"| {samplers} | {exact.steps_per_s:,.0f} | {own.steps_per_s:,.0f} | {lagged.steps_per_s:,.0f} | {lagged.limit} | "
                f"{lagged.into_learner / 1e6:.1f} MB/s | {lagged.out_of_learner / 1e6:.2f} MB/s |"
            )
        lines.append("")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["measure", "table"])
    if parser.parse_args().what == "measure":
        RESULT.parent.mkdir(parents=True, exist_ok=True)
        RESULT.write_text(json.dumps(measure(), indent=2) + "\n")
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    PAGE.write_text(
        before + BEGIN + table(json.loads(RESULT.read_text())) + END + rest.partition(END)[2], encoding="utf-8"
    )


if __name__ == "__main__":
    main()
