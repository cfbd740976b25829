"""Measures how fast a run trains with each tracker, compared with the same run without any.

    python benchmarks/tracker_speed.py [--rounds N] [--steps N]    # in an environment with tensorboard, wandb, mlflow, trackio

PPO on the native CartPole with a log every 2,000 steps, which is several logs a second. Every round trains once without a tracker
and once with each, in an order that rotates; the trackers write on this machine (wandb offline, MLflow in SQLite). `speed` is
steps per second from the first step to the last, `cpu` the processor's seconds that this process took meanwhile with all its
threads, which other programs on the machine hardly change. What a tracker takes before and after is apart, in seconds. A first
round that does not count creates the databases.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from pathlib import Path

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


class Clock(Callback):
    """Steps per second and seconds of the processor from the first step to the last."""

    def on_start(self, trainer: Trainer) -> None:
        self.began, self.cpu_began, self.first = time.perf_counter(), time.process_time(), trainer.progress.timesteps

    def on_steps(self, trainer: Trainer, episodes: list[Episode]) -> None:
        self.speed = (trainer.progress.timesteps - self.first) / (time.perf_counter() - self.began)
        self.cpu = time.process_time() - self.cpu_began


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
    return {"speed": round(clock.speed, 1), "cpu": round(clock.cpu, 3)} | {
        w: round(getattr(t, w), 3) for t in made for w in ("before", "after")
    }


def shares(rounds: list[dict[str, dict[str, float]]], name: str, what: str) -> list[float]:
    return [each[name][what] / each[WITHOUT][what] for each in rounds]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--steps", type=int, default=200_000)
    parser.add_argument("--trackers", nargs="+", default=list(TRACKERS), choices=list(TRACKERS))
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    names: list[str] = [WITHOUT, *options.trackers]
    rounds: list[dict[str, dict[str, float]]] = []
    with tempfile.TemporaryDirectory() as scratch:
        os.environ |= {
            "WANDB_MODE": "offline",
            "MLFLOW_TRACKING_URI": f"sqlite:///{scratch}/mlflow.db",
            "TRACKIO_DIR": f"{scratch}/trackio",
        }
        for name in names:
            train(name, Path(scratch) / f"first-{name}", 10_000, 0)
        for number in range(options.rounds):
            order = [*names[number % len(names) :], *names[: number % len(names)]]
            found = {name: train(name, Path(scratch) / f"{number}-{name}", options.steps, number) for name in order}
            rounds.append({name: found[name] for name in names})
            print(number, {name: each["speed"] for name, each in found.items()}, flush=True)
    metadata = collect_metadata()
    record = {
        "unit": "speed: env steps per second; cpu, before, after: seconds",
        "steps": options.steps,
        "git": metadata["git"],
        "hardware": metadata["hardware"],
        "versions": metadata["versions"] | {name: installed(name) for name in ("mlflow-skinny", *options.trackers)},
        "compared_with_none": {
            name: {what: round(statistics.median(shares(rounds, name, what)), 4) for what in ("speed", "cpu")}
            for name in options.trackers
        },
        "rounds": rounds,
    }
    options.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    for name in options.trackers:
        speed, cpu = (shares(rounds, name, what) for what in ("speed", "cpu"))
        before, after = (statistics.median(each[name][what] for each in rounds) for what in ("before", "after"))
        print(
            f"{name}: {statistics.median(speed):.1%} of the speed without ({min(speed):.1%} to {max(speed):.1%}), "
            f"{statistics.median(cpu):.1%} of its CPU time; {before:.1f} s before, {after:.1f} s after"
        )


if __name__ == "__main__":
    main()
