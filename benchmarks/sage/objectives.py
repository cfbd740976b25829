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
- learn: `train-dr` for a margin of 1 point and for reward_v1, from logs of 60 % of the tasks, as it would serve (floor .9), on the
  others: the loss of quality and the share of the cost that is saved, and what the gate says on another log of the
  tasks left out. The static table is the best single model.

Wanted, at fixed n: false promotion at most .05 in every cell (aim .015), coverage .93 to .97 of both intervals; a learned
policy whose mean loss of quality is at most the margin. Exits with 1 if not. One file per table and part in results/objectives;
those that are there are not computed again.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import tempfile
import time
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
from gate import EPSILON, ROWS, World, draw_pair
from learn_from_log import PerCategory, served
from pools import FILES, load_pool
from quick_gate import Log, agree, clustered, gains, has_gone, is_refused, predict

from rl_training.evaluation import Estimate, interval
from rl_training.evaluation.intervals import Method
from sage.files import write_json
from sage.outcomes.files import open_parquet
from sage.outcomes.importers import import_table
from sage.outcomes.table import OutcomeTable
from sage.rl.doubly_robust_learner import learn_doubly_robust
from sage.rl.evaluation import LEVEL, evaluate_offline
from sage.rl.gate import decide
from sage.rl.logging_policies import Exploring
from sage.rl.objective import DEFAULT, points_worse
from sage.rl.quality_and_cost import COST_SCALE, estimate_both
from sage.rl.replay import replay

OUT = Path(__file__).parent / "results" / "objectives"
SMALL = ("swebench-100", "llmrouter-200")  # so many tasks of a larger table
TABLES = ("swebench", "llmrouter", "routellm", "routerarena", *SMALL)
MARGIN, BUDGETS, SLACKS = 0.01, (0.8, 1.2), (-2, -1, 0, 1, 2, 4)
TRAIN, FLOOR, TRIES = 0.6, 0.9, 3_000
METHODS: tuple[Method, ...] = ("t", "anytime")


class Worlds(NamedTuple):
    """One table as two populations on the same tasks."""

    quality: World
    cost: World
    table: OutcomeTable

    def difference(self, static: np.ndarray, candidate: np.ndarray) -> tuple[float, float]:
        gained, paid = (w.value(candidate) - w.value(static) for w in (self.quality, self.cost))
        return gained, paid


def load_table(name: str, folder: Path) -> OutcomeTable:
    """The models and tasks whose quality and cost are all known; the best model first."""
    kind, _, tasks = name.partition("-")
    if kind == "routerarena":
        import pyarrow.csv

        columns = ("task_id", "model", "score", "category", "cost_usd")
        with tempfile.TemporaryDirectory() as place:
            path = Path(place) / "routerarena.csv"
            rows = open_parquet(folder / "routerarena_sub10.parquet").select(columns)
            pyarrow.csv.write_csv(rows, path)
            table = import_table("csv", path)
    elif kind == "routellm":
        table = import_table(kind, folder / FILES[kind])
    else:
        table = load_pool(kind, folder)
    table = table.select(~(np.isnan(table.cost_usd) | ~table.ran).any(axis=1))
    if tasks:
        table = table.select(np.random.default_rng(0).permutation(len(table))[: int(tasks)])
    return table.with_models(tuple(np.array(table.models)[np.argsort(-table.score.mean(axis=0))].tolist()))


def load(name: str, folder: Path) -> Worlds:
    table = load_table(name, folder)
    names, category = np.unique(table.category, return_inverse=True)
    found = []
    for values, most in ((table.score, 1.0), (table.cost_usd, float(table.cost_usd.max()))):
        share = np.stack([np.bincount(category, column, len(names)) for column in values.T], axis=1) / len(values)
        found.append(World(name, values, category, share, (0.0, most)))
    return Worlds(*found, table)


class Drawn(NamedTuple):
    """The same rows with their qualities, and with their costs."""

    quality: Log
    cost: Log


