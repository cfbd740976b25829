"""What routing gains on tasks, task types and repositories that were held out.

OMP_NUM_THREADS=1 .venv/bin/python benchmarks/sage/routing.py --data DIR     # writes results/routing.json, a few minutes
.venv/bin/python benchmarks/sage/routing.py --data DIR --part pairs     # this part anew, the others of the file as they are

DIR holds the published packs (see `sage log import`) and splits_v1.csv.gz, whose `split_random` says which tasks are
held out ('test') in the first part. Everything is chosen on the other tasks. It exits
with 1 if a must is missed. Three parts:

- task_types: the shrunk category table of `sage.rl.category_table` acts where its confidence is at least the floor, and
  leaves the rest to the single model that is best on train. Held-out tasks: share of the gap to the (optimistic) oracle
  that is closed. Held-out types: each of the types left out in turn, and `split_group`; harm is against that model.
- pairs: text policies (`sage train --learner text`), each learned on four fifths of the tasks, saved, loaded, and asked about the
  other fifth. The cost at 95 % of the dear model's quality is read off the curve that the policies' own choices give at
  every worth of a dollar, as RouteLLM's CPT is; `chosen_on_train` is the point of the worth found without the fifth, and
  `above_the_floor` what the guard lets through at its default floor, where the dear model is the static table.
- repositories: each SWE-bench repository left out in turn. For every corner of the mixing line of the others, a text policy
  is learned at a worth of a dollar for which the corner is the best single model, with the corner as the static table, and
  served above the floor. What it costs more or less is priced at that worth: the difference is the distance to the line.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import os
import sys
import tempfile
from pathlib import Path

import numpy as np
from pools import FILES
from threshold_router import curve_of, dear_at

from sage.evidence.mixing_line import MixingLine
from sage.files import write_json
from sage.orchestrator.models_file import GuardLimits
from sage.outcomes.importers import import_table
from sage.outcomes.table import OutcomeTable
from sage.policies.checkpoint import load_policy, save_policy
from sage.policies.learned_policy import LearnedPolicy
from sage.policies.policy import Contexts, select_rows
from sage.policies.serving import GuardRules, serving_distribution
from sage.rl.category_table import table_from_outcomes
from sage.rl.logging_policies import PreferenceOrder
from sage.rl.train_text import text_from_outcomes

RESULT = Path(__file__).parent / "results" / "routing.json"
FLOOR = GuardLimits().confidence_floor
QUALITY = 0.95  # of the dear model's
PAIRS = {"mmlu": 0.38, "gsm8k": 0.65}  # most that the cost may be
PAIR_SEEDS = {"mmlu": (0,), "gsm8k": tuple(range(5))}  # of the folds; GSM8K is small, so that one split says little
NUM_FOLDS = 5
WORTHS = np.geomspace(0.01, 3.0, 400)  # of the dear model's mean cost
MIN_GAP, MAX_HARM, MAX_BELOW_LINE = 0.20, 0.02, 0.005


def split_of(folder: Path, kind: str, table: OutcomeTable, column: str) -> np.ndarray:
    with gzip.open(folder / "splits_v1.csv.gz", "rt") as file:
        splits = {row["task_id"]: row[column] for row in csv.DictReader(file) if row["pack"] == FILES[kind]}
    return np.array([splits[task] for task in table.task_id])


# Task types


def route_by_category(train: OutcomeTable, held_out: OutcomeTable, floor: float) -> dict:
    """The category table with abstention, against the best single model of train and the oracle."""
    best = int(train.score.mean(axis=0).argmax())
    policy = table_from_outcomes(train.contexts(), train.models, train.score, incumbent=train.models[best])
    contexts, everyone = held_out.contexts(), np.ones(held_out.score.shape, bool)
    guard = GuardRules(floor, PreferenceOrder((train.models[best],)))
    found = serving_distribution(policy, guard, contexts, train.models, everyone)
    choice = found.preferred
    routed, single = held_out.score[np.arange(len(choice)), choice], held_out.score[:, best]
    oracle = held_out.score.max(axis=1)
    return {
        "train_tasks": len(train),
        "held_out_tasks": len(held_out),
        "best_single": train.models[best],
        "best_single_quality": float(single.mean()),
        "routed_quality": float(routed.mean()),
        "gain": float((routed - single).mean()),
        "gain_standard_error": float((routed - single).std() / np.sqrt(len(choice))),
        "oracle_quality_optimistic": float(oracle.mean()),
        "gap_closed": float((routed - single).mean() / (oracle - single).mean()),
        "share_acting": float(found.decides.mean()),
        "share_changed": float((choice != best).mean()),
    }


def task_types(folder: Path) -> dict:
    table = import_table("llmrouter", folder / FILES["llmrouter"])
    test = split_of(folder, "llmrouter", table, "split_random") == "test"
    group = split_of(folder, "llmrouter", table, "split_group") == "test"
    left_out = {
        str(kind): route_by_category(table.select(table.category != kind), table.select(table.category == kind), FLOOR)
        for kind in np.unique(table.category)
    }
    held_out = {
        f"floor {floor:g}": route_by_category(table.select(~test), table.select(test), floor)
        for floor in (0.0, 0.5, FLOOR)
    }
    return {
        "floor": FLOOR,
        "held_out_tasks": held_out[f"floor {FLOOR:g}"],
        "other_floors": held_out,
        "held_out_types_split_group": route_by_category(table.select(~group), table.select(group), FLOOR),
        "each_type_left_out": left_out,
        "worst_harm": -min(r["gain"] for r in left_out.values()),
    }


# Pairs


def served(policy: LearnedPolicy) -> LearnedPolicy:
    """Through a checkpoint, as a router gets it."""
    with tempfile.TemporaryDirectory() as folder:
        save_policy(Path(folder) / "policy.safetensors", policy)
        return load_policy(Path(folder) / "policy.safetensors")


def learn_pair(train: OutcomeTable, contexts: Contexts) -> LearnedPolicy:
    """At the worth of a dollar that keeps 95 % of the dear model's quality, by predictions that have not seen the task."""
    policy = text_from_outcomes(
        contexts, train.models, train.score, train.cost_usd, keep_quality=QUALITY, incumbent=train.models[1]
    )
    return served(policy)


