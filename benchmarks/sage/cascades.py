"""Verified cascades on repositories that were left out, and how far the proof of a cascade can be trusted.

OMP_NUM_THREADS=1 .venv/bin/python benchmarks/sage/cascades.py --data DIR            # writes results/cascades/*.json
.venv/bin/python benchmarks/sage/cascades.py --data DIR --part coverage --draws 50   # a look at one part

Outcomes and dollars are recorded (SWE-bench, one run per task and model); the verifier is simulated from them: true and
false positive rates, and errors on one task that are correlated by rho. One result file per cell; what is there is not
computed again.

- repositories: each repository is left out in turn. On the others: the best single model; a ladder of it and the two or
  three models that add most to the best cascade, greedily, at a price of .1 or .2 points of quality per dollar, of
  which the one is taken whose optimal stopping has the best quality within the budget of .35 when each of the other
  repositories is left out; 10,000 episodes of that ladder from the cheapest up, with a share of .3 of exploration; from
  these episodes alone, cascades for a grid of prices (fitted Q), whose quality and cost are estimated on tasks left out
  of learning (sequential doubly robust, three folds). `learned_wide` sees what the attempts cost too. Two rules choose
  by the estimates: `budget`, the best for this share of the best single model's cost (the must is judged at .35, the
  goal at .25, as costs on a new repository are others), and `aim`, the cheapest with this share of its quality. Where
  no price is at the limit, two prices share the tasks, as `sage train --learner cascade` does it. `known_rates` is the same
  with optimal stopping on the recorded outcomes of the other repositories and the rates of the verifier (assumed
  independent), estimated by leaving each of them out once more. On the repository left out, quality and cost are exact
  expectations over the verifier, or means of 40 passes where costs play a part. `line` is the mixture of single models,
  chosen on the other repositories, that costs the same.
- coverage: cascade_coverage.py.
- line: cascade_line.py.
- refusals (only if asked for): cascade_refusals.py.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
from cascade_coverage import coverage
from cascade_line import line_by_chance
from cascade_refusals import refusals
from cascade_replay import replay_cascade
from cascade_worlds import (
    AIMS,
    BELOW_LINE,
    BUDGETS,
    PRICES,
    VERIFIERS,
    choose_ladder,
    curve_from_table,
    line_at,
    load,
    read,
    shares_for,
    shares_within,
    stopping,
)

from rl_base.evaluation.reward_model import assign_folds
from sage.benchmarks.cascades import expected_of
from sage.evidence.cascades.cascade_data import CascadeData
from sage.files import write_json
from sage.outcomes.table import OutcomeTable
from sage.policies.cascades.cascade_ladder import ExploringCascade, LadderCascade
from sage.policies.cascades.cascade_policy import CascadePolicy
from sage.policies.cascades.learned_cascade import LearnedCascade
from sage.rl.cascades.cascade_dqn import learn_dqn
from sage.rl.cascades.cascade_estimates import fitted_parts, part_rewards, target_of
from sage.rl.cascades.cascade_learning import episode_log, learn_fitted_q
from sage.rl.cascades.simulated_verifier import SimulatedVerifier

OUT = Path(__file__).parent / "results" / "cascades"
PARTS = ("repositories", "coverage", "line")
MUST, GOAL = "budget 0.35", "budget 0.25"
PASSES = 40
EPISODES, EXPLORATION, FOLDS = 10_000, 0.3, 3
Learn = Callable[[CascadeData, float], LearnedCascade]
learn_wide = partial(learn_fitted_q, wide=True)


def estimated(data: CascadeData, policy: CascadePolicy) -> tuple[np.ndarray, np.ndarray]:
    """[episodes] what each says of the policy's quality and cost."""
    target = target_of(data, policy)
    taken, known = target[np.arange(len(target)), data.action], np.ones(len(target), bool)
    found = []
    for part, (q, v) in fitted_parts(data, target, known, 0).items():
        log, rewards = episode_log(data, 0.0), part_rewards(data, part)
        ratios = log.padded(taken / log.propensities, 1.0)
        q, v, rewards = (log.padded(column, 0.0) for column in (q, v, rewards))
        terms = np.zeros(len(data))
        for t in reversed(range(ratios.shape[1])):
            terms = v[:, t] + ratios[:, t] * (rewards[:, t] + terms - q[:, t])
        found.append(terms)
    return found[0], found[1]


