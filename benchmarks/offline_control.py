"""Methods that learn from data, on MuJoCo data sets: learning results beside d3rlpy's, and updates per second.

python benchmarks/offline_control.py run --data FOLDER --cells iql/hopper_medium_replay --seeds 0 1 2 [--jobs 4]
python benchmarks/offline_control.py table                                  # of all results, with what they must reach
python benchmarks/offline_control.py speed --data FOLDER --cells iql/hopper_medium_replay [--set training.device=cuda]

A cell is a preset. FOLDER holds hopper-v5-medium-replay.npz (or .parquet) and its like; sets called medium-expert are made there
from medium and expert. Results are one JSON per cell and seed; finished ones are skipped. The data are not D4RL's; scores are on
D4RL's scale. Every run evaluates 10 deterministic episodes at every 10,000 updates; its score is the last.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
from offline_tables import SPEEDS, STORED, comparison_table, switch_table, verdict

from rl_training import Dataset
from rl_training.api import Agent
from rl_training.api.training import build_run
from rl_training.bench.learning import Evaluations
from rl_training.config import RunConfig, load_config_values
from rl_training.config.overrides import apply_override
from rl_training.evaluation import normalized_score
from rl_training.experiment.run_directory import collect_metadata, write_atomically
from rl_training.runtime import Callback, Trainer

SUFFIXES = (".npz", ".parquet")
CONSTRAINTS = ("train/mmd", "train/bear_alpha", "train/cql_alpha", "train/bound_rate")  # kept of every log
WARM_UP = 400  # updates: compilation and recording


class Constraints(Callback):
    """Keeps what is logged of how far from the data a policy is."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, dict[str, float]]] = []

    def on_log(self, trainer: Trainer, metrics: dict[str, float]) -> None:
        found = {name: round(metrics[name], 5) for name in CONSTRAINTS if name in metrics}
        if found:
            self.rows.append((trainer.progress.timesteps, found))


def data_file(folder: Path, name: str) -> Path:
    """The file of a set such as hopper_medium_replay; a medium-expert set is made of its two parts."""
    task, _, kind = name.partition("_")
    stem = f"{task}-v5-{kind.replace('_', '-')}"
    found = next((folder / (stem + suffix) for suffix in SUFFIXES if (folder / (stem + suffix)).exists()), None)
    if found is not None:
        return found
    if kind != "medium_expert":
        raise SystemExit(f"{folder} has no {stem}.npz or .parquet")
    parts = [Dataset.open(data_file(folder, f"{task}_{part}")) for part in ("medium", "expert")]
    made = folder / f"{stem}.npz"
    Dataset.concatenate(parts).save(made)
    return made


def config_of(cell: str, folder: Path, seed: int, settings: Sequence[str]) -> RunConfig:
    values = load_config_values(cell)
    path = data_file(folder, cell.partition("/")[2])
    own = [f"data.path={path}", f"training.seed={seed}", "training.log_interval=1000"]
    own += ["evaluation.interval=10000", "evaluation.episodes=10", "evaluation.n_envs=10"]
    for assignment in (*own, *settings):
        values = apply_override(values, assignment)
    return RunConfig.from_mapping(values)


def target_of(cell: str, seed: int, tag: str) -> Path:
    return STORED / (cell.replace("/", "-") + tag) / f"seed{seed}.json"


