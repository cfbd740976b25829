"""Whether a policy that was learned only from a log is at least as good as the static table that wrote it.

OMP_NUM_THREADS=1 .venv/bin/python benchmarks/sage/learn_from_log.py --data DIR

A trial splits the table's tasks (70 / 30), replays 20,000 decisions over the first part with a static table and .1 of
uniform exploration, learns from that log alone, and takes the true mean reward of policy and static table over the
second part. The policy acts as it would serve: below the guard's floor the static table decides.

- pool: see pools.py; static table, setting `random`: a model for every category, drawn evenly; setting `best`: the
  best single model of the first part everywhere;
- learners: the pessimistic doubly robust one (`train-dr`), the shrunk table (`train-table`), and conservative
  Q-learning (`train-cql`) with --cql, which takes minutes;
- confidence: every trial asks the shrunk table how sure it is of every category in which it would leave the static table,
  and whether the choice is truly not worse there, over all tasks of the category: predicted chance beside frequency;
- full information: the shrunk table from all outcomes of the first part, as a yardstick.

The check is on the doubly robust learner: at least as good in 95 % of 50 trials, on every setting of the tables with at
least 300 held-out tasks, and on two tables it acts. The SWE-bench table has 101, and is shown without being checked: there
the mean of the held-out tasks is no truth, as its standard error (reported) is as large as the gains. `not_worse_over_all_tasks` is by
the mean over the whole table, of which the log has seen 70 %. Exits with 1 if the check fails. Results:
benchmarks/sage/results/learn_from_log.json.
"""

from __future__ import annotations

import argparse
import platform
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pools import FILES, load_pool

from sage.evidence.incumbent import Incumbent
from sage.evidence.table_rewards import table_rewards
from sage.files import write_json
from sage.orchestrator.models_file import GuardLimits
from sage.outcomes.table import OutcomeTable
from sage.policies.calibration import reliability
from sage.policies.learned_policy import LearnedPolicy
from sage.policies.policy import Contexts, select_rows
from sage.policies.serving import GuardRules, serving_distribution
from sage.rl.category_table import learn_table, table_from_outcomes
from sage.rl.doubly_robust_learner import learn_doubly_robust
from sage.rl.logging_policies import Exploring
from sage.rl.replay import replay
from sage.rl.train_cql import train_cql

OUT = Path(__file__).parent / "results" / "learn_from_log.json"
EPSILON, ROWS, TRAIN = 0.1, 20_000, 0.7
FLOOR = GuardLimits().confidence_floor
NOT_WORSE, TABLES_THAT_ACT, FEWEST_TASKS = 0.95, 2, 300
ROUNDING = -1e-12


@dataclass
class PerCategory:
    """A static table with a model for every category."""

    model_of: dict[str, str]
    name: str = "static"
    version: str = "drawn"

    def probabilities(self, contexts: Contexts, models: tuple[str, ...], eligible: np.ndarray) -> np.ndarray:
        chosen = np.zeros(eligible.shape)
        columns = [models.index(self.model_of[category]) for category in contexts.category.tolist()]
        chosen[np.arange(len(chosen)), columns] = 1.0
        return chosen

    def confidence(self, contexts: Contexts, models: tuple[str, ...], eligible: np.ndarray) -> np.ndarray:
        return np.ones(len(eligible))


def draw_static(table: OutcomeTable, setting: str, rng: np.random.Generator) -> PerCategory:
    categories = np.unique(table.category).tolist()
    best = int(table_rewards(table).mean(axis=0).argmax())
    picks = rng.integers(len(table.models), size=len(categories)) if setting == "random" else [best] * len(categories)
    return PerCategory({category: table.models[k] for category, k in zip(categories, picks, strict=True)})


def served(policy: LearnedPolicy, contexts: Contexts, models: tuple[str, ...], static: np.ndarray) -> np.ndarray:
    guard, everyone = GuardRules(FLOOR, Incumbent(static, "static", "drawn")), np.ones(static.shape, bool)
    return serving_distribution(policy, guard, contexts, models, everyone).probabilities


def trial(table: OutcomeTable, contexts: Contexts, setting: str, seed: tuple[int, ...], *, cql: bool) -> dict:
    rng = np.random.default_rng(seed)
    first = rng.random(len(table)) < TRAIN
    seen, unseen = table.select(first), select_rows(contexts, ~first)
    static = draw_static(table, setting, rng) if setting == "random" else draw_static(seen, setting, rng)
    static.model_of = {c: static.model_of.get(c, table.models[0]) for c in np.unique(table.category).tolist()}
    log = replay(
        seen, Exploring(static, EPSILON), ROWS, seed=int(rng.integers(1 << 31)), contexts=select_rows(contexts, first)
    )
    learners = {"dr": learn_doubly_robust, "table": learn_table} | ({"cql": train_cql} if cql else {})
    policies: dict[str, LearnedPolicy] = {name: learn(log) for name, learn in learners.items()}
    reward, models = table_rewards(table), table.models
    everywhere = static.probabilities(contexts, models, np.ones(reward.shape, bool))
    found = {}
    for name, policy in policies.items():
        probabilities = served(policy, contexts, models, everywhere)
        gain = ((probabilities - everywhere) * reward).sum(axis=1)
        found[f"{name}_gain"] = float(gain[~first].mean())
        found[f"{name}_error"] = float(gain[~first].std() / np.sqrt((~first).sum()))
        found[f"{name}_gain_everywhere"] = float(gain.mean())
        found[f"{name}_acts"] = float((probabilities != everywhere).any(axis=1)[~first].mean())
    reward, baseline = reward[~first], everywhere[~first]
    full = table_from_outcomes(select_rows(contexts, first), models, table_rewards(seen))
    best = full.probabilities(unseen, models, np.ones(reward.shape, bool))
    sure = asked_confidence(policies["table"], static, table, contexts)
    return found | {"full_gain": float(((best - baseline) * reward).sum(axis=1).mean()), "confidence": sure}


