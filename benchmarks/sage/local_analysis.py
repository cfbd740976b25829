"""What routing and verified cascades are worth on three real models, by the recorded outcomes of `local_matrix.py`.

OMP_NUM_THREADS=1 .venv/bin/python benchmarks/sage/local_analysis.py       # results/local_matrix/analysis.json, in seconds

- models: the share of right answers and the processor seconds per task, in all and by category.
- ladders: models from the cheapest up, each asked if the verifier rejects the one before. The verifiers are exact, so that a ladder
  is right where one of its models is; nothing is learned and all tasks count. The time of the verifiers is not in the cost.
- learned: which model to try first and whether to go on, by category, from other tasks only (optimal stopping on their outcomes).
  Two prices of a second share the tasks so that the other tasks keep the best single model's quality and MARGIN more, as cheaply as
  they can; their quality and cost are estimated by leaving INNER_FOLDS parts of them out once more. Tasks are left out in FOLDS
  parts, for each of SEEDS; a seed's quality and cost are those of all tasks, each judged while it was left out.
- routing: the baselines of `sage bench`, which choose one model per task and see no verdict, on .4 of the tasks left out, by seed.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rl_training.evaluation.reward_model import assign_folds
from sage.benchmarks.baselines import Task, all_baselines
from sage.benchmarks.short_tasks.generate import generate
from sage.files import write_json
from sage.outcomes.table import OutcomeTable
from sage.rl.cascade_replay import SimulatedVerifier
from sage.rl.cascade_stopping import follow, solve, types_of

RESULTS = Path(__file__).parent / "results" / "local_matrix"
USD_PER_CPU_S = 1e-5
EXACT = SimulatedVerifier(true_positive=1.0, false_positive=0.0)
PRICES = np.geomspace(0.02, 0.8, 17) / USD_PER_CPU_S  # of a second, in right answers
MARGIN = 0.01
FOLDS, INNER_FOLDS, SEEDS = 10, 5, 5


def open_matrix() -> OutcomeTable:
    """The table with the prompts of the seed that it names; tasks with an unknown verdict are left out."""
    table = OutcomeTable.open(RESULTS / "outcomes.npz")
    prompts = {task.id: task.prompt for task in generate(0)}
    table = replace(table, prompt=np.array([prompts[name] for name in table.task_id], dtype=object))
    return table.select(table.ran.all(axis=1))


def summary(quality: np.ndarray, cost_usd: np.ndarray) -> dict[str, float]:
    return {"quality": round(float(quality.mean()), 4), "cpu_s": round(float(cost_usd.mean()) / USD_PER_CPU_S, 3)}


def models(table: OutcomeTable) -> dict:
    parts = {"all": np.ones(len(table), bool)} | {name: table.category == name for name in np.unique(table.category)}
    return {
        name: {"tasks": int(rows.sum())}
        | {model: summary(table.score[rows, k], table.cost_usd[rows, k]) for k, model in enumerate(table.models)}
        for name, rows in parts.items()
    }


def ladders(table: OutcomeTable) -> dict:
    """Every ladder of two or three models, from the cheapest up, on all tasks."""
    found = {}
    order = np.argsort(table.cost_usd.mean(axis=0))
    for size in (2, 3):
        for chosen in combinations(order, size):
            quality, cost = np.zeros(len(table)), np.zeros(len(table))
            for k in chosen:
                cost += np.where(quality < 1, table.cost_usd[:, k], 0.0)
                quality = np.maximum(quality, table.score[:, k])
            found[" -> ".join(table.models[k] for k in chosen)] = summary(quality, cost)
    return found


def stopping(train: OutcomeTable, test: OutcomeTable, price: float) -> tuple[np.ndarray, np.ndarray]:
    """[test] quality and cost of the best cascade of train, category by category."""
    quality, cost = np.zeros(len(test)), np.zeros(len(test))
    for name in np.unique(test.category):
        known, rows = train.category == name, test.category == name
        values = solve(types_of(train.score[known], train.cost_usd[known], EXACT), price).values
        found = follow(types_of(test.score[rows], test.cost_usd[rows], EXACT), values)
        # The exact verifier makes one kind of task that comes, and one that never does.
        quality[rows], cost[rows] = found.quality[: rows.sum()], found.cost[: rows.sum()]
    return quality, cost


class Mixture(NamedTuple):
    """Two prices of a second; a share of the tasks goes by the first, the others by the second."""

    first: float
    second: float
    share: float


def left_out(table: OutcomeTable, price: float) -> tuple[np.ndarray, np.ndarray]:
    """[tasks] quality and cost, each task judged by what the tasks of other folds teach."""
    fold = assign_folds(np.arange(len(table)), INNER_FOLDS, 0)
    quality, cost = np.zeros(len(table)), np.zeros(len(table))
    for k in range(INNER_FOLDS):
        rows = fold == k
        quality[rows], cost[rows] = stopping(table.select(~rows), table.select(rows), price)
    return quality, cost


def mixture_for(train: OutcomeTable) -> Mixture:
    """The cheapest mixture that is estimated to have the quality of the best single model and MARGIN more."""
    aim = train.score.mean(axis=0).max() + MARGIN
    points = [tuple(float(part.mean()) for part in left_out(train, price)) for price in PRICES]
    found = [
        (cost, Mixture(price, price, 1.0))
        for price, (quality, cost) in zip(PRICES, points, strict=True)
        if quality >= aim
    ]
    for (low, (more, dear)), (high, (less, cheap)) in combinations(zip(PRICES, points, strict=True), 2):
        if more >= aim > less:
            share = (aim - less) / (more - less)
            found.append((share * dear + (1 - share) * cheap, Mixture(low, high, share)))
    return min(found, default=(0.0, Mixture(PRICES[0], PRICES[0], 1.0)))[1]


def mixed(train: OutcomeTable, test: OutcomeTable, mixture: Mixture) -> tuple[np.ndarray, np.ndarray]:
    """[test] expected quality and cost over who goes by which price."""
    first, second = (stopping(train, test, price) for price in mixture[:2])
    quality, cost = (mixture.share * x + (1 - mixture.share) * y for x, y in zip(first, second, strict=True))
    return quality, cost


def learned(table: OutcomeTable) -> dict:
    """Quality and cost by seed, and their ratio to the single model that is best on all tasks."""
    best = int(table.score.mean(axis=0).argmax())
    seeds = []
    for seed in range(SEEDS):
        fold = assign_folds(np.arange(len(table)), FOLDS, seed)
        quality, cost = np.zeros(len(table)), np.zeros(len(table))
        for k in range(FOLDS):
            train, test = table.select(fold != k), table.select(fold == k)
            quality[fold == k], cost[fold == k] = mixed(train, test, mixture_for(train))
        seeds.append(summary(quality, cost))
    usual = summary(table.score[:, best], table.cost_usd[:, best])
    qualities, costs = (np.array([seed[name] for seed in seeds]) for name in ("quality", "cpu_s"))
    return {
        "best_single": table.models[best],
        "seeds": SEEDS,
        "quality": round(float(qualities.mean()), 4),
        "lowest_quality": float(qualities.min()),
        "cpu_s": round(float(costs.mean()), 3),
        "times_cost": round(float(costs.mean()) / usual["cpu_s"], 3),
        "highest_times_cost": round(float(costs.max()) / usual["cpu_s"], 3),
        "not_below_best_single": int((qualities >= usual["quality"]).sum()),
    }


def routing(table: OutcomeTable) -> dict:
    found: dict[str, list[dict]] = {}
    static = table.models[int(table.score.mean(axis=0).argmax())]
    for seed in range(SEEDS):
        train, held_out = table.split(seed=seed)
        task = Task(train, held_out, train.contexts(), held_out.contexts(), static, seed)
        for name, choose in all_baselines(table.models).items():
            chances = choose(task)
            row = summary((chances * held_out.score).sum(axis=1), (chances * held_out.cost_usd).sum(axis=1))
            found.setdefault(name, []).append(row)
    return {
        name: {key: round(float(np.mean([row[key] for row in rows])), 4) for key in ("quality", "cpu_s")}
        for name, rows in found.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=RESULTS / "analysis.json")
    options = parser.parse_args()
    table = open_matrix()
    result = {
        "tasks": len(table),
        "of": len(generate(0)),
        "table_sha256": OutcomeTable.open(RESULTS / "outcomes.npz").sha256,
        "models": models(table),
        "ladders": ladders(table),
        "learned": learned(table),
        "routing": routing(table),
    }
    write_json(options.out, result)
    for name in ("ladders", "learned", "routing"):
        print(name, result[name])
    print(result["models"]["all"])


if __name__ == "__main__":
    main()