def curve_from_log(data: CascadeData, learn: Learn) -> list[tuple[float, float]]:
    """Quality and cost for every price, by cascades that were learned from other tasks."""
    _, task = np.unique(data.contexts.task_id, return_inverse=True)
    fold, curve = assign_folds(task, FOLDS, 0), []
    for price in PRICES:
        parts = []
        for k in range(FOLDS):
            held_out = data.select(fold == k)
            parts.append(estimated(held_out, learn(data.select(fold != k), price)))
        curve.append(
            (float(np.concatenate([p[0] for p in parts]).mean()), float(np.concatenate([p[1] for p in parts]).mean()))
        )
    return curve


def means_of(table: OutcomeTable, policy: LearnedCascade, verifier: SimulatedVerifier) -> tuple[float, float]:
    """Quality and cost over the tasks of a table."""
    if policy.name == "fitted_q_wide":
        rows = np.tile(np.arange(len(table)), PASSES)
        data = replay_cascade(table, policy, len(rows), verifier=verifier, seed=0, rows=rows)
        return float(data.quality.mean()), float(data.total_cost.mean())
    found = expected_of(table, policy, verifier)
    return float(found.quality.mean()), float(found.cost.mean())


def left_out(folder: Path, name: str, verifier: SimulatedVerifier, seed: int, *, with_dqn: bool) -> dict:
    table = load(folder)
    held = table.category == name
    train, held_out = table.select(~held), table.select(held)
    best = int(train.score.mean(axis=0).argmax())
    ladder = choose_ladder(name, verifier.true_positive, verifier.false_positive, folder)
    pool, pool_held = (part.with_models(tuple(sorted(ladder))) for part in (train, held_out))
    logger = ExploringCascade(LadderCascade(ladder), EXPLORATION)
    data = replay_cascade(pool, logger, EPISODES, verifier=verifier, seed=seed)
    usual, limit = (float(values[:, best].mean()) for values in (train.score, train.cost_usd))
    learners: dict[str, tuple[list, Callable[[float], LearnedCascade]]] = {
        "learned": (curve_from_log(data, learn_fitted_q), lambda price: learn_fitted_q(data, price)),
        "learned_wide": (curve_from_log(data, learn_wide), lambda price: learn_wide(data, price)),
    }
    if seed == 0:
        known = curve_from_table(pool, verifier)
        learners["known_rates"] = (known, lambda price: stopping(pool, verifier, price))
    found: dict = {
        "tasks": len(held_out),
        "ladder": list(ladder),
        "best_single": train.models[best],
        "best_single_quality": float(held_out.score[:, best].mean()),
        "best_single_cost": float(held_out.cost_usd[:, best].mean()),
    }
    made: dict = {}

    def row(learner: str, shares: np.ndarray) -> dict:
        for k in np.flatnonzero(shares):
            if (learner, k) not in made:
                made[learner, k] = means_of(pool_held, learners[learner][1](PRICES[k]), verifier)
        quality, cost = sum(shares[k] * np.array(made[learner, k]) for k in np.flatnonzero(shares)).tolist()
        prices = {f"{PRICES[k]:g}": float(shares[k]) for k in np.flatnonzero(shares)}
        return {"prices": prices, "quality": quality, "cost_usd": cost, "line": line_at(train, held_out, cost)}

    for learner, (curve, _) in learners.items():
        aims = {f"aim {share:g}": row(learner, shares_for(curve, share * usual)) for share in AIMS}
        found[learner] = aims | {f"budget {b:g}": row(learner, shares_within(curve, b * limit)) for b in BUDGETS}
    if with_dqn:  # at the prices that fitted Q has: a curve of its own would take an hour
        learners["dqn"] = (learners["learned"][0], lambda price: learn_dqn(data, price))
        found["dqn"] = {MUST: row("dqn", shares_within(learners["learned"][0], 0.35 * limit))}
    return found


