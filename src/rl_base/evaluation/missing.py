"""Decisions whose reward was never seen: what any value of it could change, and whether gaps look like chance."""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import NormalDist

import numpy as np

from rl_base.evaluation.bandit import doubly_robust
from rl_base.evaluation.estimate import Estimate, paired_difference
from rl_base.evaluation.intervals import Interval, Method, interval
from rl_base.evaluation.logs import BanditLog, EpisodeLog, Tries
from rl_base.evaluation.sequential import sequential_doubly_robust, step_ratios


def worst_case_interval(
    log: BanditLog,
    candidate: np.ndarray,
    baseline: np.ndarray,
    predictions: np.ndarray,
    missing: np.ndarray,
    *,
    absent: np.ndarray | None = None,
    level: float = 0.95,
    method: Method = "t",
) -> Interval:
    """Returns an interval of candidate minus baseline, doubly robust, that holds whatever the missing rewards were.

    `candidate` and `baseline` [n, actions] are probabilities. At the low end every missing reward is the end of the
    reward range that makes the difference smaller; at the high end the other one (Manski's bounds). `missing` is bool
    [n]; `predictions` [n, actions] must come from a model fitted without those rows (`cross_fit(rows=~missing)`).
    `absent` [m] are the weights of whole rows that are not in the log (`add_absent`). Raises ValueError if the log has no
    `reward_range`.
    """
    least, most = worst_case_estimates(log, candidate, baseline, predictions, missing, absent)
    ends = [interval(end, method=method, level=level) for end in (least, most)]
    return Interval(ends[0].low, ends[1].high, level, method)


def worst_case_estimates(
    log: BanditLog,
    candidate: np.ndarray,
    baseline: np.ndarray | None,
    predictions: np.ndarray,
    missing: np.ndarray,
    absent: np.ndarray | None = None,
) -> tuple[Estimate, Estimate]:
    """Returns two estimates of candidate minus baseline: with missing rewards at their worst and at their best.

    `missing` is bool [n]; probabilities and `predictions` are [n, actions]; `absent` [m] are weights of rows that are not
    in the log (`add_absent`). Without a baseline, the estimates are of the candidate's own value. Raises ValueError if
    the log has no `reward_range`.
    """
    if log.reward_range is None:
        raise ValueError("missing rewards have bounds only in a log with a reward_range: state what a reward can be")
    least, most = log.reward_range
    speaks = [helps(tries, candidate, baseline) for tries in log.tries]
    worst, best = (
        difference(
            with_rewards(log, missing, *(np.where(good, low, high) for good in speaks)),
            candidate,
            baseline,
            predictions,
        )
        for low, high in ((least, most), (most, least))
    )
    if absent is None or not len(absent):
        return worst, best
    span = (most - least) * absent
    ends = (-span, span) if baseline is not None else (most - span, least + span)
    return add_absent(worst, log.cluster_index, ends[0]), add_absent(best, log.cluster_index, ends[1])


def add_absent(estimate: Estimate, clusters: np.ndarray, terms: np.ndarray) -> Estimate:
    """Returns the estimate of a log's rows and of rows that it lacks, each a cluster of its own with the given term.

    `clusters` [n] are the numbers of the log's clusters, `terms` [m] what the rows add to the sum over all rows.

    A row with a try of probability p adds at least -(range of rewards) / p to the sum of a paired difference, whatever
    the policies, the prediction and the reward. The term is `d @ q + d[a] / p * (r - q[a])`: q is the prediction, r the
    reward, and d the difference of the policies. To the value of one policy it adds at least `high - range / p`.
    """
    own = np.bincount(clusters)
    sums = estimate.influence * (len(clusters) / len(own)) + estimate.value * own
    sums, sizes = np.concatenate([sums, terms]), np.concatenate([own, np.ones(len(terms), np.int64)])
    value = float(sums.sum()) / (len(clusters) + len(terms))
    influence = (sums - value * sizes) * (len(sizes) / (len(clusters) + len(terms)))
    return replace(estimate, value=value, influence=influence)


def helps(tries: Tries, candidate: np.ndarray, baseline: np.ndarray | None) -> np.ndarray:
    """Returns a bool [n]: True where `candidate` [n, actions] is likelier than the baseline to take the tried action.

    Without a baseline, any probability above 0 counts.
    """
    return tries.of(candidate) > (0.0 if baseline is None else tries.of(baseline))