def run_one(cell: str, folder: Path, seed: int, settings: Sequence[str], tag: str) -> None:
    config = config_of(cell, folder, seed, settings)
    agent, evaluations, constraints = Agent(config), Evaluations(), Constraints()
    start = time.perf_counter()
    agent.learn(callbacks=[evaluations, constraints], progress=False)
    task = cell.partition("/")[2].partition("_")[0]
    scores = [(done, float(normalized_score(mean, task))) for done, mean in evaluations.rows]
    assert agent.dataset is not None
    record = {
        "cell": cell,
        "seed": seed,
        "score": scores[-1][1],
        "best": max(score for _, score in scores),
        "scores": scores,
        "returns": evaluations.rows,
        "constraints": constraints.rows,
        "offline_updates": agent.progress.offline_updates,
        "env_steps": agent.progress.env_steps,
        "data_score": float(normalized_score(agent.dataset.returns.mean(), task)),
        "wall_time_s": round(time.perf_counter() - start, 1),
        "config": agent.config.replace("data", path=Path(config.data.path or "").name).to_mapping(),
        "metadata": collect_metadata() | {"command": "benchmarks/offline_control.py run"},
    }
    agent.close()
    target = target_of(cell, seed, tag)
    target.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(target, json.dumps(record, indent=1) + "\n")
    curve = ", ".join(f"{score:.1f}" for _, score in scores)
    print(f"{cell}{tag} seed {seed}: {curve}; {record['wall_time_s']} s", flush=True)


def run(options: argparse.Namespace) -> None:
    """Every cell and seed in a process of its own, some at a time."""
    left = [(c, s) for s in options.seeds for c in options.cells if not target_of(c, s, options.tag).exists()]
    for cell in {c for c, _ in left}:
        data_file(options.data, cell.partition("/")[2])  # made once, before anybody looks for it
    if options.jobs == 1:
        for cell, seed in left:
            run_one(cell, options.data, seed, options.settings, options.tag)
        return

    def start(pair: tuple[str, int]) -> None:
        cell, seed = pair
        command = [sys.executable, __file__, "run", "--data", options.data, "--cells", cell, "--seeds", str(seed)]
        command += [f"--tag={options.tag}", "--set", *options.settings]
        subprocess.run(command, check=False)

    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(start, left))


def speed(options: argparse.Namespace) -> None:
    """Updates per second once everything is compiled and recorded."""
    for cell in options.cells:
        settings = [*options.settings, f"training.total_updates={10**9}", "evaluation.interval=0"]
        agent = Agent(config_of(cell, options.data, 0, settings))
        trainer = build_run(agent).trainer
        with trainer.session():
            start = time.perf_counter()
            while trainer.progress.offline_updates < WARM_UP:
                trainer.advance(10**9)
            wait(trainer.device)
            compiled = time.perf_counter() - start
            rates = []
            for _ in range(options.repeats):
                start, before = time.perf_counter(), trainer.progress.offline_updates
                while trainer.progress.offline_updates < before + options.updates:
                    trainer.advance(10**9)
                wait(trainer.device)
                rates.append(options.updates / (time.perf_counter() - start))
        device = torch.cuda.get_device_name() if trainer.device.type == "cuda" else "CPU"
        record = {
            "cell": cell,
            "settings": list(options.settings),
            "device": device,
            "updates_per_second": [round(rate, 1) for rate in rates],
            "compile_and_warm_up_s": round(compiled, 1),
            "config": agent.config.replace("data", path=Path(agent.config.data.path or "").name).to_mapping(),
            "metadata": collect_metadata() | {"command": "benchmarks/offline_control.py speed"},
        }
        agent.close()
        SPEEDS.mkdir(parents=True, exist_ok=True)
        write_atomically(SPEEDS / f"{cell.replace('/', '-')}{options.tag}.json", json.dumps(record, indent=1) + "\n")
        shown = ", ".join(f"{rate:.0f}" for rate in rates)
        print(f"{cell}{options.tag} on {device}: {shown} updates/s, compiled in {compiled:.0f} s", flush=True)


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def table(options: argparse.Namespace) -> None:
    """All methods on all sets, and the means that are compared with d3rlpy's."""
    print(comparison_table(), verdict(), switch_table(), sep="\n\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["run", "table", "speed"])
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--cells", nargs="*", default=[])
    parser.add_argument("--seeds", nargs="*", type=int, default=[0])
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--tag", default="", help="ends the name of a cell whose settings were changed")
    parser.add_argument("--updates", type=int, default=4_000, help="timed at once, by speed")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--set", nargs="*", default=[], dest="settings", help="e.g. training.device=cuda")
    options = parser.parse_args()
    {"run": run, "table": table, "speed": speed}[options.action](options)


if __name__ == "__main__":
    main()