def cross_fitted_pair(part: OutcomeTable, fold: np.ndarray) -> dict:
    """Every task routed by a checkpoint that was learned on the other folds."""
    contexts, rows = part.contexts(), np.arange(len(part))
    worths = WORTHS / part.cost_usd[:, 1].mean()
    dear, chosen, guarded = np.zeros((len(worths), len(part)), bool), np.ones(len(part), int), np.ones(len(part), int)
    found = []
    for index in np.unique(fold):
        held = np.flatnonzero(fold == index)
        policy = learn_pair(part.select(fold != index), select_rows(contexts, np.flatnonzero(fold != index)))
        asked, everyone = select_rows(contexts, held), np.ones((len(held), 2), bool)
        dear[:, held] = dear_at(policy, asked, part.models, worths)
        chosen[held] = policy.probabilities(asked, part.models, everyone).argmax(axis=1)
        guard = GuardRules(FLOOR, PreferenceOrder((part.models[1],)))
        guarded[held] = serving_distribution(policy, guard, asked, part.models, everyone).preferred
        found.append({"kind": policy.kind, **policy.training.settings})
    points = {"chosen_on_train": chosen, "chosen_on_train_above_the_floor": guarded}
    return {
        "cost_at_95_percent": curve_of(dear, part.score, part.cost_usd).cost_at(QUALITY),
        **{
            name: {
                "cost": float(part.cost_usd[rows, choice].sum() / part.cost_usd[:, 1].sum()),
                "quality": float(part.score[rows, choice].sum() / part.score[:, 1].sum()),
            }
            for name, choice in points.items()
        },
        "policies": found,
    }


def mixing_cost(table: OutcomeTable) -> float:
    """What mixing the two at random costs at the same relative quality."""
    (cheap, dear), (low, high) = table.score.mean(axis=0), table.cost_usd.mean(axis=0)
    share = (QUALITY * dear - cheap) / (dear - cheap)
    return float((low + share * (high - low)) / high)


def pairs(folder: Path) -> dict:
    table = import_table("routellm", folder / FILES["routellm"])
    found = {}
    for name, seeds in PAIR_SEEDS.items():
        part = table.select(np.char.startswith(table.category, name))
        dear = int(part.score.mean(axis=0).argmax())
        part = part.with_models((part.models[1 - dear], part.models[dear]))
        runs = []
        for seed in seeds:
            fold = np.random.default_rng(seed).permutation(len(part)) % NUM_FOLDS
            runs.append({"seed": seed, **cross_fitted_pair(part, fold)})
            print(name, seed, runs[-1]["cost_at_95_percent"], runs[-1]["chosen_on_train"], flush=True)
        costs = [run["cost_at_95_percent"] for run in runs]
        found[name] = {
            "tasks": len(part),
            "models": list(part.models),
            "cost_at_95_percent": float(np.mean(costs)),
            "standard_deviation_over_splits": float(np.std(costs, ddof=1)) if len(costs) > 1 else None,
            "mixing_line_cost_at_95_percent": mixing_cost(part),
            "splits": runs,
        }
    return found


