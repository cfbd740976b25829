"""Off-policy estimators for episodes; `target` holds the evaluated policy's probabilities of the actions taken.

An episode that has ended keeps its last cumulative ratio and earns nothing, so episodes of any length compare.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from rl_base.evaluation.estimate import Estimate, from_row_influence, ratio_estimate
from rl_base.evaluation.logs import EpisodeLog, check_taken, checked_column
from rl_base.evaluation.unseen import Unseen


def step_ratios(log: EpisodeLog, target_probabilities: np.ndarray) -> np.ndarray:
    """Returns [episodes, longest] target over behaviour probability of each logged action; 1 after an episode's end.

    `target_probabilities` [n] are the target policy's, of the logged actions. Raises ValueError if one is negative,
    above 1 (unless densities) or not finite.
    """
    probabilities = np.asarray(target_probabilities, dtype=np.float64)
    check_taken("target", probabilities, len(log.rewards), densities=log.densities, zero_allowed=True)
    return log.padded(probabilities / log.propensities, 1.0)


def trajectory_weights(log: EpisodeLog, target_probabilities: np.ndarray) -> np.ndarray:
    """Returns [episodes] the product of each episode's ratios, the policy's over the logged probability.

    `target_probabilities` [n] are the policy's, of the logged actions.
    """
    return step_ratios(log, target_probabilities).prod(axis=1)


def returns(log: EpisodeLog) -> np.ndarray:
    """Returns [episodes] the discounted sum of each episode's logged rewards."""
    return log.padded(log.rewards, 0.0) @ log.discounts()


def trajectory_importance_sampling(log: EpisodeLog, target: np.ndarray) -> Estimate:
    """Estimates a policy's expected return by the mean of returns times whole-episode weights: unbiased.

    `target` [n] are the policy's probabilities of the logged actions. The spread grows with the episodes' length.
    """
    terms = trajectory_weights(log, target) * returns(log)
    return ratio_estimate("trajectory IS", terms, np.ones_like(terms), log.cluster_index)


def weighted_importance_sampling(log: EpisodeLog, target: np.ndarray) -> Estimate:
    """Estimates a policy's expected return by the mean of returns weighted by whole-episode weights.

    `target` [n] are the policy's probabilities of the logged actions. The value is within the range of returns seen;
    its bias vanishes with many episodes.
    """
    weights = trajectory_weights(log, target)
    return ratio_estimate("weighted IS", weights * returns(log), weights, log.cluster_index)


def per_decision_importance_sampling(log: EpisodeLog, target: np.ndarray) -> Estimate:
    """Estimates a policy's expected return, each reward weighted by the ratios up to its own step: unbiased.

    `target` [n] are the policy's probabilities of the logged actions. The spread is smaller than with whole-episode
    weights.
    """
    weights = step_ratios(log, target).cumprod(axis=1)
    terms = (weights * log.padded(log.rewards, 0.0)) @ log.discounts()
    return ratio_estimate("per-decision IS", terms, np.ones_like(terms), log.cluster_index)


def weighted_per_decision(log: EpisodeLog, target: np.ndarray) -> Estimate:
    """Estimates a policy's expected return by the sum over steps of the weighted mean reward.

    `target` [n] are the policy's probabilities of the logged actions. Weights are the ratios up to a step, with mean 1
    at every step; the value is NaN if all weights of a step are 0.
    """
    weights = step_ratios(log, target).cumprod(axis=1)
    rewards, discounts = log.padded(log.rewards, 0.0), log.discounts()
    mean_weights = weights.mean(axis=0)
    if not mean_weights.all():
        return Estimate("weighted per-decision IS", math.nan, np.full(int(log.cluster_index.max()) + 1, math.nan))
    means = (weights * rewards).mean(axis=0) / mean_weights
    influence = (weights * (rewards - means) / mean_weights) @ discounts
    return from_row_influence("weighted per-decision IS", float(means @ discounts), influence, log.cluster_index)


def fitted_value(log: EpisodeLog, state_values: np.ndarray) -> Estimate:
    """Estimates a policy's expected return by the mean of `state_values` [n] over the episodes' first states.

    They are the policy's own values; the estimate is as right as the model behind them.
    """
    first = np.flatnonzero(np.diff(log.episodes, prepend=-1))
    values = checked_column("state_values", state_values, len(log.rewards))[first]
    return ratio_estimate("fitted Q alone", values, np.ones_like(values), log.cluster_index)


def sequential_doubly_robust(
    log: EpisodeLog, target: np.ndarray, action_values: np.ndarray, state_values: np.ndarray
) -> Estimate:
    """Estimates a policy's expected return by given values plus weighted residuals (arXiv:1511.03722).

    `target` [n] are the policy's probabilities of the logged actions, `action_values` [n] its Q of these actions,
    `state_values` [n] its V of the same states. The estimate is unbiased for any values that were not fitted to the
    same episodes.
    """
    ratios = step_ratios(log, target)
    rewards = log.padded(log.rewards, 0.0)
    q = log.padded(checked_column("action_values", action_values, len(log.rewards)), 0.0)
    v = log.padded(checked_column("state_values", state_values, len(log.rewards)), 0.0)
    terms = np.zeros(len(rewards))
    for t in reversed(range(rewards.shape[1])):
        terms = v[:, t] + ratios[:, t] * (rewards[:, t] + log.gamma * terms - q[:, t])
    found = ratio_estimate("sequential DR", terms, np.ones_like(terms), log.cluster_index)
    return replace(found, unseen=unseen_ends(log, ratios, q))


def unseen_ends(log: EpisodeLog, ratios: np.ndarray, q: np.ndarray) -> Unseen | None:
    """Returns the terms [episodes] that the least and the largest last reward would add; None without a `reward_range`.

    A term is a weight times (reward - Q); `ratios` and `q` are [episodes, longest].
    """
    if log.reward_range is None:
        return None
    index, last = np.arange(len(q)), np.bincount(log.episodes) - 1
    weights = ratios.prod(axis=1) * log.discounts()[last]
    least, most = (weights * (end - q[index, last]) for end in log.reward_range)
    return Unseen(least, most, np.ones(len(q)), log.cluster_index)
