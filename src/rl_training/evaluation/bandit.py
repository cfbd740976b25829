"""Off-policy estimators for one-step decisions; the weight of a row is target over behaviour probability."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from rl_training.evaluation.estimate import Estimate, ratio_estimate
from rl_training.evaluation.logs import BanditLog, check_target
from rl_training.evaluation.unseen import Unseen

NUM_THRESHOLDS = 21


def importance_ratios(log: BanditLog, target: np.ndarray) -> np.ndarray:
    """Returns [n, actions] target over behaviour probability; infinite where only the target has (known) mass.

    Where actions are tried besides, over how often an action is tried: each try counts with this weight, and their sum is
    unbiased.
    """
    target = check_target(log, target)
    if log.beside_rewards is not None and np.isnan(log.beside_rewards).any():
        row = int(np.isnan(log.beside_rewards).argmax())
        raise ValueError(
            f"beside_rewards[{row}] is nan, a reward that nobody saw: use `fill_missing`, or worst-case bounds"
        )
    behaviour = np.nan_to_num(log.chances, nan=0.0)
    supported = behaviour > 0
    ratios = np.divide(target, behaviour, out=np.zeros_like(target), where=supported)
    return np.where(~supported & (target > 0), math.inf, ratios)


def unsupported_mass(log: BanditLog, target: np.ndarray) -> float:
    """Returns the target's mean probability of actions without support or with unknown propensity."""
    return float((target * np.isinf(importance_ratios(log, target))).sum(axis=1).mean())


def largest_ratio(ratios: np.ndarray) -> float:
    """Returns the largest weight that any logged context could have given, whatever action was drawn."""
    return float(ratios[np.isfinite(ratios)].max())


def inverse_propensity(log: BanditLog, target: np.ndarray) -> Estimate:
    """Returns the mean of weighted rewards: unbiased where the target is supported, whatever the rewards depend on."""
    ratios = importance_ratios(log, target)
    low, high = log.reward_bounds
    largest = largest_ratio(ratios) * len(log.tries)
    span = max(high * largest, 0.0) - min(low * largest, 0.0) if log.reward_range else None
    bias = unsupported_mass(log, target) * max(abs(low), abs(high))
    total, weights = weighted_rewards(log, ratios)
    ones = np.ones_like(weights)
    return ratio_estimate("IPS", total, ones, log.cluster_index, bias_bound=bias, span=span)


def self_normalized(log: BanditLog, target: np.ndarray) -> Estimate:
    """Returns the weighted mean of the rewards: never outside their range, and unmoved by a constant added to them."""
    total, weights = weighted_rewards(log, importance_ratios(log, target))
    low, high = log.reward_bounds
    bias = unsupported_mass(log, target) * (high - low)
    return ratio_estimate("SNIPS", total, weights, log.cluster_index, bias_bound=bias)