# Repositories


def slopes(line: MixingLine) -> np.ndarray:
    """The worths of a dollar between which each corner of the line is the best: one inside every interval."""
    between = np.diff(line.quality) / np.diff(line.cost)  # falling, as the line is concave
    ends = np.concatenate([[2 * between[0]], between, [between[-1] / 2]])
    return np.sqrt(ends[1:] * ends[:-1])


def repositories(folder: Path) -> dict:
    """Each left out: the served policy, learned on the others, and the corner of their mixing line that it starts from."""
    table = import_table("swebench", folder / FILES["swebench"])
    contexts, points = table.contexts(), {}
    for name in np.unique(table.category).tolist():
        held = np.flatnonzero(table.category == name)
        train, rest = table.select(table.category != name), np.flatnonzero(table.category != name)
        line = MixingLine.of(train.score, train.cost_usd)
        asked, everyone = select_rows(contexts, held), np.ones((len(held), len(table.models)), bool)
        points[name] = []
        for corner, worth in zip(line.models.tolist(), slopes(line).tolist(), strict=True):
            policy = served(
                text_from_outcomes(
                    select_rows(contexts, rest),
                    train.models,
                    train.score,
                    train.cost_usd,
                    usd_worth=worth,
                    incumbent=train.models[corner],
                )
            )
            guard = GuardRules(FLOOR, PreferenceOrder((table.models[corner],)))
            choice = serving_distribution(policy, guard, asked, table.models, everyone).preferred
            own = policy.probabilities(asked, table.models, everyone).argmax(axis=1)
            net = table.score[held] - worth * table.cost_usd[held]
            rows = np.arange(len(held))
            points[name].append(
                {
                    "usd_worth": worth,
                    "corner": table.models[corner],
                    "kind": policy.kind,
                    "share_acting": float((choice != corner).mean()),
                    "over_line": float((net[rows, choice] - net[:, corner]).mean()),
                    "over_line_below_the_floor_too": float((net[rows, own] - net[:, corner]).mean()),
                    **{
                        key: policy.training.settings.get(key)
                        for key in ("text_decides_in", "new_categories_lower_bound")
                    },
                }
            )
        print(name, [round(point["over_line"], 4) for point in points[name]], flush=True)
    every = [point for found in points.values() for point in found]
    return {
        "tasks": len(table),
        "by_repository": points,
        "worst": min(point["over_line"] for point in every),
        "worst_below_the_floor_too": min(point["over_line_below_the_floor_too"] for point in every),
        "share_acting": float(np.mean([point["share_acting"] for point in every])),
    }


def checks(result: dict) -> dict[str, bool]:
    found = {}
    if "task_types" in result:
        types = result["task_types"]
        worst = max(types["worst_harm"], -types["held_out_types_split_group"]["gain"])
        found["at least 20 % of the gap closed on held-out tasks"] = types["held_out_tasks"]["gap_closed"] >= MIN_GAP
        found["at most 2 points of harm on any held-out task type"] = worst <= MAX_HARM
    for name, most in PAIRS.items() if "pairs" in result else ():
        found[f"{name}: cost at 95 % at most {most}"] = result["pairs"][name]["cost_at_95_percent"] <= most
    if "repositories" in result:
        found["never below the mixing line by more than half a point"] = (
            result["repositories"]["worst"] >= -MAX_BELOW_LINE
        )
    return found


PARTS = {"task_types": task_types, "pairs": pairs, "repositories": repositories}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--part", choices=PARTS, action="append")
    parser.add_argument("--out", type=Path, default=RESULT)
    arguments = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    kept = json.loads(arguments.out.read_text()) if arguments.part and arguments.out.exists() else {}
    result = kept | {name: PARTS[name](arguments.data) for name in arguments.part or PARTS}
    result["checks"] = checks(result)
    write_json(arguments.out, result)
    for sentence, met in result["checks"].items():
        print("met   " if met else "MISSED", sentence)
    return 0 if all(result["checks"].values()) else 1


if __name__ == "__main__":
    sys.exit(main())
