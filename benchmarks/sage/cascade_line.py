"""How far chance alone takes a small repository below the mixing line; a part of cascades.py.

Everything is known: cascades are optimal stopping with the verifier's rates, computed from all tasks, for all rules of
cascades.py, and so is the line. Then the tasks are dealt at random to repositories of the sizes that there are, so that no
repository is unlike another. How often is a cascade below the line by more than half a point in one of them? As it is, and
if it were exactly on the line over all tasks. `needed` is how far above the line a cascade would have to be, over all tasks,
to hold in 95 % of repositories.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from cascade_worlds import (
    AIMS,
    BELOW_LINE,
    BUDGETS,
    PRICES,
    VERIFIERS,
    choose_ladder,
    line_at,
    load,
    read,
    shares_for,
    shares_within,
    stopping,
)

from sage.benchmarks.cascades import expected_of
from sage.files import write_json
from sage.outcomes.table import OutcomeTable
from sage.rl.cascades.simulated_verifier import SimulatedVerifier

DEALS = 2_000
Cascade = tuple[np.ndarray, np.ndarray]  # [tasks] quality and cost


def cascades_that_know(folder: Path, verifier: SimulatedVerifier) -> list[Cascade]:
    """The best cascade of every rule."""
    table = load(folder)
    best = table.score.mean(axis=0).argmax()
    usual, limit = (float(values[:, best].mean()) for values in (table.score, table.cost_usd))
    pool = table.with_models(
        tuple(sorted(choose_ladder(None, verifier.true_positive, verifier.false_positive, folder)))
    )
    every = [expected_of(pool, stopping(pool, verifier, price), verifier) for price in PRICES]
    quality, cost = np.stack([one.quality for one in every]), np.stack([one.cost for one in every])
    curve = list(zip(quality.mean(axis=1).tolist(), cost.mean(axis=1).tolist(), strict=True))
    rules = [shares_for(curve, aim * usual) for aim in AIMS] + [shares_within(curve, b * limit) for b in BUDGETS]
    return [(shares @ quality, shares @ cost) for shares in rules]


def over_line(table: OutcomeTable, tasks: np.ndarray, cascades: list[Cascade]) -> np.ndarray:
    """[cascades] quality above the mixture that costs the same on these tasks."""
    part = table.select(tasks)
    return np.array([q[tasks].mean() - line_at(table, part, float(c[tasks].mean())) for q, c in cascades])


def dealt_tasks(table: OutcomeTable, cascades: list[Cascade]) -> dict:
    _, sizes = np.unique(table.category, return_counts=True)
    sizes = np.sort(sizes)
    rng, ends = np.random.default_rng(0), np.cumsum(sizes)[:-1]
    deals = [np.split(rng.permutation(len(table)), ends) for _ in range(DEALS)]
    found = np.array([[over_line(table, part, cascades) for part in deal] for deal in deals])
    truth = over_line(table, np.arange(len(table)), cascades)
    rows = {}
    for k, size in enumerate(sizes.tolist()):
        by_chance = found[:, k] - truth
        rows[str(size)] = {
            "deviation": float(by_chance.std(axis=0).mean()),
            "below": float((found[:, k] < -BELOW_LINE).mean()),
            "below_if_on_the_line": float((by_chance < -BELOW_LINE).mean()),
            "needed": float((-np.quantile(by_chance, 0.05, axis=0)).mean() - BELOW_LINE),
        }
    worst = found.min(axis=(1, 2))
    return {
        "cascades": len(cascades),
        "over_line": [float(truth.min()), float(truth.max())],
        "repositories_of": rows,
        "deals_in_which_all_hold": float((worst >= -BELOW_LINE).mean()),
        "worst_over_line": {f"{share:g}": float(np.quantile(worst, share)) for share in (0.01, 0.05, 0.5)},
    }


def line_by_chance(folder: Path, out: Path) -> dict:
    path = out / "line_by_chance.json"
    if not path.is_file():
        found: dict = {"deals": DEALS, "by_chance": {}}
        for rates in dict.fromkeys(verifier[:2] for verifier in VERIFIERS):
            same = [SimulatedVerifier(*verifier) for verifier in VERIFIERS if verifier[:2] == rates]
            cascades = [cascade for verifier in same for cascade in cascades_that_know(folder, verifier)]
            found["by_chance"]["/".join(f"{100 * rate:g}" for rate in rates)] = dealt_tasks(load(folder), cascades)
        write_json(path, found)
    for rates, cell in read(path)["by_chance"].items():
        print(path.stem, rates, {name: value for name, value in cell.items() if name != "cascades"}, flush=True)
    return read(path)
