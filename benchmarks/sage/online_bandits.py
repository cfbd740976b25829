"""Regret of the bandits when tasks of real outcome tables come one by one.

.venv/bin/python benchmarks/sage/online_bandits.py --data DIR              # writes results/online_bandits.json
.venv/bin/python benchmarks/sage/online_bandits.py --data DIR --orders 2 --out /tmp/x.json

DIR holds the published packs (see `sage log import`). For each order the tasks are shuffled; each policy draws a model
from its probabilities among those that were run on the task, sees that model's score only, and learns. Regret per round
is the mean, over rounds, of the score of the model that is best for the task's role and category over the whole table
(chosen in hindsight, ties by name) less that of the drawn one; all policies meet the same orders. With `--left-out`, the
contextual bandit has the settings that bandit_settings.py chose on the other tables; results/online_bandits_left_out.json.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path

import numpy as np

from sage.files import write_json
from sage.outcomes.importers import import_table
from sage.outcomes.table import OutcomeTable
from sage.policies.bandits.contextual_bandit import ContextualBandit, ContextualBanditConfig
from sage.policies.bandits.ucb_bandit import UCB1
from sage.policies.policy import Contexts, select_rows

RESULT = Path(__file__).parent / "results" / "online_bandits.json"
TABLES = {
    "llmrouter": "llmrouter_dcrouter.parquet",
    "livecodebench": "livecodebench_4roles.parquet",
    "routellm": "routellm_mmlu_gsm8k_mtbench.parquet",
    "swebench": "swebench_verified_minisweagent.parquet",
}
SETTINGS = RESULT.parent / "bandit_settings.json"
HALF = 0.5
Bandit = UCB1 | ContextualBandit


def hindsight(table: OutcomeTable) -> np.ndarray:
    """[n]: the score of the model that is best in the row's cell, among those that were run on the row."""
    _, cell = np.unique(np.stack([table.role, table.category]), axis=1, return_inverse=True)
    cell, scores = cell.ravel(), np.where(table.ran, table.score, 0.0)
    total, count = (np.zeros((cell.max() + 1, len(table.models))) for _ in range(2))
    np.add.at(total, cell, scores)
    np.add.at(count, cell, table.ran)
    means = total / np.maximum(count, 1)
    preferred = np.where(table.ran, means[cell], -np.inf).argmax(axis=1)
    return table.score[np.arange(len(table)), preferred]


def play(bandit: Bandit, table: OutcomeTable, contexts: Contexts, order: np.ndarray, seed: int) -> np.ndarray:
    """[n]: the scores that the bandit earned, in the order of play."""
    at, ran = np.random.default_rng(seed).random(len(order)), table.ran
    earned = np.empty(len(order))
    for i, row in enumerate(order):
        context = select_rows(contexts, np.array([row]))
        probabilities = bandit.probabilities(context, table.models, ran[row : row + 1])[0]
        chosen = min(
            int(np.searchsorted(np.cumsum(probabilities), at[i], side="right")), int(np.flatnonzero(probabilities)[-1])
        )
        earned[i] = table.score[row, chosen]
        bandit.update(context, [table.models[chosen]], np.array([earned[i]]))
    return earned


def measure(table: OutcomeTable, orders: int, config: ContextualBanditConfig) -> dict:
    blank = np.zeros((len(table), 0), np.float32)  # neither bandit looks at the features
    contexts = Contexts(table.role, table.category, blank, table.task_id)
    best = hindsight(table)
    single = np.nanmean(table.score, axis=0)
    regret: dict[str, list[float]] = {"ucb1": [], "contextual": []}
    for seed in range(orders):
        order = np.random.default_rng(seed).permutation(len(table))
        for name, bandit in {"ucb1": UCB1(), "contextual": ContextualBandit(config)}.items():
            regret[name].append(float(np.mean(best[order] - play(bandit, table, contexts, order, seed))))
    difference = np.array(regret["ucb1"]) - np.array(regret["contextual"])
    return {
        "rounds": len(table),
        "settings": {"noise_share": config.noise_share, "keep": config.keep},
        "models": len(table.models),
        "cells": len(np.unique(np.stack([table.role, table.category]), axis=1).T),
        "sha256": table.sha256,
        "licence": table.licence,
        "hindsight_score": float(best.mean()),
        "best_single_score": float(single.max()),
        "regret_per_round": {name: summary(np.array(values)) for name, values in regret.items()},
        "ucb1_minus_contextual": summary(difference),
        "share_of_ucb1": float(np.mean(regret["contextual"]) / np.mean(regret["ucb1"])),
        "orders_in_which_contextual_is_lower": int((difference > 0).sum()),
        "regret_of_each_order": regret,
    }


def summary(values: np.ndarray) -> dict[str, float]:
    return {
        "mean": float(values.mean()),
        "sd": float(values.std(ddof=1)),
        "least": float(values.min()),
        "most": float(values.max()),
    }


def chosen_on_the_others(name: str) -> ContextualBanditConfig:
    """By bandit_settings.py, as its result names the setting."""
    chosen = json.loads(SETTINGS.read_text())["left_out"][name]["chosen_on_the_others"]
    share, keep = (float(part.split()[1]) for part in chosen.split(", "))
    return ContextualBanditConfig(noise_share=share, keep=keep)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with the published packs")
    parser.add_argument("--orders", type=int, default=20)
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--left-out", action="store_true", help="with the settings chosen on the other tables")
    parser.add_argument("--out", type=Path, default=RESULT)
    options = parser.parse_args()
    began, tables = time.time(), {}
    for name in options.tables:
        config = chosen_on_the_others(name) if options.left_out else ContextualBanditConfig()
        tables[name] = measure(import_table(name, options.data / TABLES[name]), options.orders, config)
        means = {policy: round(values["mean"], 4) for policy, values in tables[name]["regret_per_round"].items()}
        print(name, means, f"{time.time() - began:.0f} s", flush=True)
    lower = [name for name, values in tables.items() if values["ucb1_minus_contextual"]["mean"] > 0]
    half = [name for name, values in tables.items() if values["share_of_ucb1"] <= HALF]
    result = {
        "orders": options.orders,
        "cores": os.cpu_count(),
        "seconds": round(time.time() - began),
        "tables": tables,
    }
    write_json(
        options.out, result | {"contextual_is_lower_on": lower, "at_most_half_on": half, "holds": len(half) >= 3}
    )


if __name__ == "__main__":
    main()