def draw_log(worlds: Worlds, rng: np.random.Generator, static: np.ndarray, candidate: np.ndarray) -> Drawn:
    num_tasks, size = worlds.quality.reward.shape
    cluster = rng.integers(num_tasks, size=ROWS)
    task = rng.integers(num_tasks, size=num_tasks)[cluster]
    category = worlds.quality.category[task]
    usual = static[category]
    action = np.where(rng.random(ROWS) < EPSILON, rng.integers(size, size=ROWS), usual)
    gains = worlds.difference(static, candidate)
    logs = []
    for world, gain in zip((worlds.quality, worlds.cost), gains, strict=True):
        reward = world.reward[task, action]
        bounds = (0.0, 1.0) if world is worlds.quality else (0.0, float(reward.max()))
        logs.append(Log(category, cluster, action, reward, usual, candidate[category], gain, size, bounds))
    return Drawn(*logs)


class Judged(NamedTuple):
    quality: Estimate
    cost: Estimate
    task: Estimate
    scale: float  # of costs
    per_task: float  # decisions of a task
    usable: bool

    def low(self, method: Method) -> float:
        return interval(self.quality, method=method, level=LEVEL).low

    def cost_bounds(self, method: Method) -> tuple[float, float]:
        found = interval(self.cost, method=method, level=LEVEL, scale=self.scale, skewed=True)
        return found.low, found.high

    def task_bounds(self, method: Method) -> tuple[float, float]:
        scale = self.scale * self.per_task
        found = interval(self.task, method=method, level=LEVEL, scale=scale, skewed=True)
        return found.low, found.high


def judged(drawn: Drawn) -> Judged:
    """As the gate does it, for policies that choose by category (`checked` compares)."""
    cluster = np.unique(drawn.cost.cluster, return_inverse=True)[1]
    rest, seen, rows = EPSILON / drawn.cost.size, np.ones(ROWS, bool), np.arange(ROWS)
    chance = np.where(drawn.cost.action == drawn.cost.static, 1 - EPSILON + rest, rest)
    found = []
    for log in drawn:
        predictions = predict(log, cluster, seen)
        plain, informed = (clustered(gains(log, chance, seen, table), cluster) for table in predictions)
        found.append(informed if agree(plain, informed) else plain)
    log, table = drawn.cost, predictions[0]
    residual = (log.action == log.candidate) / chance * (log.reward - table[rows, log.action])
    own = clustered(table[rows, log.candidate] + residual, cluster)
    sizes = np.bincount(cluster)
    influence = own.influence * sizes.mean() + own.value * (sizes - sizes.mean())
    task = Estimate(own.name, own.value * sizes.mean(), influence)
    usable = not is_refused(log, cluster, chance) and not has_gone(log, cluster, chance)
    return Judged(*found, task, COST_SCALE * log.reward.mean(), float(sizes.mean()), usable)


def checked(worlds: Worlds, rng: np.random.Generator) -> None:
    """The parts of the gate itself must say the same of a log."""
    static, candidate = draw_pair(worlds.quality, rng, "random")
    drawn = draw_log(worlds, rng, static, candidate)
    found, log = judged(drawn), drawn.quality
    names = np.unique(worlds.table.category)
    policy = PerCategory({name: worlds.table.models[k] for name, k in zip(names, static, strict=True)})
    data = replay(worlds.table, Exploring(policy, EPSILON), ROWS)
    column = np.array([data.models.index(model) for model in worlds.table.models])
    propensity = np.full((ROWS, log.size), EPSILON / log.size)
    propensity[np.arange(ROWS), column[log.static]] += 1 - EPSILON
    fields = {
        "action": column[log.action],
        "propensity": propensity,
        "quality": log.reward,
        "cost_usd": drawn.cost.reward,
        "contexts": data.contexts._replace(
            category=names[log.category], task_id=np.char.zfill(log.cluster.astype(str), 6)
        ),
    }
    rows = type(data)(**{**vars(data), **fields})
    one_hot = np.eye(log.size)[column]
    both = estimate_both(rows, one_hot[log.candidate], one_hot[log.static], level=LEVEL, method="t")
    assert both.cost_usd is not None
    assert both.usd_per_task is not None
    for ours, theirs in ((found.quality, both.quality), (found.cost, both.cost_usd), (found.task, both.usd_per_task)):
        assert abs(ours.value - theirs.value) < 1e-9, (ours.value, theirs)
    for (low, high), theirs in ((found.cost_bounds("t"), both.cost_usd), (found.task_bounds("t"), both.usd_per_task)):
        assert max(abs(low - theirs.low), abs(high - theirs.high)) < 1e-9, (low, high, theirs)


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


PARTS = {"gate": run_gate, "cheaper": run_cheaper, "learn": run_learn}


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
        if part == "learn" and name in SMALL:
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
