"""What the benchmarks of cascades share: the table, the verifiers, ladders and cascades of known rates."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path

import numpy as np
from pools import FILES

from sage.benchmarks.cascades import choose_pool, expected_of
from sage.evidence.mixing_line import MixingLine
from sage.outcomes.importers import import_table
from sage.outcomes.table import OutcomeTable
from sage.policies.cascades.learned_cascade import LearnedCascade
from sage.policies.learned_policy import Training
from sage.rl.cascades.cascade_stopping import as_cascade, solve, types_of
from sage.rl.cascades.simulated_verifier import SimulatedVerifier

VERIFIERS = [(0.95, 0.10, rho) for rho in (0.0, 0.25, 0.5)] + [(0.80, 0.30, rho) for rho in (0.0, 0.5)]
PRICES = (0.1, 0.15, 0.2, 0.25, 0.3, 0.4)
POOLS = [(size, price) for size in (3, 4) for price in (0.1, 0.2)]  # how many models, chosen for which price
LADDER_BUDGET = 0.35
AIMS, BUDGETS = (0.98, 1.0, 1.02), (0.2, 0.25, 0.3, 0.35, 0.4)  # of the best single model's quality, of its cost
BELOW_LINE = 0.005  # as far may a cascade be below the mixing line


def stopping(table: OutcomeTable, verifier: SimulatedVerifier, price: float) -> LearnedCascade:
    """With known rates, errors taken to be independent."""
    assumed = SimulatedVerifier(verifier.true_positive, verifier.false_positive)
    solution = solve(types_of(table.score, table.cost_usd, assumed), price)
    return as_cascade(solution, table.models, price=price, training=Training("", "", "replay", "", 0, 0))


def line_at(train: OutcomeTable, held_out: OutcomeTable, cost: float) -> float:
    """The quality of the mixture chosen on train that costs as much on the tasks left out."""
    corners = MixingLine.of(train.score, train.cost_usd).models
    order = corners[np.argsort(held_out.cost_usd[:, corners].mean(axis=0))]
    return float(np.interp(cost, held_out.cost_usd[:, order].mean(axis=0), held_out.score[:, order].mean(axis=0)))


def shares_within(curve: list[tuple[float, float]], budget: float) -> np.ndarray:
    """[prices] of tasks: the best quality for the budget, or the price that costs least."""
    return MixingLine.through(*np.array(curve).T).shares(budget, len(PRICES))


def shares_for(curve: list[tuple[float, float]], quality: float) -> np.ndarray:
    """[prices] of tasks: the cheapest with this quality, or the price with the best."""
    line = MixingLine.through(*np.array(curve).T)
    return line.shares(line.cost_of(min(quality, float(line.quality[-1]))), len(PRICES))


@lru_cache
def choose_ladder(name: str | None, true_positive: float, false_positive: float, folder: Path) -> tuple[str, ...]:
    """On the repositories but `name` (None: on all), with independent errors; the same for all seeds and correlations."""
    return ladder_of(load(folder), name, true_positive, false_positive)


def ladder_of(table: OutcomeTable, name: str | None, true_positive: float, false_positive: float) -> tuple[str, ...]:
    verifier = SimulatedVerifier(true_positive, false_positive)
    train = table.select(table.category != name)
    limit = LADDER_BUDGET * float(train.cost_usd[:, train.score.mean(axis=0).argmax()].mean())
    found = {}
    for size, price in POOLS:
        ladder = choose_pool(train, verifier, price, size=size)
        curve = curve_from_table(train.with_models(tuple(sorted(ladder))), verifier)
        found[ladder] = max((quality for quality, cost in curve if cost <= limit), default=0.0)
    return max(found, key=lambda ladder: found[ladder])


@lru_cache
def load(folder: Path) -> OutcomeTable:
    return import_table("swebench", folder / FILES["swebench"])


def curve_from_table(table: OutcomeTable, verifier: SimulatedVerifier) -> list[tuple[float, float]]:
    """Quality and cost for every price with known rates, each repository left out once."""
    curve = []
    for price in PRICES:
        quality, cost = np.zeros(len(table)), np.zeros(len(table))
        for name in np.unique(table.category):
            held = table.category == name
            policy = stopping(table.select(~held), verifier, price)
            found = expected_of(table.select(held), policy, verifier)
            quality[held], cost[held] = found.quality, found.cost
        curve.append((float(quality.mean()), float(cost.mean())))
    return curve


def read(path: Path) -> dict:
    return json.loads(path.read_text(encoding="utf-8"))