def repositories(folder: Path, out: Path, seeds: int) -> list[dict]:
    cells = []
    for seed, (true_positive, false_positive, rho) in product(range(seeds), VERIFIERS):
        path = out / f"repositories_{true_positive:g}_{false_positive:g}_{rho:g}_{seed}.json"
        if not path.is_file():
            started = time.process_time()
            verifier = SimulatedVerifier(true_positive, false_positive, rho)
            with_dqn = seed == 0 and (true_positive, rho) == (0.95, 0.0)
            names = np.unique(load(folder).category).tolist()
            found = {name: left_out(folder, name, verifier, seed, with_dqn=with_dqn) for name in names}
            cell = {"verifier": [true_positive, false_positive, rho], "seed": seed, "repositories": found}
            seconds = round(time.process_time() - started, 1)
            write_json(path, cell | {"pooled": pooled(found), "cpu_seconds": seconds})
        cells.append(read(path))
        told = {name: rows[MUST] for name, rows in cells[-1]["pooled"].items()}
        print(path.stem, {name: [round(row[k], 3) for k in row] for name, row in told.items()}, flush=True)
    return cells


def pooled(found: dict) -> dict:
    """Over all repositories, by tasks: relative quality and cost, and the distance to the line, the worst one too."""
    result: dict = {}
    sizes = np.array([part["tasks"] for part in found.values()])
    for learner in ("learned", "learned_wide", "known_rates", "dqn"):
        if learner not in next(iter(found.values())):
            continue
        result[learner] = {}
        for rule in next(iter(found.values()))[learner]:
            rows = [part[learner][rule] for part in found.values()]
            quality, cost, line = (np.array([row[k] for row in rows]) for k in ("quality", "cost_usd", "line"))
            single, dear = (
                np.array([part[k] for part in found.values()]) for k in ("best_single_quality", "best_single_cost")
            )
            result[learner][rule] = {
                "quality": float(sizes @ quality / (sizes @ single)),
                "cost": float(sizes @ cost / (sizes @ dear)),
                "over_line": float(sizes @ (quality - line) / sizes.sum()),
                "worst_over_line": float((quality - line).min()),
            }
    return result


def checks(cells: list[dict], covered: list[dict]) -> dict[str, bool]:
    found: dict[str, bool] = {}
    for rate in sorted({tuple(cell["verifier"][:2]) for cell in cells}, reverse=True):
        same = [cell for cell in cells if tuple(cell["verifier"][:2]) == rate]
        for learner in ("learned", "learned_wide", "known_rates"):
            parts = [cell["pooled"][learner] for cell in same if learner in cell["pooled"]]
            title = f"{rate[0]:g}/{rate[1]:g} {learner}"
            must = all(part[MUST]["quality"] >= 1.0 and part[MUST]["cost"] <= 0.40 for part in parts)
            goal = all(part[GOAL]["quality"] >= 1.02 and part[GOAL]["cost"] <= 0.30 for part in parts)
            found[f"{title}: at least 100 % of the best single model at .40 of its cost"] = must
            found[f"{title}: goal of 102 % at .30"] = goal
    rows = [row for cell in cells for name in ("learned", "learned_wide") for row in cell["pooled"][name].values()]
    lines, worst = ([row[key] for row in rows] for key in ("over_line", "worst_over_line"))
    found["never below the mixing line by more than half a point, over all repositories"] = min(lines) >= -BELOW_LINE
    found["the same in every single repository"] = min(worst) >= -BELOW_LINE
    rows = [row for cell in covered for row in cell["targets"].values() if row["refused"] < 1]
    found["coverage .93 to .97 where it does not refuse"] = all(0.93 <= row["coverage"] <= 0.97 for row in rows)
    found["width at most .85 of trajectory importance sampling"] = all(row["width_ratio"] <= 0.85 for row in rows)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, type=Path, help="folder of the outcome packs")
    parser.add_argument("--part", choices=(*PARTS, "refusals"), action="append")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--draws", type=int, default=3_000, help="logs per cell of the coverage")
    parser.add_argument("--out", type=Path, default=OUT)
    arguments = parser.parse_args()
    parts = arguments.part or PARTS
    cells = repositories(arguments.data, arguments.out, arguments.seeds) if "repositories" in parts else []
    covered = coverage(arguments.data, arguments.out, arguments.draws) if "coverage" in parts else []
    if "line" in parts:
        line_by_chance(arguments.data, arguments.out)
    if "refusals" in parts:
        refusals(arguments.data, arguments.out, arguments.draws)
    if not cells or not covered:
        return 0
    found = checks(cells, covered)
    write_json(arguments.out / "checks.json", found)
    for sentence, met in found.items():
        print("met   " if met else "MISSED", sentence)
    return 0 if all(found.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
