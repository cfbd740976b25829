"""How often the gate promotes a policy that is not better, and how often one that is, on real outcome tables.

OMP_NUM_THREADS=1 .venv/bin/python benchmarks/sage/gate.py --data DIR

One draw is a static table, a candidate, and a log:

- pool: the better half of the table's models by mean reward (2 to 8), among those that ran on every task (pools.py);
  with --everyone all of these;
- static table, setting `random`: a model of the pool for every category, drawn evenly; setting `best`: the best single
  model everywhere, which leaves only small gains to be found;
- candidate: the static table, where every category gets another model of the pool with probability .3, drawn evenly;
  draws are repeated until every second candidate is truly better, by its mean reward over the whole table;
- log: as many tasks as the table has, drawn from it with replacement, each a task of its own; 20,000 rows drawn from
  these; the static table with .3 of uniform exploration;
- gate: `sage.proof.evaluation.compare`, as `sage prove --interval fixed-n` calls it; a log that it refuses is not promoted;
- naive rule beside it: the mean reward of the rows in which the candidate agrees with the log is above the log's mean.

The check is on setting `random`: false promotion at most .05 on every table, power at least .35 on two. Exits with 1
if it fails. Results: benchmarks/sage/results/gate.json.
"""

from __future__ import annotations

import argparse
import platform
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from pools import FILES, load_pool

from rl_base.evaluation import BanditLog
from sage.evidence.table_rewards import table_rewards, table_weights
from sage.files import write_json
from sage.proof.evaluation import compare

OUT = Path(__file__).parent / "results" / "gate.json"
EPSILON, ROWS, CHANGED = 0.3, 20_000, 0.3
FALSE_LIMIT, POWER_LIMIT, TABLES_WITH_POWER = 0.05, 0.35, 2
RAREST = 0.01  # share of better candidates below which a setting says nothing
GAIN_EDGES = (0.0, 0.005, 0.01, 0.02, 0.04, 1.0)


class World(NamedTuple):
    """A table as the population that logs are drawn from."""

    name: str
    reward: np.ndarray  # [tasks, pool]
    category: np.ndarray  # int [tasks]
    share: np.ndarray  # [categories, pool] what a model in a category adds to a policy's mean reward
    bounds: tuple[float, float]

    def value(self, choice: np.ndarray) -> float:
        return float(self.share[np.arange(len(choice)), choice].sum())


def load(kind: str, folder: Path, *, everyone: bool) -> World:
    table = load_pool(kind, folder, everyone=everyone)
    reward = table_rewards(table)
    names, category = np.unique(table.category, return_inverse=True)
    share = np.stack([np.bincount(category, column, len(names)) for column in reward.T], axis=1) / len(reward)
    return World(kind, reward, category, share, table_weights(table).bounds)


def draw_pair(world: World, rng: np.random.Generator, setting: str) -> tuple[np.ndarray, np.ndarray]:
    """A static table and a candidate around it that differs from it."""
    num_categories, size = world.share.shape
    while True:
        static = rng.integers(size, size=num_categories) if setting == "random" else np.zeros(num_categories, np.int64)
        other = (static + rng.integers(1, size, size=num_categories)) % size
        candidate = np.where(rng.random(num_categories) < CHANGED, other, static)
        if (candidate != static).any():
            return static, candidate


def share_better(world: World, setting: str, tries: int = 2_000) -> float:
    """Of candidates as they are drawn, before half of them are asked to be better."""
    rng = np.random.default_rng(0)
    pairs = [draw_pair(world, rng, setting) for _ in range(tries)]
    return float(np.mean([world.value(candidate) > world.value(static) for static, candidate in pairs]))


def draw_log(world: World, rng: np.random.Generator, static: np.ndarray) -> BanditLog:
    num_tasks, size = world.reward.shape
    drawn = rng.integers(num_tasks, size=num_tasks)  # the tasks that users happen to bring
    cluster = rng.integers(num_tasks, size=ROWS)
    task = drawn[cluster]
    usual = static[world.category[task]]
    action = np.where(rng.random(ROWS) < EPSILON, rng.integers(size, size=ROWS), usual)
    propensities = np.full((ROWS, size), EPSILON / size)
    propensities[np.arange(ROWS), usual] += 1 - EPSILON
    return BanditLog(
        actions=action,
        rewards=world.reward[task, action],
        propensities=propensities,
        features=world.category[task][:, None],
        clusters=cluster,
        reward_range=world.bounds,
    )


