"""Objectives with a limit: are both bounds of the gate right, how often does it promote, and how much money is saved?

OMP_NUM_THREADS=1 .venv/bin/python benchmarks/sage/objectives.py --data DIR

Tables are those with a cost for every model and task; pools, static tables, candidates and logs (20,000 rows, .3 of exploration,
tasks drawn again for every log) are drawn as in gate.py, by quality.

- gate: candidates of which every second is acceptable, that is less than 1 point worse in quality and cheaper. Promoted though
  not acceptable ("at most 1 point worse, as cheap as possible"); the same for "best quality under a budget per task", where the
  budget is the candidate's true cost times a number between .8 and 1.2; coverage of the intervals of quality, of cost, and
  of the candidate's cost per task at fixed n;
- cheaper: the best single model against the cheapest of the pool, everywhere. The margin is the true loss of quality plus a
  slack in points: at 0 or less a promotion is false, above it is power;
- looks: candidates that are not acceptable, looked at after every 1,000 of the 20,000 rows: promoted at any look, and whether a
  bound is wrong at any look;
- learn: `train-dr` for a margin of 1 point and for reward_v1, from logs of 60 % of the tasks, as it would serve (floor .9), on the
  others: the loss of quality and the share of the cost that is saved, and what the gate says on another log of the
  tasks left out. The static table is the best single model.

Wanted, at fixed n: false promotion at most .05 in every cell (aim .015), coverage .93 to .97 of both intervals; over 20 looks
false promotion at most .05 with the anytime interval; a learned policy whose mean loss of quality is at most the margin. Exits
with 1 if not. One file per table and part in results/objectives; those that are there are not computed again.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from itertools import product
from pathlib import Path

import numpy as np
from gate import EPSILON, ROWS, draw_pair
from learn_from_log import PerCategory, served
from objective_worlds import Drawn, Worlds, checked, draw_log, judged, load

from rl_base.evaluation.intervals import Method
from sage.evidence.objective import DEFAULT, points_worse
from sage.files import write_json
from sage.outcomes.table import OutcomeTable
from sage.proof.evaluation import evaluate_offline
from sage.proof.gate import decide
from sage.rl.doubly_robust_learner import learn_doubly_robust
from sage.rl.logging_policies import Exploring
from sage.rl.replay import replay

OUT = Path(__file__).parent / "results" / "objectives"
SMALL = ("swebench-100", "llmrouter-200")  # so many tasks of a larger table
TABLES = ("swebench", "llmrouter", "routellm", "routerarena", *SMALL)
MARGIN, BUDGETS, SLACKS = 0.01, (0.8, 1.2), (-2, -1, 0, 1, 2, 4)
TRAIN, FLOOR, TRIES = 0.6, 0.9, 3_000
LOOKS, DRAWS_PER_LOOKED_AT = 20, 5  # a fifth of the logs, as each is judged 20 times
METHODS: tuple[Method, ...] = ("t", "anytime")


def draw_candidate(
    worlds: Worlds, rng: np.random.Generator, setting: str, *, acceptable: bool
) -> tuple[np.ndarray, np.ndarray] | None:
    """None where hardly any candidate is of this kind."""
    for _ in range(TRIES):
        static, candidate = draw_pair(worlds.quality, rng, setting)
        gained, paid = worlds.difference(static, candidate)
        if (gained > -MARGIN and paid < 0) == acceptable:
            return static, candidate
    return None


def one_draw(worlds: Worlds, rng: np.random.Generator, setting: str, *, acceptable: bool) -> dict[str, float] | None:
    pair = draw_candidate(worlds, rng, setting, acceptable=acceptable)
    if pair is None:
        return None
    gained, paid = worlds.difference(*pair)
    found = judged(draw_log(worlds, rng, *pair))
    per_decision = worlds.cost.value(pair[1])
    spent = per_decision * found.per_task
    budget = spent * rng.uniform(*BUDGETS)
    row: dict[str, float] = {
        "acceptable": acceptable,
        "gained": gained,
        "paid": paid,
        "usable": found.usable,
        "budget_true": spent <= budget and gained > 0,
    }
    for method in METHODS:
        low, (least, most), (_, task) = found.low(method), found.cost_bounds(method), found.task_bounds(method)
        row[f"margin_{method}"] = found.usable and low > -MARGIN and most < 0
        row[f"budget_{method}"] = found.usable and low > 0 and task <= budget
        row[f"quality_covered_{method}"] = low <= gained <= 2 * found.quality.value - low
        row[f"cost_covered_{method}"] = least <= paid <= most
        row[f"task_covered_{method}"] = found.task_bounds(method)[0] <= spent <= task
        row[f"cost_above_{method}"] = paid > most
        row[f"task_above_{method}"] = spent > task
    return row


def run_gate(worlds: Worlds, number: int, draws: int) -> dict:
    checked(worlds, np.random.default_rng((24, number)))
    cells = {}
    for s, setting in enumerate(("random", "best")):
        rows = []
        for draw in range(draws):
            rng = np.random.default_rng((25, number, s, draw))
            rows.append(one_draw(worlds, rng, setting, acceptable=draw % 2 == 0))
        rows = [row for row in rows if row is not None]
        column = {name: np.array([row[name] for row in rows], np.float64) for name in rows[0]}
        usable, good = column["usable"] == 1, column["acceptable"] == 1
        near = ~good & (column["paid"] < 0) & (column["gained"] > -2 * MARGIN)
        cell: dict = {"acceptable_draws": int(good.sum()), "other_draws": int((~good).sum()), "near": int(near.sum())}
        cell["refused"] = float((~usable).mean())
        for method in METHODS:
            margin, budget = column[f"margin_{method}"], column[f"budget_{method}"]
            true = column["budget_true"] == 1
            covered = {
                name: share(column[f"{name}_{method}"][usable])
                for name in ("quality_covered", "cost_covered", "task_covered", "cost_above", "task_above")
            }
            cell[method] = covered | {
                "false_promotion": share(margin[~good]),
                "false_promotion_near": share(margin[near]),
                "power": share(margin[good]),
                "false_promotion_budget": share(budget[~true]),
                "power_budget": share(budget[true]),
            }
        cells[setting] = cell
    return cells


def share(values: np.ndarray) -> float | None:
    return float(values.mean()) if len(values) else None


def run_cheaper(worlds: Worlds, number: int, draws: int) -> dict:
    """Always the best single model, and instead always the cheapest."""
    cheapest = int(worlds.cost.reward.mean(axis=0).argmin())
    if cheapest == 0:
        return {"skipped": "the best model is the cheapest"}
    static, candidate = (np.full(len(worlds.quality.share), k) for k in (0, cheapest))
    lost, paid = worlds.difference(static, candidate)
    seeds = [np.random.default_rng((26, number, draw)) for draw in range(draws)]
    found = [judged(draw_log(worlds, rng, static, candidate)) for rng in seeds]
    result: dict = {
        "static": worlds.table.models[0],
        "candidate": worlds.table.models[cheapest],
        "times_cheaper": worlds.cost.value(static) / worlds.cost.value(candidate),
        "quality": lost,
        "cost_usd": paid,
    }
    for method in METHODS:
        low = np.array([one.low(method) for one in found])
        cheap = np.array([one.usable and one.cost_bounds(method)[1] < 0 for one in found])
        promoted = {str(slack): float((cheap & (low > lost - slack / 100)).mean()) for slack in SLACKS}
        result[method] = {"promoted_by_slack_in_points": promoted}
    return result


def run_looks(worlds: Worlds, number: int, draws: int) -> dict:
    """Candidates that are not acceptable, looked at after every 1,000 rows: is a bound ever wrong, is one ever promoted?"""
    names = ("promoted", "quality_below", "cost_above", "task_above")
    found = {method: dict.fromkeys(names, 0.0) for method in METHODS}
    count = max(draws // DRAWS_PER_LOOKED_AT, 1)
    for draw in range(count):
        rng = np.random.default_rng((28, number, draw))
        pair = draw_candidate(worlds, rng, "random", acceptable=False)
        assert pair is not None
        gained, paid = worlds.difference(*pair)
        drawn, spent = draw_log(worlds, rng, *pair), worlds.cost.value(pair[1])
        seen = [judged(Drawn(*(log.first(ROWS * look // LOOKS) for log in drawn))) for look in range(1, LOOKS + 1)]
        usable = [one for one in seen if one.usable]
        for method in METHODS:
            low = [one.low(method) for one in usable]
            most = [one.cost_bounds(method)[1] for one in usable]
            task = [one.task_bounds(method)[1] < spent * one.per_task for one in usable]
            promoted = [a > -MARGIN and b < 0 for a, b in zip(low, most, strict=True)]
            happened = (promoted, [a > gained for a in low], [b < paid for b in most], task)
            for name, ever in zip(names, happened, strict=True):
                found[method][name] += any(ever) / count
    return {"logs": count, **found}


def run_learn(worlds: Worlds, number: int, trials: int) -> dict:
    found = [learn_once(worlds.table, (27, number, trial)) for trial in range(trials)]
    result: dict = {"trials": trials}
    for name in found[0]:
        column = {key: np.array([row[name][key] for row in found]) for key in found[0][name]}
        result[name] = {key: float(values.mean()) for key, values in column.items()}
        result[name] |= {
            "worst_quality": float(column["quality"].min()),
            "error_of_quality": float(column["quality"].std(ddof=1) / np.sqrt(trials)),
            "within_margin": float((column["quality"] > -MARGIN).mean()),
        }
    return result


def learn_once(table: OutcomeTable, seed: tuple[int, ...]) -> dict[str, dict[str, float]]:
    rng = np.random.default_rng(seed)
    first = rng.random(len(table)) < TRAIN
    contexts = table.contexts()
    best = table.models[int(table.select(first).score.mean(axis=0).argmax())]
    static = PerCategory(dict.fromkeys(np.unique(table.category).tolist(), best))
    logs = [
        replay(table.select(part), Exploring(static, EPSILON), ROWS, seed=int(rng.integers(1 << 31)))
        for part in (first, ~first)
    ]
    usual = static.probabilities(contexts, table.models, np.ones(table.score.shape, bool))
    found = {}
    for name, objective in (("one_point", points_worse(100 * MARGIN)), ("reward_v1", DEFAULT)):
        policy = learn_doubly_robust(logs[0], static=static, objective=objective)
        probabilities = served(policy, contexts, table.models, usual)[~first]
        gained, paid = (
            ((probabilities - usual[~first]) * values[~first]).sum(axis=1) for values in (table.score, table.cost_usd)
        )
        spent = (usual * table.cost_usd)[~first].sum()
        verdict = decide(evaluate_offline(logs[1], policy, static=static, objective=objective, floor=FLOOR, method="t"))
        found[name] = {
            "quality": float(gained.mean()),
            "saved": float(-paid.sum() / spent),
            "acts": float((probabilities != usual[~first]).any(axis=1).mean()),
            "promoted": float(verdict.promote),
            "saved_if_promoted": float(-paid.sum() / spent) if verdict.promote else 0.0,
        }
    return found


PARTS = {"gate": run_gate, "cheaper": run_cheaper, "looks": run_looks, "learn": run_learn}


def failures(name: str, part: str, found: dict) -> list[str]:
    bad = []
    if part == "gate":
        for setting, cell in found.items():
            values = cell["t"]
            wanted = {"false_promotion": (0.0, 0.05), "false_promotion_budget": (0.0, 0.05)}
            wanted |= {"quality_covered": (0.93, 0.97), "cost_covered": (0.93, 0.97)}
            outside = [key for key, (low, high) in wanted.items() if not low <= (values[key] or 0.0) <= high]
            bad += [f"{name} {setting}: {key} {values[key]:.3f}" for key in outside]
    elif "skipped" in found:
        pass
    elif part == "cheaper":
        at_margin = found["t"]["promoted_by_slack_in_points"]["0"]
        if at_margin > 0.05:
            bad.append(f"{name}: a policy at the margin is promoted in {at_margin:.3f}")
    elif part == "looks":
        if (promoted := found["anytime"]["promoted"]) > 0.05:
            bad.append(f"{name}: promoted at some look {promoted:.3f}")
    elif found["one_point"]["quality"] < -MARGIN:
        bad.append(f"{name}: the learned policy loses {found['one_point']['quality']:+.4f}")
    return bad


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, type=Path, help="folder of the outcome packs")
    parser.add_argument("--draws", type=int, default=600, help="logs per table and setting")
    parser.add_argument("--trials", type=int, default=10, help="logs to learn from per table")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--out", type=Path, default=OUT, help="folder of the results")
    arguments = parser.parse_args()
    failed = []
    for part, name in product(arguments.parts, arguments.tables):
        if part in ("looks", "learn") and name in SMALL:
            continue
        path = arguments.out / f"{name}-{part}.json"
        if not path.exists():
            started, worlds = time.process_time(), load(name, arguments.data)
            count = arguments.trials if part == "learn" else arguments.draws
            found = PARTS[part](worlds, TABLES.index(name), count)
            head = {"table": name, "tasks": len(worlds.table), "models": len(worlds.table.models), "count": count}
            versions = {"python": platform.python_version(), "numpy": np.__version__}
            seconds = round(time.process_time() - started, 1)
            write_json(path, head | {part: found, "cpu_seconds": seconds, "versions": versions})
        result = json.loads(path.read_text())
        print(name, part, json.dumps(result[part]), flush=True)
        failed += failures(name, part, result[part])
    print("\n".join(failed) or "all checks hold")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
