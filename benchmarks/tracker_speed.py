"""Measures how fast a run trains with each tracker, compared with the same run without any.

    python benchmarks/tracker_speed.py [--rounds N] [--steps N]    # in an environment with tensorboard, wandb, mlflow, trackio

PPO on the native CartPole with a log every 2,000 steps, which is several logs a second; torch computes in one thread. In every
round each tracker is compared with a run without any, right before or right after it by turns, with the same seed; the trackers
write on this machine (wandb offline, MLflow in SQLite). `speed` is steps per second from the first step to the last, in which
other programs on a busy machine weigh more than a tracker does. Where each run spent its time tells more: `thread`, the
processor's seconds of the thread that trains; `others`, those of all other threads of this process, which is what a tracker costs
where no core is free; and `blocked`, the seconds in which the thread that trains waited for a file, a lock or Python's interpreter,
but not for a free core. What a tracker takes before and after is apart, in seconds. A first round that does not count creates the
databases. Linux only.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from rl_training import PPO, Callback
from rl_training.config import RunConfig
from rl_training.experiment import run_callbacks
from rl_training.experiment.run_directory import collect_metadata, installed
from rl_training.experiment.trackers.begin import TRACKERS, described
from rl_training.experiment.trackers.in_background import InBackground
from rl_training.runtime import Episode, Trainer

OUT = Path(__file__).parent / "results" / "tracker_speed.json"
SETTINGS = {"n_envs": 8, "n_steps": 32, "batch_size": 256, "n_epochs": 20, "learning_rate": 1e-3, "compile": False}
WITHOUT = "without"


def waited_for_a_core() -> float:
    """Returns the seconds for which this thread was ready to run, and other programs had the cores."""
    return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9


class Clock(Callback):
    """Steps, and seconds of the clock and of the processor, from the first step to the last."""

    def now(self, trainer: Trainer) -> np.ndarray:
        cpu, thread, waited = time.process_time(), time.thread_time(), waited_for_a_core()
        return np.array([trainer.progress.timesteps, time.perf_counter(), thread, cpu - thread, waited])

    def on_start(self, trainer: Trainer) -> None:
        self.began = self.now(trainer)

    def on_steps(self, trainer: Trainer, episodes: list[Episode]) -> None:
        if trainer.progress.timesteps >= trainer.plan.horizon:
            steps, seconds, thread, others, waited = (float(x) for x in self.now(trainer) - self.began)
            self.found = {
                "speed": steps / seconds,
                "thread": thread,
                "others": others,
                "blocked": seconds - thread - waited,
            }


class Timed(InBackground):
    """A tracker in its thread, and the seconds for which the run waited for it."""

    before = after = 0.0

    def wait_for_start(self) -> None:
        began = time.perf_counter()
        super().wait_for_start()
        self.before = time.perf_counter() - began

    def close(self) -> None:
        began = time.perf_counter()
        super().close()
        self.after = time.perf_counter() - began


def train(name: str, folder: Path, steps: int, seed: int) -> dict[str, float]:
    """Trains once, and returns the speed and the seconds for which the run waited for the tracker."""
    made: list[Timed] = []

    def begin_one(config: RunConfig, folder: Path, timesteps: int) -> list[Timed]:
        if name != WITHOUT:
            made.append(Timed(TRACKERS[name](), described(config, folder, timesteps)))
            made[0].wait_for_start()
        return made

    run_callbacks.begin_tracking = begin_one
    clock = Clock()
    agent = PPO("CartPole-v1", backend="native", run_dir=folder, seed=seed, **SETTINGS)
    agent.learn(steps, callbacks=clock, progress=False)
    agent.close()
    if made and (made[0].missing or made[0].warned):
        raise SystemExit(f"{name} failed: what it says is above")
    waits = {when: getattr(each, when) for each in made for when in ("before", "after")}
    return {what: round(value, 4) for what, value in (clock.found | waits).items()}


def describe(shares: list[float]) -> dict[str, float]:
    """Returns the median and its 95 % interval."""
    drawn = np.random.default_rng(0).choice(shares, size=(10_000, len(shares)))
    low, high = np.quantile(np.median(drawn, axis=1), (0.025, 0.975))
    return {"median": round(float(np.median(shares)), 4), "low": round(float(low), 4), "high": round(float(high), 4)}


def compare(pairs: list[dict[str, dict[str, float]]], name: str) -> dict[str, dict[str, float]]:
    """Returns speed and seconds of the thread as shares of those without, and what is lost as shares of the same run."""
    shares = {
        what: describe([pair[name][what] / pair[WITHOUT][what] for pair in pairs]) for what in ("speed", "thread")
    }
    for what in ("others", "blocked"):
        for kind in (WITHOUT, name):
            shares[f"{what}, {kind}"] = describe([pair[kind][what] / pair[kind]["thread"] for pair in pairs])
    return shares


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--steps", type=int, default=40_000)
    parser.add_argument("--trackers", nargs="+", default=list(TRACKERS), choices=list(TRACKERS))
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    torch.set_num_threads(1)
    pairs: dict[str, list[dict[str, dict[str, float]]]] = {name: [] for name in options.trackers}
    with tempfile.TemporaryDirectory() as scratch:
        os.environ |= {
            "WANDB_MODE": "offline",
            "MLFLOW_TRACKING_URI": f"sqlite:///{scratch}/mlflow.db",
            "TRACKIO_DIR": f"{scratch}/trackio",
        }
        for name in (WITHOUT, *options.trackers):
            train(name, Path(scratch) / f"first-{name}", 10_000, 0)
        for number in range(options.rounds):
            for name in options.trackers:
                order = (WITHOUT, name) if number % 2 else (name, WITHOUT)
                pair = {
                    kind: train(kind, Path(scratch) / f"{number}-{name}-{kind}", options.steps, number)
                    for kind in order
                }
                pairs[name].append(pair)
                print(number, name, pair, flush=True)
    metadata = collect_metadata()
    record = {
        "unit": "speed: env steps per second; all others: seconds; shares: of the thread's seconds",
        "steps": options.steps,
        "git": metadata["git"],
        "hardware": metadata["hardware"],
        "versions": metadata["versions"] | {name: installed(name) for name in ("mlflow-skinny", *options.trackers)},
        "compared_with_none": {name: compare(pairs[name], name) for name in options.trackers},
        "pairs": pairs,
    }
    options.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    for name, shares in record["compared_with_none"].items():
        told = (
            f"{what} {each['median']:.1%} ({each['low']:.1%} to {each['high']:.1%})" for what, each in shares.items()
        )
        before, after = (statistics.median(pair[name][when] for pair in pairs[name]) for when in ("before", "after"))
        print(f"{name}: {'; '.join(told)}; {before:.1f} s before, {after:.1f} s after")


if __name__ == "__main__":
    main()
