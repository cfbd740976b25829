"""Learning runs: one JSON per cell and seed; finished ones are skipped, so you can stop and start at will.

A score is the mean of the last 10 evaluations: 10 deterministic episodes each, on environments of their own, at every
20th of the budget. Where the reference is a curve's value at a step, it is the evaluation at that step. It is the mean
of returns or, in tasks with goals, the share of successes. The mean return of the last 100 training episodes stands beside
it, because CleanRL's reference numbers are training returns. A record carries the protocol of its evaluations.
"""

from __future__ import annotations

import json
import math
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rl_base.strict_yaml import parse_yaml
from rl_training.api import Agent
from rl_training.bench.learning_cells import LEARNING, LEARNING_SUITES, LearningCell
from rl_training.bench.peer_environments import SCRIPTS, PeerUnavailableError, find_python
from rl_training.bench.records import read_json, seed_file
from rl_training.config import RunConfig, load_config_values
from rl_training.config.overrides import apply_override
from rl_training.experiment.run_directory import collect_metadata, write_atomically
from rl_training.runtime import Callback, EvalResult, Trainer

LEARNING_PEERS = ("sb3",)  # those with programs and settings for cells of ours


class Evaluations(Callback):
    """A callback that stores the step and mean return of every evaluation, and the success rate if there is one.

    It also stores their protocol.
    """

    def __init__(self) -> None:
        self.protocol: dict[str, object] = {}
        self.rows: list[tuple[int, float]] = []
        self.successes: list[tuple[int, float]] = []  # where the environment says which episodes succeed

    def on_evaluation(self, trainer: Trainer, result: EvalResult) -> None:
        self.rows.append((trainer.progress.timesteps, result.mean))
        self.protocol = result.protocol
        if result.success_rate is not None:
            self.successes.append((trainer.progress.timesteps, result.success_rate))

    def score(self, cell: LearningCell, training: float | None) -> float:
        """Returns a run's score by the rule of its cell; `training` is the mean return of its last 100 episodes."""
        if cell.of == "training":
            assert training is not None
            return training
        counted = self.rows if cell.of == "return" else self.successes
        return statistics.fmean(mean for _, mean in counted[-cell.last :])


def choose_cells(suite: str, cells: Sequence[str]) -> list[str]:
    """Returns the names in `cells` or, if it is empty, those of the suite; raises ValueError for an unknown name."""
    unknown = [name for name in cells if name not in LEARNING]
    if unknown:
        raise ValueError(f"--cells {unknown[0]!r} is not known: use {', '.join(LEARNING)}")
    return list(cells or LEARNING_SUITES[suite])


def parse_seeds(text: str) -> list[int]:
    """Returns the seeds that a text names: `5` means 0 to 4; with a comma these very seeds, as in `0,7` or `3,`.

    Raises ValueError if the text names no seed.
    """
    try:
        numbers = [int(part) for part in text.split(",") if part]
    except ValueError as error:
        raise ValueError(f"--seeds {text!r} must be how many, e.g. 5, or which, e.g. 0,7") from error
    seeds = numbers if "," in text else list(range(numbers[0])) if numbers else []
    if not seeds or min(seeds) < 0:
        raise ValueError(f"--seeds {text!r} names no seed: say how many, e.g. 5, or which, e.g. 0,7")
    return seeds


def frozen_config(name: str, seed: int, settings: Sequence[str] = ()) -> RunConfig:
    """Returns the config of a benchmark cell: its preset, the cell's overrides, then `settings`.

    A setting is text such as "algorithm.gamma=0.9". Evaluations are at every 20th of the budget, of 10 episodes unless
    the cell names other numbers.
    """
    cell = LEARNING[name]
    values = load_config_values(cell.preset)
    for assignment in (*cell.overrides, *settings):
        values = override(values, assignment)
    total = RunConfig.from_mapping(values).training.horizon
    for assignment in (
        f"training.seed={seed}",
        f"evaluation.interval={total // cell.evaluations}",
        f"evaluation.episodes={cell.episodes}",
    ):
        values = apply_override(values, assignment)
    return RunConfig.from_mapping(values)


def override(values: dict, assignment: str) -> dict:
    """Returns config data with one change such as "env.n_envs=2"; a key without a dot replaces a whole section."""
    key, _, text = assignment.partition("=")
    return apply_override(values, assignment) if "." in key else values | {key: parse_yaml(text)}


def run_one(
    name: str, seed: int, folder: Path, settings: Sequence[str] = (), say: Callable[[str], None] = print
) -> None:
    """Trains one seed of a benchmark cell and writes its record to a JSON file in `folder`, unless that exists.

    `settings` are changes to the cell's config; `say` gets one line about the result.
    """
    target = seed_file(folder, name, seed)
    if target.exists():
        return
    cell = LEARNING[name]
    agent = Agent(frozen_config(name, seed, settings))
    evaluations = Evaluations()
    start = time.perf_counter()
    result = agent.learn(callbacks=[evaluations], progress=False)
    assert agent.trainer is not None
    recent = [episode.ret for episode in agent.trainer.recent]
    training = statistics.fmean(recent) if recent else None  # from data alone, nothing is collected
    record = {
        "cell": name,
        "seed": seed,
        "score": evaluations.score(cell, training),
        "protocol": evaluations.protocol,
        "best_evaluation": max(mean for _, mean in evaluations.rows),
        "training_return_last_100": training,
        "evaluations_counted": cell.last,
        "evaluations": evaluations.rows,
        **({"successes": evaluations.successes} if evaluations.successes else {}),
        "total_timesteps": result.total_timesteps,
        "offline_updates": result.offline_updates,
        "data_mean_return": None if agent.dataset is None else float(agent.dataset.returns.mean()),
        "gradient_steps": result.gradient_steps,
        "wall_time_s": round(time.perf_counter() - start, 1),
        "config": agent.config.to_mapping(),
        "metadata": collect_metadata() | {"command": "rl-training bench learn"},
    }
    agent.close()
    target.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(target, json.dumps(record, indent=1) + "\n")
    score, shown = record["score"], math.nan if training is None else training
    say(f"{name} seed {seed}: score {score:.1f}, training {shown:.1f}, {record['wall_time_s']} s")


def run_peer(
    name: str, peer: str, seeds: Sequence[int], folder: Path, given: Mapping[str, Path], say: Callable[[str], None]
) -> None:
    """Trains a benchmark cell's seeds by another library, `peer`, in processes that write the records to `folder`.

    Seeds with a record are skipped. Failures are passed to `say`, not raised. `given` are interpreters by library's
    name; without one an environment is installed.
    """
    cell = read_json(SCRIPTS / f"{peer}_learn.json").get(name)  # our preset in its words
    if cell is None:
        say(f"{name}: no settings for {peer}")
        return
    targets = {seed: seed_file(folder, f"{name}-{peer}", seed) for seed in seeds}
    left = {seed: target for seed, target in targets.items() if not target.exists()}
    try:
        python = find_python(peer, given) if left else Path()
    except PeerUnavailableError as reason:
        say(f"{name}: {peer} {reason}")
        return
    for seed, target in left.items():
        target.parent.mkdir(parents=True, exist_ok=True)
        request = json.dumps({"name": f"{name}-{peer}", "seed": seed, "target": str(target), **cell})
        done = subprocess.run(
            [str(python), str(SCRIPTS / f"{peer}_learn.py"), request], capture_output=True, text=True, check=False
        )
        failed = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        say(done.stdout.strip() if done.returncode == 0 else f"{name}-{peer} seed {seed} failed: {failed[0]}")
