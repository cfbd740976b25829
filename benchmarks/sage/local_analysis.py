"""What routing and verified cascades are worth on three real models, by the recorded outcomes of `local_matrix.py`.

OMP_NUM_THREADS=1 .venv/bin/python benchmarks/sage/local_analysis.py       # results/local_matrix/analysis.json, in seconds

- models: the share of right answers and the processor seconds per task, in all and by category.
- ladders: models from the cheapest up, each asked if the verifier rejects the one before. The verifiers are exact, so that a ladder
  is right where one of its models is; nothing is learned and all tasks count. The time of the verifiers is not in the cost.
- learned: which model to try first and whether to go on, from other tasks only (optimal stopping on their outcomes): by category, or
  by text, where tasks of the category with similar words in their prompts count more. Tasks are left out in FOLDS parts, for each of
  SEEDS; `new templates` leaves the functions of one template out together. Two prices of a second share the tasks so that those
  outside the part, each judged while it was left out, keep the best single model's quality and MARGIN more, as cheaply as they can.
  A seed's quality and cost are those of all tasks while they were left out.
- routing: the baselines of `sage bench`, which choose one model per task and see no verdict, on .4 of the tasks left out, by seed.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations, permutations
from pathlib import Path
from typing import NamedTuple

import numpy as np
from short_tasks.generate import FUNCTIONS, functions, generate

from rl_base.evaluation.reward_model import assign_folds
from sage.benchmarks.baselines import Task, all_baselines
from sage.files import write_json
from sage.outcomes.table import OutcomeTable
from sage.rl.cascades.cascade_stopping import follow, solve, types_of
from sage.rl.cascades.simulated_verifier import SimulatedVerifier

RESULTS = Path(__file__).parent / "results" / "local_matrix"
USD_PER_CPU_S = 1e-5
EXACT = SimulatedVerifier(true_positive=1.0, false_positive=0.0)
PRICES = np.geomspace(0.03, 0.8, 10) / USD_PER_CPU_S  # of a second, in right answers
MARGIN = 0.01
FOLDS, SEEDS = 10, 5
WIDTH, EVEN = (
    0.1,
    0.3,
)  # of the kernel of texts, and the share that all tasks of a category have; set on the first 403 tasks
Cascades = Callable[[OutcomeTable, np.ndarray, np.ndarray, float], tuple[np.ndarray, np.ndarray]]


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


def by_category(
    table: OutcomeTable, train: np.ndarray, test: np.ndarray, price: float
) -> tuple[np.ndarray, np.ndarray]:
    """[test] quality and cost of the cascade that is best on the tasks of train in the same category."""
    quality, cost = np.zeros(len(test)), np.zeros(len(test))
    for name in np.unique(table.category[test]):
        known, rows = train[table.category[train] == name], table.category[test] == name
        values = solve(types_of(table.score[known], table.cost_usd[known], EXACT), price).values
        found = follow(types_of(table.score[test[rows]], table.cost_usd[test[rows]], EXACT), values)
        quality[rows], cost[rows] = found.quality, found.cost
    return quality, cost


def by_text(similarity: np.ndarray) -> Cascades:
    """The same with a cascade of its own for every task, for which similar tasks count more."""

    def cascades(
        table: OutcomeTable, train: np.ndarray, test: np.ndarray, price: float
    ) -> tuple[np.ndarray, np.ndarray]:
        quality, cost = np.zeros(len(test)), np.zeros(len(test))
        for place, task in enumerate(test):
            known = train[table.category[train] == table.category[task]]
            near = np.exp(similarity[task, known] / WIDTH)
            share = (1 - EVEN) * near / near.sum() + EVEN / len(known)
            types = types_of(table.score[known], table.cost_usd[known], EXACT)._replace(share=share)
            found = follow(types_of(table.score[[task]], table.cost_usd[[task]], EXACT), solve(types, price).values)
            quality[place], cost[place] = found.quality[0], found.cost[0]
        return quality, cost

    return cascades


def similarity_of(prompts: np.ndarray) -> np.ndarray:
    """[n, n] cosines of the words and numbers of two prompts, rare ones weighing more."""
    sets = [set(re.findall(r"[a-z]+|\d+", prompt.lower())) for prompt in prompts]
    place = {word: column for column, word in enumerate(sorted(set().union(*sets)))}
    there = np.zeros((len(sets), len(place)))
    for row, words in enumerate(sets):
        there[row, [place[word] for word in words]] = 1.0
    there *= np.log(len(sets) / there.sum(axis=0))
    there /= np.linalg.norm(there, axis=1, keepdims=True)
    return there @ there.T


class Mixture(NamedTuple):
    """Two of PRICES; a share of the tasks goes by the first, the others by the second."""

    first: int
    second: int
    share: float


def mixture_for(quality: np.ndarray, cost: np.ndarray, aim: float) -> Mixture:
    """The cheapest mixture that reaches the aim, by the mean [prices] quality and cost; else the best quality."""
    best = int(quality.argmax())
    found = [(cost[k], Mixture(k, k, 1.0)) for k in np.flatnonzero(quality >= aim)]
    for more, less in permutations(range(len(PRICES)), 2):
        if quality[more] >= aim > quality[less]:
            share = float((aim - quality[less]) / (quality[more] - quality[less]))
            found.append((share * cost[more] + (1 - share) * cost[less], Mixture(more, less, share)))
    return min(found, default=(0.0, Mixture(best, best, 1.0)))[1]


def judged(table: OutcomeTable, cascades: Cascades, group: np.ndarray, seed: int) -> dict[str, float]:
    """Quality and cost of all tasks, each while its group's part was left out."""
    fold = assign_folds(group, FOLDS, seed)
    quality, cost = np.zeros((2, len(PRICES), len(table)))
    for k in range(FOLDS):
        rows, others = np.flatnonzero(fold == k), np.flatnonzero(fold != k)
        for row, price in enumerate(PRICES):
            quality[row, rows], cost[row, rows] = cascades(table, others, rows, price)
    chosen = np.zeros((2, len(table)))
    for k in range(FOLDS):
        rows, others = fold == k, fold != k
        aim = table.score[others].mean(axis=0).max() + MARGIN
        first, second, share = mixture_for(quality[:, others].mean(axis=1), cost[:, others].mean(axis=1), aim)
        for part, values in enumerate((quality, cost)):
            chosen[part, rows] = share * values[first, rows] + (1 - share) * values[second, rows]
    return summary(*chosen)