def asked_confidence(
    policy: LearnedPolicy, static: PerCategory, table: OutcomeTable, contexts: Contexts
) -> list[tuple[float, float, float]]:
    """For every category in which the policy differs: its confidence, whether it is right, and the category's tasks."""
    names, first, category = np.unique(table.category, return_index=True, return_inverse=True)
    one_each, everyone = select_rows(contexts, first), np.ones((len(names), len(table.models)), bool)
    chosen = policy.probabilities(one_each, table.models, everyone).argmax(axis=1)
    usual = static.probabilities(one_each, table.models, everyone).argmax(axis=1)
    sure, reward = policy.confidence(one_each, table.models, everyone), table_rewards(table)
    found = []
    for index in np.flatnonzero(chosen != usual):
        inside = reward[category == index]
        gain = (inside[:, chosen[index]] - inside[:, usual[index]]).mean()
        found.append((float(sure[index]), float(gain >= 0), float(len(inside))))
    return found


def run(name: str, table: OutcomeTable, contexts: Contexts, setting: str, seeds: range, *, cql: bool) -> dict:
    started = time.process_time()
    key = (list(FILES).index(name), int(setting == "best"))
    found = [trial(table, contexts, setting, (*key, k), cql=cql) for k in seeds]
    column = {key: np.array([row[key] for row in found]) for key in found[0] if key != "confidence"}
    asked = np.array([entry for row in found for entry in row["confidence"]]).reshape(-1, 3)
    held_out = round((1 - TRAIN) * len(table))
    result = {
        "table": name,
        "setting": setting,
        "trials": len(seeds),
        "first_seed": seeds[0],
        "pool": len(table.models),
        "learners": {},
    }
    result |= {"held_out_tasks": held_out, "checked": held_out >= FEWEST_TASKS}
    result["full_information_gain"] = full = float(column["full_gain"].mean())
    for learner in ("dr", "table", *(["cql"] if cql else [])):
        gain, acts = column[f"{learner}_gain"], column[f"{learner}_acts"]
        errors = column[f"{learner}_error"]
        result["learners"][learner] = {
            "not_worse": float((gain >= ROUNDING).mean()),
            "not_worse_over_all_tasks": float((column[f"{learner}_gain_everywhere"] >= ROUNDING).mean()),
            "error_of_gain_where_it_acts": float(errors[acts > 0].mean()) if acts.any() else None,
            "mean_gain": float(gain.mean()),
            "worst_gain": float(gain.min()),
            "share_of_full_information_gain": float(gain.mean()) / full if full > 0 else None,
            "acting_share": float(acts.mean()),
            "trials_that_act": float((acts > 0).mean()),
        }
    result["confidence_of_table"] = reliability(*asked.T)
    return result | {"cpu_seconds": round(time.process_time() - started, 1)}


def failures(results: list[dict]) -> list[str]:
    found = [
        f"{r['table']} {r['setting']}: not worse in {r['learners']['dr']['not_worse']:.2f}"
        for r in results
        if r["checked"] and r["learners"]["dr"]["not_worse"] < NOT_WORSE
    ]
    acting = {r["table"] for r in results if r["learners"]["dr"]["acting_share"] > 0.05}
    needed = min(TABLES_THAT_ACT, len({r["table"] for r in results}))
    return found if len(acting) >= needed else [*found, f"acts on {len(acting)} tables only"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, type=Path, help="folder of the outcome packs")
    parser.add_argument("--trials", type=int, default=50)
    parser.add_argument("--first-seed", type=int, default=0, help="of the trials (0); 50 for a rerun with fresh seeds")
    parser.add_argument("--tables", nargs="+", choices=FILES, default=list(FILES))
    parser.add_argument("--cql", action="store_true")
    parser.add_argument("--out", type=Path, default=OUT)
    arguments = parser.parse_args()
    results = []
    seeds = range(arguments.first_seed, arguments.first_seed + arguments.trials)
    for name in arguments.tables:
        table = load_pool(name, arguments.data)
        contexts = table.contexts()
        for setting in ("random", "best"):
            results.append(run(name, table, contexts, setting, seeds, cql=arguments.cql))
            for learner, numbers in results[-1]["learners"].items():
                told = (f"{key} {value:.3f}" for key, value in numbers.items() if value is not None)
                print(name, setting, learner, *told, flush=True)
            print(name, setting, results[-1]["confidence_of_table"], flush=True)
    failed = failures(results)
    protocol = {"epsilon": EPSILON, "rows": ROWS, "train": TRAIN, "floor": FLOOR, "description": __doc__}
    versions = {"python": platform.python_version(), "numpy": np.__version__}
    write_json(arguments.out, {"protocol": protocol, "versions": versions, "results": results, "failures": failed})
    print("\n".join(failed) or "all checks hold")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
