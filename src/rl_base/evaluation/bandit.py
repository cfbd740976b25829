"""Off-policy estimators for one-step decisions; the weight of a row is target over behaviour probability."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from rl_base.evaluation.estimate import Estimate, ratio_estimate
from rl_base.evaluation.logs import BanditLog, check_target
from rl_base.evaluation.unseen import Unseen

NUM_THRESHOLDS = 21


def importance_ratios(log: BanditLog, target: np.ndarray) -> np.ndarray:
    """Returns ratios [n, actions] of the probabilities in `target` [n, actions] to the log's.

    A ratio is 0 where the target's probability is 0, else infinite where the log's is 0 or unknown. If actions are
    tried besides the drawn one, the divisor is the expected number of tries of an action. Raises ValueError if a reward
    of such a try is missing or `target` is no distribution.
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
    """Returns the mean over rows of the probability that `target` [n, actions] puts on unsupported actions.

    Those are the actions whose propensity in the log is 0 or unknown.
    """
    return float((target * np.isinf(importance_ratios(log, target))).sum(axis=1).mean())


def largest_ratio(ratios: np.ndarray) -> float:
    """Returns the largest finite entry of the ratios [n, actions]; actions that were not drawn count, too."""
    return float(ratios[np.isfinite(ratios)].max())


def inverse_propensity(log: BanditLog, target: np.ndarray) -> Estimate:
    """Estimates a policy's expected reward by the mean of rewards times ratios: unbiased if actions are supported.

    `target` [n, actions] are the policy's probabilities, a ratio is one of them over the log's. Actions that the log
    never takes widen the bias bound.
    """
    ratios = importance_ratios(log, target)
    low, high = log.reward_bounds
    largest = largest_ratio(ratios) * len(log.tries)
    span = max(high * largest, 0.0) - min(low * largest, 0.0) if log.reward_range else None
    bias = unsupported_mass(log, target) * max(abs(low), abs(high))
    total, weights = weighted_rewards(log, ratios)
    ones = np.ones_like(weights)
    return ratio_estimate("IPS", total, ones, log.cluster_index, bias_bound=bias, span=span)


def self_normalized(log: BanditLog, target: np.ndarray) -> Estimate:
    """Estimates a policy's expected reward by the weighted mean of logged rewards, which stays within their range.

    The weights are the policy's probabilities, `target` [n, actions], over the log's. A constant added to the rewards
    shifts the estimate by as much.
    """
    total, weights = weighted_rewards(log, importance_ratios(log, target))
    low, high = log.reward_bounds
    bias = unsupported_mass(log, target) * (high - low)
    return ratio_estimate("SNIPS", total, weights, log.cluster_index, bias_bound=bias)


def weighted_rewards(log: BanditLog, ratios: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns two arrays [n]: each row's sum over its tries of rewards times ratios, and its sum of ratios."""
    weights = [tries.of(ratios) for tries in log.tries]
    rewards = [tries.rewards for tries in log.tries]
    return np.sum(np.multiply(weights, rewards), axis=0), np.sum(weights, axis=0)


def direct_method(log: BanditLog, target: np.ndarray, predictions: np.ndarray) -> Estimate:
    """Estimates a policy's expected reward by the mean predicted reward of its actions, from a reward model alone.

    `target` and `predictions` [n, actions] are the policy's probabilities and the model's rewards. The bias bound is
    the rewards' whole range, because no spread in the data shows the model's error.
    """
    return switch_at(log, target, predictions, [0.0], name="direct method")[0]


def doubly_robust(log: BanditLog, target: np.ndarray, predictions: np.ndarray) -> Estimate:
    """Estimates a policy's expected reward by predicted rewards plus the log's residuals, weighted by ratios.

    `target` and `predictions` [n, actions] are the policy's probabilities and a model's rewards. Unbiased if the
    propensities or the predictions are right.
    """
    found = switch_at(log, target, predictions, [math.inf], name="doubly robust")[0]
    return replace(found, unseen=unseen_rewards(log, target, predictions))


def switch_doubly_robust(
    log: BanditLog, target: np.ndarray, predictions: np.ndarray, *, threshold: float | None = None
) -> Estimate:
    """Estimates doubly robustly where ratios are at most a threshold, by the model elsewhere (arXiv:1612.01205).

    `target` and `predictions` [n, actions] are the policy's probabilities and the model's rewards. Without a threshold,
    the one is used that minimises the estimated variance plus the square of the bias bound.
    """
    cuts = thresholds(log, target) if threshold is None else np.array([threshold])
    candidates = switch_at(log, target, predictions, cuts, name="SWITCH-DR")
    errors = [estimate.standard_error**2 + estimate.bias_bound**2 for estimate in candidates]
    best = int(np.argmin(errors))
    return replace(candidates[best], unseen=unseen_rewards(log, target, predictions, threshold=cuts[best]))


def unseen_rewards(
    log: BanditLog, target: np.ndarray, predictions: np.ndarray, *, threshold: float = math.inf
) -> Unseen | None:
    """Returns the terms that tries with the least and largest reward would add; None without a `reward_range`.

    A term [n, actions] is a ratio times (reward - prediction); `target` and `predictions` are [n, actions]. Ratios
    above `threshold` count as 0, and so do actions whose reward is known whatever is drawn.
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
    """Returns the thresholds that SWITCH tries: 21 from the 5 % to the 95 % quantile of ratios, and infinity.

    Ratios are those above 0 of logged tries to `target` [n, actions]; the 21 are spaced evenly in the exponent. Without
    such ratios, infinity is the only one.
    """
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
    """Returns one estimate, called `name`, for each threshold in `cuts`: predictions plus residuals weighted by ratios.

    Ratios above the threshold count as 0. `target` and `predictions` [n, actions] are probabilities and a model's
    rewards.
    """
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
    """Returns the predictions [n, actions] as floats, clipped to the log's `reward_range` if it has one.

    Raises ValueError if the shape is another or a number is not finite.
    """
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