def weighted_rewards(log: BanditLog, ratios: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns [n] the weighted rewards of all tries of a row, and the sum of their weights."""
    weights = [tries.of(ratios) for tries in log.tries]
    rewards = [tries.rewards for tries in log.tries]
    return np.sum(np.multiply(weights, rewards), axis=0), np.sum(weights, axis=0)


def direct_method(log: BanditLog, target: np.ndarray, predictions: np.ndarray) -> Estimate:
    """Returns the mean predicted reward of the target's actions.

    Its error is the model's bias, which no spread in the data shows; so the bias bound is the rewards' whole range.
    """
    return switch_at(log, target, predictions, [0.0], name="direct method")[0]


def doubly_robust(log: BanditLog, target: np.ndarray, predictions: np.ndarray) -> Estimate:
    """Returns the direct method plus the weighted residuals: unbiased if propensities or predictions are right."""
    found = switch_at(log, target, predictions, [math.inf], name="doubly robust")[0]
    return replace(found, unseen=unseen_rewards(log, target, predictions))


def switch_doubly_robust(
    log: BanditLog, target: np.ndarray, predictions: np.ndarray, *, threshold: float | None = None
) -> Estimate:
    """Estimates doubly robustly where weights are at most a threshold, by the model elsewhere (arXiv:1612.01205).

    Without one, the threshold minimises the estimated variance plus the square of the bias bound.
    """
    cuts = thresholds(log, target) if threshold is None else np.array([threshold])
    candidates = switch_at(log, target, predictions, cuts, name="SWITCH-DR")
    errors = [estimate.standard_error**2 + estimate.bias_bound**2 for estimate in candidates]
    best = int(np.argmin(errors))
    return replace(candidates[best], unseen=unseen_rewards(log, target, predictions, threshold=cuts[best]))


def unseen_rewards(
    log: BanditLog, target: np.ndarray, predictions: np.ndarray, *, threshold: float = math.inf
) -> Unseen | None:
    """Returns the weighted residuals of the least and largest possible reward; None without a `reward_range`.

    A reward that is known whatever is drawn leaves no residual.
    """
    if log.reward_range is None:
        return None
    ratios, predictions = importance_ratios(log, target), checked_predictions(log, predictions)
    weights = np.where(np.isfinite(ratios) & (ratios <= threshold), ratios, 0.0)
    if log.known_actions is not None:
        known = np.flatnonzero(log.known_actions >= 0)
        weights[known, log.known_actions[known]] = 0.0
    least, most = (weights * (end - predictions) for end in log.reward_range)
    return Unseen(least, most, np.nan_to_num(log.chances), log.cluster_index)


def thresholds(log: BanditLog, target: np.ndarray) -> np.ndarray:
    """Returns thresholds, spaced evenly in the exponent over the middle nine tenths of the weights, and infinity."""
    ratios = importance_ratios(log, target)
    weights = np.concatenate([tries.of(ratios) for tries in log.tries])
    positive = weights[weights > 0]
    if not len(positive):
        return np.array([math.inf])
    low, high = np.quantile(positive, [0.05, 0.95])
    return np.append(np.geomspace(low, high, NUM_THRESHOLDS), math.inf)


def switch_at(
    log: BanditLog, target: np.ndarray, predictions: np.ndarray, cuts: Iterable[float], *, name: str
) -> list[Estimate]:
    """Returns an estimate per threshold: the direct method plus weighted residuals where ratios are at most that."""
    ratios = importance_ratios(log, target)
    predictions = checked_predictions(log, predictions)
    parts = [(tries.of(ratios), tries.rewards - tries.of(predictions)) for tries in log.tries]
    model = (target * predictions).sum(axis=1)
    low, high = log.reward_bounds
    estimates = []
    for threshold in cuts:
        # An unsupported action has an infinite ratio and is the model's at every threshold.
        left_to_model = target[(ratios > threshold) | np.isinf(ratios)].sum() / len(target)
        largest = min(largest_ratio(ratios), threshold)
        estimates.append(
            ratio_estimate(
                name,
                model + sum(np.where(weights <= threshold, weights, 0.0) * residuals for weights, residuals in parts),
                np.ones_like(model),
                log.cluster_index,
                bias_bound=float(left_to_model) * (high - low),
                span=(high - low) * (1 + 2 * largest * len(parts)) if log.reward_range else None,
            )
        )
    return estimates


def checked_predictions(log: BanditLog, predictions: np.ndarray) -> np.ndarray:
    """Returns the model's rewards [n, actions], cut to the stated range, so that their error is bounded."""
    array = np.asarray(predictions, dtype=np.float64)
    if array.shape != log.propensities.shape:
        raise ValueError(
            f"predictions has shape {array.shape} where propensities has {log.propensities.shape}: predict the reward of "
            "every action in every logged row"
        )
    if len(bad := np.argwhere(~np.isfinite(array))):
        row, action = bad[0]
        raise ValueError(
            f"predictions[{row}, {action}] is {array[row, action]}: the reward model must give finite numbers"
        )
    return array.clip(*log.reward_range) if log.reward_range else array
