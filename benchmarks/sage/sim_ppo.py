"""PPO on compiled software tasks: scores on unseen packages and operators, beside heuristics and controls.

python benchmarks/sage/sim_ppo.py run --tables tables.npz --cells main gamma_0 --seeds 0 1 2 [--jobs 4] [--set training.device=cuda]
python benchmarks/sage/sim_ppo.py baselines --tables tables.npz

A cell is the preset (`sage sim train`) with one change. Results are one JSON per cell and seed; finished ones are
skipped. `render_docs.py` writes their table.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

import numpy as np
import sim_controls
import torch

from rl_training.api import Agent
from rl_training.bench.learning import Evaluations
from rl_training.experiment.run_directory import collect_metadata, write_atomically
from sage.sim.environment import rules
from sage.sim.environment.baselines import LADDERS, QUESTIONS, trial_returns
from sage.sim.environment.dynamics import SoftwareTaskDynamics
from sage.sim.environment.models import ModelTiers
from sage.sim.environment.packed import load_packed
from sage.sim.scoring import UNSEEN, Judge, best_constant, ochiai, tuned_heuristic
from sage.sim.training import acting, training_config

STORED = Path(__file__).parent / "results" / "sim_ppo"
SPLITS = {
    "unseen": UNSEEN,
    "test_pkg": ("test_pkg",),
    "test_op": ("test_op",),
    "test_iid": ("test_iid",),
    "train": ("train",),
    "val": ("val",),
}
CONTROLS = {
    "history_blind": sim_controls.HistoryBlind,
    "shuffled_observations": sim_controls.ShuffledObservations,
    "permuted_rewards": sim_controls.PermutedRewards,
}
CELLS: dict[str, tuple[str, ...]] = {
    "main": (),
    "gamma_0": ("algorithm.gamma=0", "env.kwargs.gamma=0"),
    **{name: (f"env.id=sim_controls:{name}",) for name in CONTROLS},
    "tasks_50": ("env.kwargs.most=50",),
    "tasks_200": ("env.kwargs.most=200",),
}


def run(options: argparse.Namespace) -> None:
    left = [(c, s) for s in options.seeds for c in options.cells if not target_of(c + options.tag, s).exists()]
    if options.jobs == 1:
        for cell, seed in left:
            run_one(cell, seed, options)
        return

    def start(pair: tuple[str, int]) -> None:
        cell, seed = pair
        command = [sys.executable, __file__, "run", "--tables", options.tables, "--cells", cell, "--seeds", str(seed)]
        subprocess.run([*command, f"--tag={options.tag}", "--set", *options.settings], check=False)

    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(start, left))


def target_of(cell: str, seed: int) -> Path:
    return STORED / cell / f"seed{seed}.json"


def run_one(cell: str, seed: int, options: argparse.Namespace) -> None:
    config = training_config(options.tables, seed=seed, settings=[*options.settings, *CELLS[cell]])
    agent, evaluations = Agent(config), Evaluations()
    start = time.perf_counter()
    agent.learn(callbacks=[evaluations], progress=False)
    wall = time.perf_counter() - start
    device = next(agent.algorithm.policy.parameters()).device

    torch.manual_seed(seed)
    tasks = load_packed(options.tables)
    scores = {}
    for name, splits in SPLITS.items():
        judge = Judge(tasks.of_split(*splits), device=str(device))
        seen = CONTROLS.get(cell, SoftwareTaskDynamics)
        shown = None if cell == "permuted_rewards" else seen(judge.dynamics.tasks, shaping=False)
        scores[name] = {
            how: asdict(judge.score(choose, shown))
            for how, choose in (("sampled", acting(agent)), ("greedy", acting(agent, explore=False)))
        }
    record = {
        "cell": cell,
        "seed": seed,
        "scores": scores,
        "validation": [(done, mean) for done, mean in evaluations.rows],
        "tasks": len(tasks),
        "wall_time_s": round(wall, 1),
        "config": config.replace(
            "env", kwargs={k: v for k, v in config.env.kwargs.items() if k != "tables"}
        ).to_mapping(),
        "metadata": collect_metadata() | {"command": "benchmarks/sage/sim_ppo.py run"},
    }
    record["config"]["evaluation"].pop("env")
    agent.close()
    target = target_of(cell + options.tag, seed)
    target.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(target, json.dumps(record, indent=1) + "\n")
    found = ", ".join(
        f"{n} {s['sampled']['normalised']:.3f}/{s['greedy']['normalised']:.3f}" for n, s in scores.items()
    )
    curve = " ".join(f"{mean:.2f}" for _, mean in evaluations.rows)
    print(f"{cell}{options.tag} seed {seed}: {found}; validation {curve}; {wall:.0f} s", flush=True)


def baselines(options: argparse.Namespace) -> None:
    """Heuristics that are tuned on training tasks, and the best action to do always."""
    tasks = load_packed(options.tables)
    heuristics = {"ochiai": ochiai(tasks.of_split("train")), "heuristic": tuned_heuristic(tasks.of_split("train"))}
    found = {name: asdict(heuristic) for name, heuristic in heuristics.items()}
    record: dict = {"tasks": len(tasks), "heuristics": found, "scores": {}}
    for name, splits in SPLITS.items():
        judge = Judge(tasks.of_split(*splits))
        action, fixed = best_constant(judge)
        record["scores"][name] = {
            "tasks": len(judge.dynamics.tasks),
            "random": judge.random,
            "full_knowledge": judge.full_knowledge,
            "bounds": bounds(judge),
            **{name: asdict(judge.score(heuristic)) for name, heuristic in heuristics.items()},
            "best_constant": asdict(fixed) | {"action": action},
        }
    write_atomically(STORED / "baselines.json", json.dumps(record, indent=1) + "\n")
    print(json.dumps(record, indent=1))


def bounds(judge: Judge) -> dict[str, float]:
    """What knowledge is worth: of a task's difficulty for models, and of the trial that solves it. Normalised, from expectations."""
    tasks, models = judge.dynamics.tasks, ModelTiers()

    def chance(ability: float) -> np.ndarray:
        return 1 / (1 + np.exp(-models.discrimination * (ability - tasks.difficulty)))

    correct = [chance(models.ability[q // 2] + models.long_context * (q % 2)) for q in QUESTIONS]
    asking = np.zeros(len(tasks))
    for ladder in LADDERS:
        value, left = np.zeros(len(tasks)), np.ones(len(tasks))
        for question in ladder:
            value += left * (rules.SOLVED * correct[question] - rules.COST_ASK[question])
            left = left * (1 - correct[question])
        last = rules.SOLVED * chance(models.escalated) - rules.COSTS["escalate"]
        asking = np.maximum(asking, value + left * np.maximum(last, 0))
    knowing = np.maximum(asking, trial_returns(tasks))
    scale = judge.full_knowledge - judge.random
    found = {"knows_difficulty_no_trials": asking, "knows_difficulty_and_trials": knowing}
    return {name: float((value.mean() - judge.random) / scale) for name, value in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["run", "baselines"])
    parser.add_argument("--tables", type=Path, help="of `sage sim compile`")
    parser.add_argument("--cells", nargs="*", default=list(CELLS), choices=list(CELLS))
    parser.add_argument("--seeds", nargs="*", type=int, default=list(range(10)))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--tag", default="", help="ends the name of a cell whose settings were changed")
    parser.add_argument("--set", nargs="*", default=[], dest="settings", help="e.g. training.device=cuda")
    options = parser.parse_args()
    {"run": run, "baselines": baselines}[options.action](options)


if __name__ == "__main__":
    main()
