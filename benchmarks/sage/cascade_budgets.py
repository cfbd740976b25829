"""Whether learned cascades keep to a budget, and how they compare with single models that are mixed at random.

OMP_NUM_THREADS=1 .venv/bin/python benchmarks/sage/cascade_budgets.py --data DIR --processes 2

Outcomes and costs are recorded (SWE-bench); the verifier is simulated as in cascades.py. A ladder (cascades.py says how it is chosen)
logs 10,000 episodes with .3 of exploration over the tasks to learn from. From this log alone, `sage train --learner cascade` learns
for budgets of .01 to .5 of the cost of the best single model (`max_usd_per_task`). Parts:

- tasks: 60 % of the tasks to learn from, drawn for every log. `cost` is the mean cost of a task over the budget, by exact expectations
  over the verifier: `seen` on the tasks that were learned from, `unseen` on the others, whose costs differ by chance. `over_line` is
  the quality less that of single models mixed at random at the same cost. `refused` is the share of logs in which nothing kept to the
  budget, so that the command names the least cost; `least` is that cost over the budget, and `fits` whether the cheapest model alone
  costs no more than the budget.
- repositories: each repository is left out in turn, and judged on; `over_line` is over the tasks of all of them.

Wanted for budgets of .15 to .5, by the mean over 20 logs: a cost of at most 1.05 of the budget on tasks of the same kind (`unseen`)
where the cheapest model fits, else a refusal in every log; over all repositories at most .005 of quality below the line. Exits with
1 if not. --pack DIR writes the table as a file that --packed DIR reads without pyarrow. One file per part and verifier in --out; those
that are there are not computed again.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
from cascade_replay import replay_cascade
from cascade_worlds import BELOW_LINE, VERIFIERS, ladder_of, line_at, load
from cascades import EPISODES, EXPLORATION

from sage.benchmarks.cascades import expected_of
from sage.evidence.objective import usd_per_task
from sage.files import write_json
from sage.outcomes.table import OutcomeTable
from sage.policies.cascades.cascade_ladder import ExploringCascade, LadderCascade
from sage.policies.cascades.learned_cascade import LearnedCascade
from sage.rl.cascades.cascade_selection import PricedCascades
from sage.rl.cascades.simulated_verifier import SimulatedVerifier

OUT = Path(__file__).parent / "results" / "cascade_budgets"
NAME = "swebench"
BUDGETS = (0.01, 0.03, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5)  # of the best single model's cost
JUDGED, OVER = 0.15, 1.05  # the smallest budget that has to be kept, and how far
TRAIN = 0.6


def means_of(table: OutcomeTable, policy: LearnedCascade, verifier: SimulatedVerifier) -> np.ndarray:
    """Quality and cost over the tasks of a table, if tasks are shared as the policy wants in expectation."""
    found = expected_of(table, replace(policy, other=None), verifier)
    own = np.array([found.quality.mean(), found.cost.mean()])
    return (
        own
        if policy.other is None
        else policy.share * own + (1 - policy.share) * means_of(table, policy.other, verifier)
    )


def budgets_kept(
    train: OutcomeTable, held_out: OutcomeTable, ladder: tuple[str, ...], verifier: SimulatedVerifier, seed: int
) -> dict[str, dict[str, float]]:
    best = int(train.score.mean(axis=0).argmax())
    pool, others = (part.with_models(tuple(sorted(ladder))) for part in (train, held_out))
    logger = ExploringCascade(LadderCascade(ladder), EXPLORATION)
    measured = PricedCascades.measure(replay_cascade(pool, logger, EPISODES, verifier=verifier, seed=seed), seed=seed)
    single, found = float(train.cost_usd[:, best].mean()), {}
    for budget in BUDGETS:
        limit = budget * single
        policy = measured.within(usd_per_task(limit))
        (_, seen), (quality, unseen) = (means_of(part, policy, verifier) for part in (pool, others))
        record = policy.training.calibration
        found[f"{budget:g}"] = {
            "refused": float(not record["within_limit"]),
            "fits": float(pool.cost_usd.mean(axis=0).min() <= limit),
            "least": record["least_usd_per_task"] / limit,
            "seen": seen / limit,
            "unseen": unseen / limit,
            "quality": quality,
            "best_single": float(held_out.score[:, best].mean()),
            "over_line": quality - line_at(train, held_out, unseen),
        }
    return found


def one_log(table: OutcomeTable, rates: tuple[float, float, float], ladder: tuple[str, ...], seed: int) -> dict:
    first = np.random.default_rng((47, seed)).random(len(table)) < TRAIN
    return budgets_kept(table.select(first), table.select(~first), ladder, SimulatedVerifier(*rates), seed)


def one_repository(
    table: OutcomeTable, rates: tuple[float, float, float], ladders: dict[str, tuple[str, ...]], job: tuple[str, int]
) -> dict:
    name, seed = job
    held = table.category == name
    return budgets_kept(table.select(~held), table.select(held), ladders[name], SimulatedVerifier(*rates), seed)


def means(rows: list[dict], weights: list[float]) -> dict:
    """Weighted over logs and repositories; costs and least costs over the budget are the mean of logs that were not refused."""
    found: dict = {}
    for budget in rows[0]:
        column = {key: np.array([row[budget][key] for row in rows]) for key in rows[0][budget]}
        kept = np.array(weights) * (column["refused"] == 0)
        found[budget] = {
            key: round(float(np.average(column[key], weights=weights)), 4) for key in ("refused", "fits", "least")
        }
        if kept.any():
            others = ("seen", "unseen", "quality", "best_single", "over_line")
            found[budget] |= {key: round(float(np.average(column[key], weights=kept)), 4) for key in others}
    return found


def run_tasks(table: OutcomeTable, rates: tuple[float, float, float], logs: int, pool: Executor) -> dict:
    ladder = ladder_of(table, None, *rates[:2])
    rows = list(pool.map(partial(one_log, table, rates, ladder), range(logs)))
    return {"ladder": list(ladder), "budgets": means(rows, [1.0] * len(rows))}


def run_repositories(table: OutcomeTable, rates: tuple[float, float, float], logs: int, pool: Executor) -> dict:
    names = np.unique(table.category).tolist()
    ladders = {name: ladder_of(table, name, *rates[:2]) for name in names}
    jobs = list(product(names, range(logs)))
    rows = list(pool.map(partial(one_repository, table, rates, ladders), jobs))
    sizes = [float((table.category == name).sum()) for name, _ in jobs]
    return {"ladders": {name: list(ladder) for name, ladder in ladders.items()}, "budgets": means(rows, sizes)}


PARTS = {"tasks": run_tasks, "repositories": run_repositories}


def failures(result: dict) -> list[str]:
    bad = []
    for budget, found in result["budgets"].items():
        if float(budget) < JUDGED and found["fits"] == 1:
            continue
        where = f"{result['part']}, {result['verifier']}, budget {budget}"
        if found["fits"] == 0:
            bad += [f"{where}: not refused in {1 - found['refused']:.2f} of logs"] if found["refused"] < 1 else []
        elif found["fits"] == 1:
            if result["part"] == "tasks" and not found.get("unseen", np.inf) <= OVER:
                bad.append(f"{where}: costs {found.get('unseen')} of it")
            if result["part"] == "repositories" and not found.get("over_line", -np.inf) >= -BELOW_LINE:
                bad.append(f"{where}: {found.get('over_line')} from the mixing line")
    return bad


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--data", type=Path, help="folder of the outcome packs")
    source.add_argument("--packed", type=Path, help="folder that --pack wrote")
    parser.add_argument("--pack", type=Path, help="write the table of --data into this folder, and stop")
    parser.add_argument("--logs", type=int, default=20, help="per part, verifier and repository")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument(
        "--verifiers", type=int, nargs="+", default=list(range(len(VERIFIERS))), help="numbers in VERIFIERS"
    )
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--out", type=Path, default=OUT, help="folder of the results")
    arguments = parser.parse_args()
    if arguments.pack:
        load(arguments.data).save(arguments.pack / f"{NAME}-cascades.npz")
        return 0
    table = OutcomeTable.open(arguments.packed / f"{NAME}-cascades.npz") if arguments.packed else load(arguments.data)
    results = []
    with ProcessPoolExecutor(arguments.processes) as pool:
        for part, number in product(arguments.parts, arguments.verifiers):
            rates = VERIFIERS[number]
            path = arguments.out / f"{part}_{rates[0]:g}_{rates[1]:g}_{rates[2]:g}.json"
            if not path.exists():
                started = time.perf_counter()
                found = PARTS[part](table, rates, arguments.logs, pool)
                versions = {"python": platform.python_version(), "numpy": np.__version__}
                head = {"part": part, "verifier": list(rates), "logs": arguments.logs}
                seconds = round(time.perf_counter() - started, 1)
                write_json(path, head | found | {"seconds": seconds, "versions": versions})
            results.append(json.loads(path.read_text()))
            print(path.stem, json.dumps(results[-1]["budgets"]), flush=True)
    failed = [sentence for result in results for sentence in failures(result)]
    print("\n".join(failed) or "all checks hold")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