def one_draw(world: World, setting: str, seed: tuple[int, ...], *, better: bool) -> dict[str, float]:
    rng = np.random.default_rng(seed)
    static, candidate = draw_pair(world, rng, setting)
    while (world.value(candidate) > world.value(static)) != better:
        static, candidate = draw_pair(world, rng, setting)
    log = draw_log(world, rng, static)
    assert log.features is not None
    category = log.features[:, 0].astype(np.int64)
    one_hot = np.eye(world.reward.shape[1])
    observed = np.ones(len(log.actions), bool)
    report, _ = compare(log, one_hot[candidate[category]], one_hot[static[category]], observed=observed, method="t")
    agree = log.actions == candidate[category]
    gain = world.value(candidate) - world.value(static)
    found = report.interval
    return {
        "gain": gain,
        "promoted": report.above_zero,
        "refused": report.refusal is not None,
        "covered": np.nan if found is None else found.low <= gain <= found.high,
        "width": np.nan if found is None else (found.high - found.low) / 2,
        "naive": bool(agree.any()) and log.rewards[agree].mean() > log.rewards.mean(),
    }


def run(world: World, index: int, setting: str, draws: int) -> dict:
    started, share = time.process_time(), share_better(world, setting)
    head = {
        "table": world.name,
        "setting": setting,
        "tasks": len(world.reward),
        "categories": len(world.share),
        "pool": world.reward.shape[1],
        "share_of_candidates_better": share,
    }
    if share < RAREST:
        return head | {
            "skipped": f"fewer than {RAREST:.0%} of the candidates are better: there is hardly one to promote"
        }
    found = [one_draw(world, setting, (index, draw, setting == "best"), better=draw % 2 == 0) for draw in range(draws)]
    column = {name: np.array([row[name] for row in found], np.float64) for name in found[0]}
    better = column["gain"] > 0
    by_gain = [
        {"from": low, "to": high, "draws": int(here.sum()), "power": float(column["promoted"][here].mean())}
        for low, high in pairwise(GAIN_EDGES)
        if (here := better & (column["gain"] > low) & (column["gain"] <= high)).any()
    ]
    return head | {
        "draws": draws,
        "false_promotion": float(column["promoted"][~better].mean()),
        "power": float(column["promoted"][better].mean()),
        "naive_false_promotion": float(column["naive"][~better].mean()),
        "naive_power": float(column["naive"][better].mean()),
        "median_gain_of_better": float(np.median(column["gain"][better])),
        "power_by_gain": by_gain,
        "coverage": float(np.nanmean(column["covered"])),
        "mean_half_width": float(np.nanmean(column["width"])),
        "refused": float(column["refused"].mean()),
        "cpu_seconds": round(time.process_time() - started, 1),
    }


def failures(results: list[dict]) -> list[str]:
    judged = [result for result in results if result["setting"] == "random"]
    found = [
        f"{r['table']}: false promotion {r['false_promotion']:.3f}"
        for r in judged
        if r["false_promotion"] > FALSE_LIMIT
    ]
    powerful = [r["table"] for r in judged if r["power"] >= POWER_LIMIT]
    if len(powerful) < min(TABLES_WITH_POWER, len(judged)):
        found.append(f"power of {POWER_LIMIT} on {len(powerful)} tables only")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, type=Path, help="folder of the outcome packs")
    parser.add_argument("--draws", type=int, default=1_000, help="per table and setting")
    parser.add_argument("--tables", nargs="+", choices=FILES, default=list(FILES))
    parser.add_argument("--settings", nargs="+", choices=("random", "best"), default=["random", "best"])
    parser.add_argument("--everyone", action="store_true", help="all models of a table instead of the better half")
    parser.add_argument("--out", type=Path, default=OUT)
    arguments = parser.parse_args()
    results = []
    for name in arguments.tables:
        world = load(name, arguments.data, everyone=arguments.everyone)
        for setting in arguments.settings:
            results.append(run(world, list(FILES).index(name), setting, arguments.draws))
            shown = ("false_promotion", "power", "naive_false_promotion", "naive_power", "coverage", "refused")
            told = [f"{key} {results[-1][key]:.3f}" for key in shown if key in results[-1]]
            print(name, setting, *(told or ["skipped"]), flush=True)
    failed = failures(results)
    protocol = {"epsilon": EPSILON, "rows": ROWS, "changed": CHANGED, "description": __doc__}
    versions = {"python": platform.python_version(), "numpy": np.__version__}
    write_json(arguments.out, {"protocol": protocol, "versions": versions, "results": results, "failures": failed})
    print("\n".join(failed) or "all checks hold")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
