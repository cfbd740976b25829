"""How much the contextual bandit explores and forgets, chosen on all tables but one and judged on that one.

.venv/bin/python benchmarks/sage/bandit_settings.py --data DIR       # writes results/bandit_settings.json

DIR holds the published packs (see `sage log import`). Tasks come one by one as in online_bandits.py, at most 2,000 of a
table, to the better half of its models (2 to 8, see pools.py). Every table is played twice: as it is, and with a change half
way, after which the two models with the best mean scores answer under each other's names. Regret per round is against the
model that is best for the task's role and category in that half. For every table, the setting with the least mean regret
over the other tables (each table's regrets divided by those of UCB1 on it) is judged on it.
"""

from __future__ import annotations

import argparse
import itertools
import os
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
from online_bandits import hindsight, play
from pools import FILES, load_pool

from sage.files import write_json
from sage.outcomes.table import OutcomeTable
from sage.policies.bandits.contextual_bandit import ContextualBandit, ContextualBanditConfig
from sage.policies.bandits.ucb_bandit import UCB1
from sage.policies.policy import Contexts

RESULT = Path(__file__).parent / "results" / "bandit_settings.json"
MOST_ROUNDS = 2000
SHARES = (0.3, 0.5, 0.7, 1.0)
KEEPS = (0.998, 0.9995)
SETTINGS = {f"share {share}, keep {keep}": (share, keep) for share, keep in itertools.product(SHARES, KEEPS)}
PRESENT = "share 0.5, keep 0.9995"


def swapped(table: OutcomeTable) -> OutcomeTable:
    """The two best models under each other's names."""
    best, second = np.argsort(-np.nanmean(table.score, axis=0), kind="stable")[:2]
    order = np.arange(len(table.models))
    order[[best, second]] = second, best
    return replace(table, score=table.score[:, order])


def regret(bandit: UCB1 | ContextualBandit, halves: list[OutcomeTable], order: np.ndarray, seed: int) -> float:
    """Per round, over halves that are played one after the other."""
    middle, total = len(order) // 2, 0.0
    for half, table, rows in zip((0, 1), halves, (order[:middle], order[middle:]), strict=True):
        contexts = Contexts(table.role, table.category, np.zeros((len(table), 0), np.float32), table.task_id)
        total += float((hindsight(table)[rows] - play(bandit, table, contexts, rows, 2 * seed + half)).sum())
    return total / len(order)


def measure(table: OutcomeTable, orders: int) -> dict[str, dict[str, float]]:
    """Mean regret by setting, as the table is and with a change."""
    found: dict[str, dict[str, float]] = {}
    for kind, halves in {"as it is": [table, table], "with a change": [table, swapped(table)]}.items():
        regrets: dict[str, list[float]] = {name: [] for name in ("ucb1", *SETTINGS)}
        for seed in range(orders):
            order = np.random.default_rng(seed).permutation(len(table))[:MOST_ROUNDS]
            regrets["ucb1"].append(regret(UCB1(), halves, order, seed))
            for name, (share, keep) in SETTINGS.items():
                bandit = ContextualBandit(ContextualBanditConfig(noise_share=share, keep=keep))
                regrets[name].append(regret(bandit, halves, order, seed))
        found[kind] = {name: float(np.mean(values)) for name, values in regrets.items()}
    return found


def relative(found: dict[str, dict[str, float]], name: str) -> float:
    """Regret as a share of UCB1's, mean of the table as it is and with a change."""
    return float(np.mean([values[name] / values["ucb1"] for values in found.values()]))


def best_over(tables: dict[str, dict[str, dict[str, float]]]) -> str:
    return min(SETTINGS, key=lambda name: np.mean([relative(found, name) for found in tables.values()]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with the published packs")
    parser.add_argument("--orders", type=int, default=3)
    parser.add_argument("--out", type=Path, default=RESULT)
    options = parser.parse_args()
    began, tables = time.time(), {}
    for name in FILES:
        tables[name] = measure(load_pool(name, options.data), options.orders)
        print(
            name, {k: round(relative(tables[name], k), 3) for k in SETTINGS}, f"{time.time() - began:.0f} s", flush=True
        )
    left_out = {}
    for name, found in tables.items():
        chosen = best_over({other: values for other, values in tables.items() if other != name})
        left_out[name] = {
            "chosen_on_the_others": chosen,
            "regret_over_ucb1": relative(found, chosen),
            "present": relative(found, PRESENT),
            "present_as_it_is": found["as it is"][PRESENT] / found["as it is"]["ucb1"],
            "best_on_this_table": relative(found, best_over({name: found})),
        }
        print(name, left_out[name], flush=True)
    result = {
        "orders": options.orders,
        "most_rounds": MOST_ROUNDS,
        "cores": os.cpu_count(),
        "seconds": round(time.time() - began),
        "chosen_on_all": best_over(tables),
        "left_out": left_out,
        "regret_per_round": tables,
    }
    write_json(options.out, result)


if __name__ == "__main__":
    main()
