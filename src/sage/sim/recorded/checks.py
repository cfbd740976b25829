"""Posterior-predictive checks: fitted models against recorded outcomes on tasks that no fit has seen."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from sage.outcomes.table import OutcomeTable
from sage.sim.recorded.costs import LEVELS, SOLVED, cost_quantiles
from sage.sim.recorded.item_response import Curves, fit_curves
from sage.sim.recorded.tiers import ASKED

UNION_BOUND, ECE_BOUND, COST_BOUND = 0.02, 0.03, 0.10
BINS = 10
CHECKED_QUANTILES = (0.1, 0.5, 0.9)

Parts = Sequence[tuple[np.ndarray, np.ndarray]]  # rows to learn from, and rows to check on


def folds(num_tasks: int, count: int = 5, seed: int = 0) -> Parts:
    """Returns pairs of row indices, to learn from and to check on; every task is checked in one of the `count`
    pairs."""
    fold = np.random.default_rng(seed).permutation(num_tasks) % count
    return [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(count)]


def posterior_checks(table: OutcomeTable, tiers: Sequence[str], parts: Parts) -> dict:
    """Returns the checks of unions of two models, of calibration and of costs, each with its bound and whether it
    holds."""
    fits = [fit_curves(table.score[learned]) for learned, _ in parts]
    columns = [table.models.index(name) for name in tiers]
    return {
        "tasks": sum(len(rows) for _, rows in parts),
        "fits": len(parts),
        "unions": unions(table.score, fits, parts, columns),
        "calibration": calibration(table.score, fits, parts),
        "costs": costs(table, columns[: len(ASKED)], parts),
    }


def unions(score: np.ndarray, fits: Sequence[Curves], parts: Parts, tiers: Sequence[int]) -> dict:
    """Returns errors of the predicted share of tasks that at least one of two models solves, over all pairs of models,
    on the tasks where both ran."""
    tier_pairs = set(combinations(sorted(set(tiers)), 2))
    errors, coins, of_tiers = [], [], []
    for i, j in combinations(range(score.shape[1]), 2):
        predicted, seen, independent = [], [], []
        for curves, (learned, rows) in zip(fits, parts, strict=True):
            pair = score[rows][:, [i, j]]
            pair = pair[~np.isnan(pair).any(axis=1)]
            fail = 1 - curves.probability()[:, [i, j]]
            predicted += [1 - curves.weight @ fail.prod(axis=1)] * len(pair)
            seen += list(1 - (1 - pair).prod(axis=1))
            independent += [1 - (1 - np.nanmean(score[learned][:, [i, j]], axis=0)).prod()] * len(pair)
        if seen:
            errors.append(np.mean(predicted) - np.mean(seen))
            coins.append(np.mean(independent) - np.mean(seen))
            of_tiers.append((i, j) in tier_pairs)
    error, tier_error = np.array(errors), np.array(errors)[of_tiers]
    return {
        "pairs": len(error),
        "mean_error": rounded(error.mean()),
        "largest_error": rounded(abs(error).max()),
        "share_within_bound": rounded((abs(error) <= UNION_BOUND).mean()),
        "largest_error_of_tiers": rounded(abs(tier_error).max()),
        "bound": UNION_BOUND,
        "holds": bool((abs(tier_error) <= UNION_BOUND).all()),
        "independent_coins": {"mean_error": rounded(np.mean(coins)), "largest_error": rounded(np.abs(coins).max())},
    }


def calibration(score: np.ndarray, fits: Sequence[Curves], parts: Parts) -> dict:
    """Returns the calibration error and log loss of all outcomes, each predicted from the other models' outcomes on its
    task."""
    predicted, seen = [], []
    for curves, (_, rows) in zip(fits, parts, strict=True):
        chance = curves.probability()
        for model in range(score.shape[1]):
            ran = rows[~np.isnan(score[rows, model])]
            others = score[ran].copy()
            others[:, model] = np.nan
            predicted.append(curves.posterior(others) @ chance[:, model])
            seen.append(score[ran, model])
    expected, found = np.concatenate(predicted), np.concatenate(seen)
    bins = np.minimum((expected * BINS).astype(int), BINS - 1)
    gaps = [abs((expected - found)[bins == b].sum()) for b in range(BINS)]
    error = sum(gaps) / len(found)
    loss = -(found * np.log(expected) + (1 - found) * np.log1p(-expected)).mean()
    return {"ece": rounded(error), "bound": ECE_BOUND, "holds": bool(error < ECE_BOUND), "log_loss": rounded(loss)}


def costs(table: OutcomeTable, columns: Sequence[int], parts: Parts) -> dict:
    """Returns relative errors of cost quantiles by model and outcome: means of the fits' quantiles against the recorded
    ones."""
    errors: dict[str, float] = {}
    places = [int(np.abs(LEVELS - level).argmin()) for level in CHECKED_QUANTILES]
    for role, k in zip(ASKED, columns, strict=True):
        for solved, outcome in ((False, "failed"), (True, "solved")):
            predicted, seen = [], []
            for learned, rows in parts:
                known = rows[~np.isnan(table.cost_usd[rows, k]) & ((table.score[rows, k] >= SOLVED) == solved)]
                found = cost_quantiles(table.score[learned, k], table.cost_usd[learned, k], solved=solved)
                predicted += [found[places]] * len(known)
                seen += list(table.cost_usd[known, k])
            if seen:
                recorded = np.quantile(seen, CHECKED_QUANTILES)
                relative = np.mean(predicted, axis=0) / recorded - 1
                names = [f"{role}, {outcome}, {level:.0%}" for level in CHECKED_QUANTILES]
                errors |= dict(zip(names, map(rounded, relative), strict=True))
    worst = max(errors, key=lambda name: abs(errors[name]))
    within = np.abs(list(errors.values())) <= COST_BOUND
    return {
        "largest_error": abs(errors[worst]),
        "where": worst,
        "share_within_bound": rounded(within.mean()),
        "bound": COST_BOUND,
        "holds": bool(within.all()),
        "errors": errors,
    }


def rounded(value: float | np.floating) -> float:
    return round(float(value), 4)
