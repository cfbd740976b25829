"""Calibration of a policy's confidence: predicted gains compared with gains on tasks held out of the prediction."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from rl_base.evaluation.reward_model import assign_folds
from sage.policies.gains import chance_not_worse, group_gains

FOLDS = 5
ERRORS_BEYOND_CHANCE = 1.645  # one-sided 95 %
BIN_EDGES = (0.0, 0.5, 0.7, 0.8, 0.9, 0.95, 1.0)


class Prediction(NamedTuple):
    """The first choice in every group, and the gain over the incumbent that is predicted for it."""

    choice: np.ndarray  # int64 [groups]
    mean: np.ndarray  # [groups]; NaN where the incumbent is kept: nothing to check
    deviation: np.ndarray  # [groups]


class Checks(NamedTuple):
    """Predicted gains and the gains measured on held-out tasks, one entry per fold and group."""

    mean: np.ndarray
    deviation: np.ndarray
    seen: np.ndarray
    seen_variance: np.ndarray
    rows: np.ndarray


def cross_fitted_checks(
    predict: Callable[[np.ndarray], Prediction],
    gain: np.ndarray,
    group: np.ndarray,
    num_groups: int,
    tasks: np.ndarray,
    seed: int = 0,
) -> Checks:
    """Compares predictions with the gains of held-out tasks, in up to FOLDS folds of tasks.

    Rows have gains [n, models], a group (int [n], below `num_groups`) and a task. `predict` is called once per fold
    with a mask of the rows that it may use. Entries without a prediction or without held-out rows are left out; with
    fewer than two tasks the result is empty.
    """
    task = np.unique(tasks, return_inverse=True)[1]
    num_tasks = int(task.max()) + 1
    if num_tasks < 2:
        return Checks(*(np.zeros(0) for _ in range(5)))
    fold_of_row = assign_folds(task, min(FOLDS, num_tasks), seed)
    found = []
    for fold in range(int(fold_of_row.max()) + 1):
        held_out = fold_of_row == fold
        predicted = predict(~held_out)
        seen = group_gains(gain[held_out], group[held_out], num_groups, tasks[held_out])
        here = np.arange(num_groups)
        entries = np.stack(
            [predicted.mean, predicted.deviation, *(part[here, predicted.choice] for part in seen)], axis=1
        )
        found.append(entries[np.isfinite(entries).all(axis=1) & (entries[:, 4] > 0)])
    return Checks(*np.concatenate(found).T)


def fit_spread(checks: Checks) -> float:
    """Returns the factor, 1 or more, by which predicted deviations must grow to fit how held-out gains scatter.

    The factor exceeds 1 only if the misfit is beyond chance (one-sided 95 %); it is 1 without any checks.
    """
    if not len(checks.mean):
        return 1.0
    misses = (checks.seen - checks.mean) ** 2
    weights = checks.rows / checks.rows.sum()
    low, high = 1.0, 100.0
    for _ in range(60):
        middle = (low + high) / 2
        squares = misses / ((middle * checks.deviation) ** 2 + checks.seen_variance)
        ratio = float((weights * squares).sum())
        error = float(np.sqrt((weights**2 * (squares - ratio) ** 2).sum()))
        low, high = (middle, high) if ratio - ERRORS_BEYOND_CHANCE * error > 1 else (low, middle)
    return 1.0 if high < 1 + 1e-9 else high


def reliability(predicted: np.ndarray, happened: np.ndarray, weights: np.ndarray) -> dict:
    """Compares predicted chances [n] with the weighted share of events that happened (0 or 1), by bin of the chance.

    Returns the bins, the number of checks, and the expected calibration error (None without any checks).
    """
    total = float(weights.sum())
    bins, error = [], 0.0
    for low, high in pairwise(BIN_EDGES):
        inside = (predicted >= low) & ((predicted < high) | (high == 1.0))
        weight = float(weights[inside].sum())
        if weight == 0:
            continue
        chance = float((weights * predicted)[inside].sum()) / weight
        share = float((weights * happened)[inside].sum()) / weight
        error += weight / total * abs(chance - share)
        bins.append({"from": low, "to": high, "share": weight / total, "predicted": chance, "happened": share})
    return {"expected_calibration_error": error if bins else None, "num_checks": len(predicted), "bins": bins}


def measure_reliability(checks: Checks, spread: float) -> dict:
    """Returns the spread and the `reliability` of the predicted chances that a held-out gain is not negative.

    The noise of the held-out gain is part of each chance.
    """
    deviation = np.sqrt((spread * checks.deviation) ** 2 + checks.seen_variance)
    predicted = chance_not_worse(checks.mean, deviation)
    return {"spread": spread} | reliability(predicted, (checks.seen >= 0).astype(float), checks.rows)


def lower_bound_width(confidence: float) -> float:
    """Returns the number of standard deviations between the mean and its one-sided lower bound at this confidence.

    Raises ValueError unless `confidence` is at least 0.5 and below 1.
    """
    if not 0.5 <= confidence < 1:
        raise ValueError(f"confidence={confidence} must be at least 0.5 and below 1: it is that of a lower bound")
    return NormalDist().inv_cdf(confidence)