def learned(table: OutcomeTable, cascades: Cascades, group: np.ndarray) -> dict:
    """Means and extremes over seeds, and the ratio to the single model that is best on all tasks."""
    best = int(table.score.mean(axis=0).argmax())
    usual = summary(table.score[:, best], table.cost_usd[:, best])
    seeds = [judged(table, cascades, group, seed) for seed in range(SEEDS)]
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


def templates(table: OutcomeTable) -> np.ndarray:
    """int [tasks]: equal for functions of one template; other tasks are each their own."""
    texts = {task.id: FUNCTIONS[place][0].text for place, task in enumerate(functions(0))}
    return np.unique([texts.get(name, name) for name in table.task_id.tolist()], return_inverse=True)[1]


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
    own, similarity = np.arange(len(table)), similarity_of(table.prompt)
    result = {
        "tasks": len(table),
        "of": len(generate(0)),
        "table_sha256": OutcomeTable.open(RESULTS / "outcomes.npz").sha256,
        "models": models(table),
        "ladders": ladders(table),
        "learned": {
            "by category": learned(table, by_category, own),
            "by text": learned(table, by_text(similarity), own),
            "by text, new templates": learned(table, by_text(similarity), templates(table)),
        },
        "routing": routing(table),
    }
    write_json(options.out, result)
    for name in ("ladders", "learned", "routing"):
        print(name, result[name])
    print(result["models"]["all"])


if __name__ == "__main__":
    main()
