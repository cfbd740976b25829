"""An analysis of rewards: their distribution, their correlations, and how the best choice depends on the weights."""

from __future__ import annotations

from dataclasses import asdict, replace

import numpy as np

from sage.evidence.reward import REWARD_V1, RewardWeights
from sage.evidence.routing_data import RoutingData
from sage.evidence.shadows import none_if_nan

QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
FACTORS = (0.0, 0.5, 1.0, 2.0, 5.0)
PARTS = ("quality", "cost_usd", "latency_s", "retries", "timed_out")
PRIOR_ROWS = 20.0  # a category's estimate is trusted like this many rows of the model's overall one


def analyze_rewards(data: RoutingData, weights: RewardWeights = REWARD_V1) -> dict:
    """Returns a report for JSON; its `sensitivity` compares the best model per category under other weights."""
    used = data.measured(weights)
    reward = data.reward(weights)
    return {
        "reward_version": used.version,
        "weights": asdict(used),
        "data_source": data.source,
        "evidence": data.source != "synthetic",
        "data_sha256": data.sha256,
        "rows": len(data),
        "distribution": distribution(reward),
        "correlation": {part: correlation(reward, getattr(data, part)) for part in PARTS},
        "models": {
            model: {"rows": int((data.action == k).sum()), "value": none_if_nan(value)}
            for k, (model, value) in enumerate(zip(data.models, model_values(data, reward), strict=True))
        },
        "sensitivity": sensitivity(data, weights),
    }


def distribution(reward: np.ndarray) -> dict:
    counts, edges = np.histogram(reward, bins=20)
    return {
        "mean": float(reward.mean()),
        "standard_deviation": float(reward.std()),
        "quantiles": {f"{q:g}": float(np.quantile(reward, q)) for q in QUANTILES},
        "histogram": {"edges": edges.tolist(), "counts": counts.tolist()},
    }


def correlation(reward: np.ndarray, part: np.ndarray) -> float | None:
    """Returns Pearson's correlation of rewards [n] with a part [n], over the rows that have the part.

    Returns None if either side does not vary.
    """
    measured = ~np.isnan(part.astype(float))
    reward, part = reward[measured], part[measured].astype(float)
    if len(reward) < 2 or reward.std() == 0 or part.std() == 0:
        return None
    return float(np.corrcoef(reward, part)[0, 1])


def model_values(data: RoutingData, reward: np.ndarray) -> np.ndarray:
    """Returns [models]: the estimated mean reward of always choosing each model; NaN for models never chosen.

    The estimate is self-normalised importance weighting.
    """
    weight = 1 / data.propensity[np.arange(len(data)), data.action]
    total = np.bincount(data.action, weight * reward, len(data.models))
    mass = np.bincount(data.action, weight, len(data.models))
    return np.divide(total, mass, out=np.full(len(data.models), np.nan), where=mass > 0)


def best_per_category(data: RoutingData, reward: np.ndarray) -> np.ndarray:
    """Returns int [n]: for each row, the model with the best estimate in the row's category.

    Estimates of a category are shrunk to the model's overall value.
    """
    overall = model_values(data, reward)
    floor = np.where(np.isnan(overall), -np.inf, overall)
    categories, row_category = np.unique(data.contexts.category, return_inverse=True)
    weight = 1 / data.propensity[np.arange(len(data)), data.action]
    cell = (row_category, data.action)
    shape = (len(categories), len(data.models))
    total, mass, squares = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    np.add.at(total, cell, weight * reward)
    np.add.at(mass, cell, weight)
    np.add.at(squares, cell, weight**2)
    rows = np.divide(mass**2, squares, out=np.zeros(shape), where=squares > 0)  # effective
    mean = np.divide(total, mass, out=np.zeros(shape), where=mass > 0)
    shrunk = np.where(rows > 0, (rows * mean + PRIOR_ROWS * overall) / (rows + PRIOR_ROWS), floor)
    return shrunk.argmax(axis=1)[row_category]


def sensitivity(data: RoutingData, weights: RewardWeights) -> list[dict]:
    """Returns one entry per part and factor, with the part's weight multiplied by the factor.

    Each entry holds the best single model, and the share of rows whose category has another best model than before.
    """
    usual = best_per_category(data, data.reward(weights))
    found = []
    for part in ("cost", "latency", "retries", "timed_out"):
        for factor in FACTORS:
            changed = replace(weights, **{part: getattr(weights, part) * factor})
            reward = data.reward(changed)
            found.append(
                {
                    "part": part,
                    "factor": factor,
                    "best_model": data.models[int(np.nanargmax(model_values(data, reward)))],
                    "share_of_decisions_changed": float((best_per_category(data, reward) != usual).mean()),
                }
            )
    return found
