"""What routing gains on tasks, task types and repositories that were held out.

OMP_NUM_THREADS=1 .venv/bin/python benchmarks/sage/routing.py --data DIR     # writes results/routing.json, a few minutes
.venv/bin/python benchmarks/sage/routing.py --data DIR --part task_types --out /tmp/x.json

DIR holds the published packs (see `sage data import`) and splits_v1.csv.gz, whose `split_random` says which tasks are
held out ('test'). Everything (tables, text models, thresholds, which rule to use) is chosen on the other tasks. It exits
with 1 if a must is missed. Three parts:

- task_types: the shrunk category table of `sage.rl.category_table` acts where its confidence is at least the floor, and
  leaves the rest to the single model that is best on train. Held-out tasks: share of the gap to the (optimistic) oracle
  that is closed. Held-out types: each of the types left out in turn, and `split_group`; harm is against that model.
- pairs: the dear model of two for the tasks with the highest predicted gain (kernel ridge on words and category), or
  highest gain per dollar where the dear model's cost can be foreseen on train. The cost at 95 % of the dear model's
  quality is read off the held-out curve, as RouteLLM's CPT is; `chosen_on_train` is the point of the threshold found on
  train. As one held-out part of GSM8K is small, the same is done for 10 other random splits.
- repositories: each SWE-bench repository left out in turn. For 11 budgets, models are mixed as is best on the other
  repositories (the mixing line). The router keeps the shares but picks the tasks for the dearer model by predicted gain;
  it acts only if that gains over all budgets together, with one-sided 97.5 % confidence, when each of the other
  repositories is left out; otherwise it abstains and is the line. `always_acting` is what acting without proof does.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import os
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
from pools import FILES

from sage.benchmarks.mixing_line import MixingLine
from sage.benchmarks.text_kernel import TextKernel, best_ridge, cross_fitted, folds_of, ridge
from sage.benchmarks.threshold_router import PairPrediction, PairStudy, curve_of, study_pair
from sage.files import write_json
from sage.orchestrator.models_file import GuardLimits
from sage.outcomes.importers import import_table
from sage.outcomes.table import OutcomeTable
from sage.rl.category_table import table_from_outcomes

RESULT = Path(__file__).parent / "results" / "routing.json"
FLOOR = GuardLimits().confidence_floor
QUALITY = 0.95  # of the dear model's
PAIRS = {"mmlu": 0.65, "gsm8k": 0.68}  # most that the cost may be
RULES = GAIN, PER_DOLLAR = "gain", "gain per dollar"
NUM_SPLITS = 10
BUDGETS = np.linspace(0.0, 1.0, 11)
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
    acts = policy.confidence(contexts, train.models, everyone) >= floor
    choice = np.where(acts, policy.probabilities(contexts, train.models, everyone).argmax(axis=1), best)
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
        "share_acting": float(acts.mean()),
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


def pair_result(study: PairStudy, train: OutcomeTable, held_out: OutcomeTable, per_dollar: bool) -> dict:
    curve = curve_of(study.held_out.rank(per_dollar), held_out.score, held_out.cost_usd)
    on_train = curve_of(study.train.rank(per_dollar), train.score, train.cost_usd)
    dear = (study.held_out.rank(per_dollar) >= on_train.threshold_at(QUALITY)).astype(int)
    rows = np.arange(len(held_out))
    return {
        "cost_at_95_percent": curve.cost_at(QUALITY),
        "calls_of_dear_model": float((curve.quality < QUALITY).sum() / len(rows)),
        "cost_at_95_percent_cross_fitted_on_train": on_train.cost_at(QUALITY),
        "chosen_on_train": {
            "cost": float(held_out.cost_usd[rows, dear].sum() / held_out.cost_usd[:, 1].sum()),
            "quality": float(held_out.score[rows, dear].sum() / held_out.score[:, 1].sum()),
        },
    }


def mixing_cost(held_out: OutcomeTable) -> float:
    """What mixing the two at random costs at the same relative quality."""
    (cheap, dear), (low, high) = held_out.score.mean(axis=0), held_out.cost_usd.mean(axis=0)
    share = (QUALITY * dear - cheap) / (dear - cheap)
    return float((low + share * (high - low)) / high)


def pairs(folder: Path) -> dict:
    table = import_table("routellm", folder / FILES["routellm"])
    test = split_of(folder, "routellm", table, "split_random") == "test"
    found = {}
    for name in PAIRS:
        here = np.char.startswith(table.category, name)
        part, held = table.select(here), test[here]
        dear = int(part.score.mean(axis=0).argmax())
        part = part.with_models((part.models[1 - dear], part.models[dear]))
        study = study_pair(part.select(~held), part.select(held))
        rules = {rule: pair_result(study, part.select(~held), part.select(held), rule == PER_DOLLAR) for rule in RULES}
        rule = PER_DOLLAR if study.per_dollar else GAIN
        found[name] = {
            "train_tasks": int((~held).sum()),
            "held_out_tasks": int(held.sum()),
            "models": list(part.models),
            "variance_of_log_cost_foreseen": study.foreseen,
            "rule": rule,
            **rules[rule],
            "mixing_line_cost_at_95_percent": mixing_cost(part.select(held)),
            "both_rules": rules,
            "other_random_splits": other_splits(part, 0.2) if name == "gsm8k" else None,
        }
    return found


def other_splits(part: OutcomeTable, fraction: float) -> dict:
    """Both rules on other random splits, and on all tasks, each predicted by the other folds."""
    studies = []
    for seed in range(NUM_SPLITS):
        held = np.random.default_rng(1000 + seed).permutation(len(part)) < fraction * len(part)
        studies.append((held, study_pair(part.select(~held), part.select(held), seed=seed).held_out))
    pooled, fold = PairPrediction(np.zeros(len(part)), np.zeros(len(part))), folds_of(len(part), seed=0)
    for k in np.unique(fold):
        prediction = study_pair(part.select(fold != k), part.select(fold == k)).held_out
        pooled.gain[fold == k], pooled.log_cost[fold == k] = prediction.gain, prediction.log_cost
    found = {}
    for rule in RULES:
        costs = [
            curve_of(prediction.rank(rule == PER_DOLLAR), part.score[held], part.cost_usd[held]).cost_at(QUALITY)
            for held, prediction in studies
        ]
        found[rule] = {
            "cost_at_95_percent": costs,
            "mean": float(np.mean(costs)),
            "standard_deviation": float(np.std(costs, ddof=1)),
            "all_tasks_each_predicted_by_the_other_folds": curve_of(
                pooled.rank(rule == PER_DOLLAR), part.score, part.cost_usd
            ).cost_at(QUALITY),
        }
    return found


# Repositories


def uplift(train: OutcomeTable, held_out: OutcomeTable, line: MixingLine) -> np.ndarray:
    """[budgets, held-out]: quality over the line when predicted gain, not chance, picks who gets the dearer model.

    What it costs more or less than the line is priced at the line's slope.
    """
    kernel = TextKernel.fit(train)
    features, unseen, fold = kernel.features(train), kernel.features(held_out), folds_of(len(train), seed=0)
    found = np.zeros((len(BUDGETS), len(held_out)))
    for cheap, dear in pairwise(line.models.tolist()):
        gain, extra = (v[:, dear] - v[:, cheap] for v in (train.score, train.cost_usd))
        strength = best_ridge(features, gain, fold)
        on_train = cross_fitted(features, gain, strength, fold)
        predicted = ridge(features, gain, strength)(unseen)
        score, cost = (v[:, dear] - v[:, cheap] for v in (held_out.score, held_out.cost_usd))
        net = score - gain.mean() / extra.mean() * cost
        for j, share in enumerate(BUDGETS):
            shares = line.shares(budget_of(line, share), len(train.models))
            if shares[cheap] > 0 and shares[dear] > 0:
                found[j] = ((predicted >= np.quantile(on_train, 1 - shares[dear])) - shares[dear]) * net
    return found


def budget_of(line: MixingLine, share: float) -> float:
    return float(line.cost[0] + share * (line.cost[-1] - line.cost[0]))


def proved(train: OutcomeTable, line: MixingLine) -> bool:
    """Whether picking by text gains over the line when each repository of train is left out: one test, over all budgets."""
    found = np.concatenate(
        [
            uplift(train.select(train.category != name), train.select(train.category == name), line).mean(axis=0)
            for name in np.unique(train.category)
        ]
    )
    return bool(found.mean() - 1.96 * found.std(ddof=1) / np.sqrt(len(found)) > 0)


def repositories(folder: Path) -> dict:
    table = import_table("swebench", folder / FILES["swebench"])
    names = np.unique(table.category).tolist()
    routed, acting, on_line, cost = (np.zeros((len(BUDGETS), len(table))) for _ in range(4))
    acts = dict.fromkeys(names, False)
    for name in names:
        held = table.category == name
        train, held_out = table.select(~held), table.select(held)
        line = MixingLine.of(train.score, train.cost_usd)
        for j, share in enumerate(BUDGETS):
            mixture = line.shares(budget_of(line, share), len(table.models))
            on_line[j, held], cost[j, held] = held_out.score @ mixture, held_out.cost_usd @ mixture
        acting[:, held] = uplift(train, held_out, line)
        acts[name] = proved(train, line)
        routed[:, held] = acting[:, held] * acts[name]
    by_repository = {name: routed[:, table.category == name].mean(axis=1).tolist() for name in names}
    return {
        "tasks": len(table),
        "budgets": BUDGETS.tolist(),
        "line": {"quality": on_line.mean(axis=1).tolist(), "cost_usd": cost.mean(axis=1).tolist()},
        "over_line": routed.mean(axis=1).tolist(),
        "over_line_by_repository": by_repository,
        "worst": float(min(min(values) for values in by_repository.values())),
        "acts": acts,
        "always_acting": {
            "over_line": acting.mean(axis=1).tolist(),
            "worst_repository": float(min(acting[:, table.category == name].mean(axis=1).min() for name in names)),
        },
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
    result = {name: PARTS[name](arguments.data) for name in arguments.part or PARTS}
    result["checks"] = checks(result)
    write_json(arguments.out, result)
    for sentence, met in result["checks"].items():
        print("met   " if met else "MISSED", sentence)
    return 0 if all(result["checks"].values()) else 1


if __name__ == "__main__":
    sys.exit(main())