def with_rewards(log: BanditLog, missing: np.ndarray, drawn: np.ndarray, beside: np.ndarray | None = None) -> BanditLog:
    """Returns a copy of the log with `drawn` [n] for the rewards in `missing` (bool [n]).

    `beside` [n] stands for NaN in `beside_rewards`; without it, those stay as they are.
    """
    filled = replace(log, rewards=np.where(missing, drawn, log.rewards))
    if beside is None or log.beside_rewards is None:
        return filled
    return replace(filled, beside_rewards=np.where(np.isnan(log.beside_rewards), beside, log.beside_rewards))


def fill_missing(log: BanditLog, missing: np.ndarray, predictions: np.ndarray) -> BanditLog:
    """Returns a copy of the log with predictions in place of rewards that were not seen.

    Those are rows in `missing` (bool [n]) and NaN in `beside_rewards`. `predictions` are [n, actions], and are clipped
    to the range of rewards.
    """
    return with_rewards(log, missing, *(tries.of(predictions).clip(*log.reward_bounds) for tries in log.tries))


def difference(log: BanditLog, candidate: np.ndarray, baseline: np.ndarray | None, predictions: np.ndarray) -> Estimate:
    """Returns the doubly robust estimate of candidate minus baseline, or of the candidate if there is no baseline.

    All three arrays are [n, actions]: probabilities, and a model's rewards.
    """
    ours = doubly_robust(log, candidate, predictions)
    return ours if baseline is None else paired_difference(ours, doubly_robust(log, baseline, predictions))


def worst_case_episodes(
    log: EpisodeLog,
    candidate: np.ndarray,
    baseline: np.ndarray,
    values: tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]],
    missing: np.ndarray,
    reward_range: tuple[float, float],
    *,
    level: float = 0.95,
    method: Method = "t",
) -> Interval:
    """Returns an interval of candidate minus baseline on episodes that holds for any missing rewards in `reward_range`.

    `candidate` and `baseline` [n] are probabilities of the actions taken, `values` the Q and V of each policy, fitted
    without the rows in `missing` (bool [n]). What would have followed a broken-off episode counts as a part of its last
    reward.
    """
    ratios = [step_ratios(log, target).cumprod(axis=1) for target in (candidate, baseline)]
    ours, theirs = (cumulative[log.episodes, log.times] for cumulative in ratios)
    helps = ours > theirs
    ends = []
    for if_helps, if_not in (reward_range, reward_range[::-1]):
        filled = replace(log, rewards=np.where(missing, np.where(helps, if_helps, if_not), log.rewards))
        estimates = [
            sequential_doubly_robust(filled, target, *of)
            for target, of in zip((candidate, baseline), values, strict=True)
        ]
        ends.append(interval(paired_difference(*estimates), method=method, level=level))
    return Interval(ends[0].low, ends[1].high, level, method)


def too_few_p_values(log: BanditLog) -> np.ndarray:
    """Returns [actions] the chance of at most so many tries of each action, if decisions are drawn by the propensities.

    By the normal approximation; a small chance says that tries are missing from the log.
    """
    tried = sum(np.bincount(tries.actions, tries.made, log.propensities.shape[1]) for tries in log.tries)
    chances = log.chances.clip(max=1.0)
    return normal_tail(chances.sum(axis=0) - tried, (chances * (1 - chances)).sum(axis=0))


def missing_rate_p_values(actions: np.ndarray, missing: np.ndarray, num_actions: int) -> np.ndarray:
    """Returns [actions] p-values of the gap between an action's share of missing rewards and the other actions' share.

    `actions` [n] are the drawn ones, `missing` is bool [n]; the tests are two-sided, by the normal approximation.
    """
    count = np.bincount(actions, minlength=num_actions)
    gaps = np.bincount(actions, missing, num_actions)
    rate, others = missing.mean(), len(actions) - count
    away = np.abs(
        gaps * others - (missing.sum() - gaps) * count
    )  # the difference of the two rates, over a common denominator
    return np.minimum(2 * normal_tail(away, rate * (1 - rate) * count * others * len(actions)), 1.0)


def normal_tail(distance: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """Returns the normal chance of exceeding the mean by each `distance`, given its `variance`, of the same shape.

    Without variance, 1 for distances up to 0 and 0 above.
    """
    pairs = zip(distance, variance, strict=True)
    return np.array([NormalDist().cdf(-d / math.sqrt(v)) if v > 0 else float(d <= 0) for d, v in pairs])
