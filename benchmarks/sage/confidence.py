"""Whether a confidence of .9 is right in nine of ten choices, on many tables that differ in models, categories and tasks.

OMP_NUM_THREADS=1 .venv/bin/python benchmarks/sage/confidence.py --data DIR

DIR holds the published packs. Every table is learned from in 12 trials as in learn_from_log.py (20,000 decisions over 70 %
of the tasks, .1 of uniform exploration), with both static tables ("random": some model for every category; "best": the
best single model of the first part). The shrunk table says in which categories it would leave the static table and how sure
it is; the truth is the mean over all tasks of the category. Nothing is chosen here: the learner has no setting per table.

- all models of every pack that ran on all of its tasks, every role of LiveCodeBench by itself, RouterArena;
- drawn tables: 2 or more models and 300 or more tasks of those, with categories as they are, merged or permuted (which
  leaves nothing to learn about them);
- made tables: difficulty per task, levels of models and deviations per category drawn, outcomes 0 or 1.

The check: of the choices with .9 or more, weighted by tasks, at least .88 are truly not worse, per table and setting with
at least FEWEST_CHOICES of them; and `train-dr` is not worse than the static table on the held-out tasks in 95 % of the
trials where there are 300 of them. One result file per table in results/confidence/; finished ones are skipped. Twelve trials
have few choices: tables that fail are measured again in 60 fresh ones, `--tables NAME --first-seed 100 --trials 60 --out
results/confidence_fresh`, and both results stay.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from statistics import NormalDist

import numpy as np
from learn_from_log import (
    EPSILON,
    FEWEST_TASKS,
    FLOOR,
    NOT_WORSE,
    ROUNDING,
    ROWS,
    TRAIN,
    asked_confidence,
    draw_static,
    served,
)
from pools import FILES, load_pool

from sage.evidence.table_rewards import table_rewards
from sage.files import write_json
from sage.outcomes.importers import import_table
from sage.outcomes.table import OutcomeTable
from sage.policies.calibration import lower_bound_width, reliability
from sage.policies.policy import select_rows
from sage.rl.category_table import learn_table
from sage.rl.doubly_robust_learner import CONFIDENCE
from sage.rl.logging_policies import Exploring
from sage.rl.replay import replay

OUT = Path(__file__).parent / "results" / "confidence"
SURE, RIGHT, FEWEST_CHOICES = 0.9, 0.88, 10
DRAWN, MADE = 9, 5


def plain_table(name: str, score: np.ndarray, category: np.ndarray) -> OutcomeTable:
    """A table of scores alone."""
    nothing = np.full(score.shape, np.nan)
    return OutcomeTable(
        name=name,
        models=tuple(f"m{k:02d}" for k in range(score.shape[1])),
        task_id=np.array([f"t{i}" for i in range(len(score))]),
        category=np.array([f"c{value}" for value in category]),
        role=np.full(len(score), "coder"),
        score=score,
        cost_usd=nothing,
        latency_s=nothing,
        data_source="real" if not name.startswith("made") else "synthetic",
        cost_kind="none",
    )


def routerarena(folder: Path) -> OutcomeTable:
    import pyarrow.parquet as parquet

    columns = parquet.read_table(folder / "routerarena_sub10.parquet").to_pydict()
    tasks, models = (sorted(set(columns[name])) for name in ("task_id", "model"))
    score, category = np.full((len(tasks), len(models)), np.nan), np.empty(len(tasks), object)
    place = {task: index for index, task in enumerate(tasks)}
    for task, model, value, kind in zip(*(columns[k] for k in ("task_id", "model", "score", "category")), strict=True):
        score[place[task], models.index(model)] = np.nan if value is None else value
        category[place[task]] = kind
    whole = ~np.isnan(score).any(axis=1)
    return plain_table("routerarena", score[whole], category[whole])


def real_tables(folder: Path) -> dict[str, OutcomeTable]:
    found = {name: load_pool(name, folder, everyone=True) for name in FILES}
    found["livecodebench_pool"] = load_pool("livecodebench", folder)
    found["llmrouter_pool"] = load_pool("llmrouter", folder)
    roles = import_table("livecodebench", folder / FILES["livecodebench"])
    for role in np.unique(roles.role).tolist():
        if role != "coder":
            part = roles.select(roles.role == role)
            found[f"livecodebench_{role}"] = part.with_models(
                tuple(np.array(part.models)[part.ran.all(axis=0)].tolist())
            )
    return found | {"routerarena": routerarena(folder)}


def drawn_tables(tables: dict[str, OutcomeTable]) -> dict[str, OutcomeTable]:
    rng, found = np.random.default_rng(0), {}
    large = [name for name, table in tables.items() if len(table.models) >= 9]
    for index in range(DRAWN):
        table = tables[large[index % len(large)]]
        num_models = int(rng.integers(2, len(table.models) + 1))
        rows = rng.choice(len(table), int(rng.integers(min(300, len(table)), len(table) + 1)), replace=False)
        models = rng.choice(len(table.models), num_models, replace=False)
        category = np.unique(table.category[rows], return_inverse=True)[1]
        how = ("as they are", "merged", "permuted")[index // 3 % 3]
        if how == "merged":
            category = category % max(2, len(np.unique(category)) // 2)
        elif how == "permuted":
            category = rng.permutation(category)
        name = f"drawn_{index}_{large[index % len(large)]}_{num_models}_{how.replace(' ', '_')}"
        found[name] = plain_table(name, table_rewards(table)[rows][:, models].clip(0, 1), category)
    return found


def made_tables() -> dict[str, OutcomeTable]:
    rng, found = np.random.default_rng(1), {}
    quantile = np.vectorize(NormalDist().inv_cdf)
    for index in range(MADE):
        models, groups, tasks = (
            int(rng.choice([4, 12, 24, 44])),
            int(rng.choice([4, 8, 16])),
            int(rng.choice([600, 2000])),
        )
        level, deviation = float(rng.choice([0.05, 0.15])), float(rng.choice([0.0, 0.03, 0.08]))
        category = rng.integers(groups, size=tasks)
        chance = 0.65 + 0.1 * rng.standard_normal((groups, 1)) - level * np.abs(rng.standard_normal(models))
        chance = (chance + deviation * rng.standard_normal((groups, models))).clip(0.02, 0.98)
        ability = 1.4 * quantile(chance)[category] + rng.standard_normal((tasks, 1))
        name = f"made_{index}_{models}_models_{groups}_categories"
        found[name] = plain_table(name, (ability + rng.standard_normal(ability.shape) > 0).astype(float), category)
    return found


def trial(table: OutcomeTable, setting: str, seed: tuple[int, ...]) -> dict:
    rng, contexts = np.random.default_rng(seed), table.contexts()
    first = rng.random(len(table)) < TRAIN
    seen = table.select(first)
    static = draw_static(table if setting == "random" else seen, setting, rng)
    static.model_of = {c: static.model_of.get(c, table.models[0]) for c in np.unique(table.category).tolist()}
    log = replay(
        seen, Exploring(static, EPSILON), ROWS, seed=int(rng.integers(1 << 31)), contexts=select_rows(contexts, first)
    )
    policy = learn_table(log)
    reward, found = table_rewards(table), {}
    usual = static.probabilities(contexts, table.models, np.ones(reward.shape, bool))
    for name, chosen in (("table", policy), ("dr", replace(policy, pessimism=lower_bound_width(CONFIDENCE)))):
        probabilities = served(chosen, contexts, table.models, usual)
        gain = ((probabilities - usual) * reward).sum(axis=1)[~first]
        found[name] = (float(gain.mean()), float((probabilities != usual).any(axis=1)[~first].mean()))
    return found | {"confidence": asked_confidence(policy, static, table, contexts)}


def measure(table: OutcomeTable, key: tuple[int, ...], setting: str, seeds: range) -> dict:
    found = [trial(table, setting, (*key, k)) for k in seeds]
    asked = np.array([entry for one in found for entry in one["confidence"]]).reshape(-1, 3)
    sure = asked[asked[:, 0] >= SURE]
    result: dict = {"choices": len(asked), "sure": len(sure), "reliability": reliability(*asked.T)}
    result["right"] = float(np.average(sure[:, 1], weights=sure[:, 2])) if len(sure) else None
    result["right_of_each_trial"] = [
        None if not (part := [e for e in one["confidence"] if e[0] >= SURE]) else float(np.mean([e[1] for e in part]))
        for one in found
    ]
    for name in ("table", "dr"):
        gain, acts = np.array([one[name] for one in found]).T
        result[name] = {
            "mean_gain": float(gain.mean()),
            "worst_gain": float(gain.min()),
            "acting_share": float(acts.mean()),
            "not_worse": float((gain >= ROUNDING).mean()),
        }
    return result


def failures(results: dict[str, dict]) -> list[str]:
    found = []
    for name, result in results.items():
        for setting in ("random", "best"):
            one = result[setting]
            if result["tasks"] >= FEWEST_TASKS and one["sure"] >= FEWEST_CHOICES and one["right"] < RIGHT:
                found.append(f"{name} {setting}: {one['right']:.3f} of {one['sure']} sure choices are right")
            if (1 - TRAIN) * result["tasks"] >= FEWEST_TASKS and one["dr"]["not_worse"] < NOT_WORSE:
                found.append(f"{name} {setting}: train-dr is not worse in {one['dr']['not_worse']:.2f} only")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, type=Path, help="folder of the outcome packs")
    parser.add_argument("--trials", type=int, default=12)
    parser.add_argument("--first-seed", type=int, default=0, help="of the trials (0)")
    parser.add_argument("--tables", nargs="+", help="names of tables (all)")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    tables = real_tables(options.data)
    tables |= drawn_tables(tables) | made_tables()
    results = {}
    seeds = range(options.first_seed, options.first_seed + options.trials)
    for index, (name, table) in enumerate(tables.items()):
        if options.tables and name not in options.tables:
            continue
        path, began = options.out / f"{name}.json", time.process_time()
        if not path.exists():
            sizes = {"tasks": len(table), "models": len(table.models), "categories": len(np.unique(table.category))}
            settings = {
                setting: measure(table, (index, place), setting, seeds)
                for place, setting in enumerate(("random", "best"))
            }
            about = {
                "trials": options.trials,
                "first_seed": seeds[0],
                "floor": FLOOR,
                "cpu_seconds": round(time.process_time() - began, 1),
            }
            write_json(path, {"table": name} | sizes | about | settings)
        results[name] = json.loads(path.read_text())
        told = {
            s: (results[name][s]["right"], results[name][s]["sure"], results[name][s]["dr"]) for s in ("random", "best")
        }
        print(name, told, flush=True)
    failed = failures(results)
    print("\n".join(failed) or "all checks hold")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
