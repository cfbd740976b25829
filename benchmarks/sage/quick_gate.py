"""The gate on drawn logs in milliseconds: policies that choose by category make every estimate a few sums over a log.

`check` compares it with the gate itself (`sage.proof.evaluation.compare` and `sage.proof.gate.decide`); the benchmarks call it on
some of their logs, and stop if a number differs.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from gate import EPSILON, ROWS, World, draw_pair

from rl_base.evaluation import BanditLog, Estimate, interval, paired_difference
from rl_base.evaluation.diagnostics import MIN_EFFECTIVE_SAMPLE_SIZE, ROWS_PER_SQUARED_SKEWNESS, skewness
from rl_base.evaluation.missing import add_absent, normal_tail
from rl_base.evaluation.reward_model import assign_folds
from rl_base.evaluation.unseen import Unseen
from rl_base.evaluation.within_cluster import expected_residuals, variance_components
from sage.evidence.completeness import Completeness
from sage.evidence.logged_rewards import FOLDS, PRIOR_ROWS
from sage.evidence.missingness import GONE, UNUSUAL, find_gaps
from sage.evidence.tasks import basis_of
from sage.proof.evaluation import FEWEST_TASKS, LEVEL, OfflineEvaluation, compare
from sage.proof.gate import decide


class Log(NamedTuple):
    """A drawn log, with what the static table and the candidate choose in every row."""

    category: np.ndarray
    cluster: np.ndarray
    action: np.ndarray
    reward: np.ndarray
    static: np.ndarray
    candidate: np.ndarray
    gain: float  # the candidate's, in truth
    size: int  # of the pool
    bounds: tuple[float, float]

    def first(self, rows: int) -> Log:
        return Log(*(column[:rows] for column in self[:6]), *self[6:])


def draw(world: World, seed: tuple[int, ...], least: float, most: float, setting: str = "random") -> Log:
    """A candidate whose true gain is above `least` and at most `most`, and a log of the static table, as in gate.py."""
    rng = np.random.default_rng(seed)
    while True:
        static, candidate = draw_pair(world, rng, setting)
        gain = world.value(candidate) - world.value(static)
        if least < gain <= most:
            break
    num_tasks, size = world.reward.shape
    cluster = rng.integers(num_tasks, size=ROWS)
    task = rng.integers(num_tasks, size=num_tasks)[cluster]
    category = world.category[task]
    usual = static[category]
    action = np.where(rng.random(ROWS) < EPSILON, rng.integers(size, size=ROWS), usual)
    reward = world.reward[task, action]
    return Log(category, cluster, action, reward, usual, candidate[category], gain, size, world.bounds)


class Found(NamedTuple):
    """What the gate looks at."""

    estimate: Estimate  # of the gain, missing outcomes as predicted
    lowest: Estimate  # the least that it can be, whatever they were
    refused: bool  # effective sample size, skewness, hardly a task in which the policies differ
    gone: bool  # rows are not in the log

    def promoted(self, method: str = "t") -> bool:
        return not self.refused and not self.gone and self.low(method) > 0

    def low(self, method: str = "t") -> float:
        return interval(self.lowest, method=method, level=LEVEL).low


def judge(
    log: Log,
    observed: np.ndarray | None = None,
    *,
    absent: int = 0,
    sampled: np.ndarray | None = None,
    rate: float = 1.0,
) -> Found:
    """What the gate looks at, where `absent` rows were deleted from the log, or where only the outcomes of the rows in
    `sampled` are wanted, which were drawn at `rate`."""
    rest = EPSILON / log.size
    present = np.bincount(log.cluster) > 0
    cluster = (np.cumsum(present) - 1)[log.cluster]
    chance = np.where(log.action == log.static, 1 - EPSILON + rest, rest)
    everything = np.ones(len(log.action), bool)
    looked = everything if sampled is None else sampled
    chance = chance * rate
    seen = looked if observed is None else observed & looked
    plain, informed = predict(log, cluster, seen)
    filled = log._replace(reward=np.where(seen, log.reward, plain[np.arange(len(seen)), log.action]))
    tables = (gains(filled, chance, everything, table, looked=looked) for table in (plain, informed))
    if not agree(*(clustered(terms, cluster) for terms in tables)):
        informed = plain
    unseen = unseen_outcomes(log, informed, cluster, rate)
    after = lowest = clustered(gains(log, chance, seen, informed, looked=looked), cluster, unseen)
    if observed is not None:
        lowest = clustered(gains(log, chance, seen, informed, worst=True, looked=looked), cluster, unseen)
    if absent:
        span = log.bounds[1] - log.bounds[0]
        lowest = add_absent(lowest, cluster, np.full(absent, -span / (rest * rate)))
    return Found(
        after, lowest, is_refused(log, cluster, chance, looked, rate), has_gone(log, cluster, chance, looked, rate)
    )


def gains(
    log: Log,
    chance: np.ndarray,
    seen: np.ndarray,
    predictions: np.ndarray,
    *,
    worst: bool = False,
    looked: np.ndarray | None = None,
) -> np.ndarray:
    """[n] the doubly robust terms; outcomes that are not seen as predicted, or as bad for the claim as can be."""
    index = np.arange(len(log.action))
    at = predictions[index, log.action]
    helps, hurts = log.action == log.candidate, log.action == log.static
    missing = np.where(helps, log.bounds[0], log.bounds[1]) - at if worst else 0.0
    residual = np.where(seen, log.reward - at, missing)
    model = predictions[index, log.candidate] - predictions[index, log.static]
    residual = residual if looked is None else residual * looked
    return model + (helps.astype(float) - hurts) / chance * residual


def unseen_outcomes(log: Log, predictions: np.ndarray, cluster: np.ndarray, rate: float = 1.0) -> Unseen:
    """Columns are the candidate's choice and the static table's; both are empty where these are the same."""
    rest, index = EPSILON / log.size, np.arange(len(log.action))
    differs = log.candidate != log.static
    chance = np.stack([np.full(len(index), rest), np.full(len(index), 1 - EPSILON + rest)], axis=1) * rate
    weights = differs[:, None] * np.array([1.0, -1.0]) / chance
    predicted = np.stack([predictions[index, log.candidate], predictions[index, log.static]], axis=1)
    least, most = (weights * (end - predicted) for end in log.bounds)
    return Unseen(least, most, chance, cluster)


def agree(plain: Estimate, informed: Estimate) -> bool:
    """As `sage.evidence.task_evidence.predict_for_proof` asks."""
    moved = paired_difference(informed, plain)
    error = moved.standard_error
    return not error > 0 or 2 * normal_tail(np.array([abs(moved.value)]), np.array([error**2]))[0] >= UNUSUAL


def predict(log: Log, cluster: np.ndarray, seen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Two arrays [n, models] as `sage.evidence.logged_rewards.predict_rewards`, the second with earlier rows of the task."""
    num_categories, size = int(log.category.max()) + 1, log.size
    fold = assign_folds(cluster, FOLDS, 0)
    key = (fold * num_categories + log.category) * size + log.action
    shape = (FOLDS, num_categories, size)
    count = np.bincount(key, seen, math.prod(shape)).reshape(shape)
    total = np.bincount(key, seen * log.reward, math.prod(shape)).reshape(shape)
    count, total = count.sum(axis=0) - count, total.sum(axis=0) - total  # of the other folds
    overall = (total.sum(axis=(1, 2)) / count.sum(axis=(1, 2)))[:, None]
    of_model = (total.sum(axis=1) + PRIOR_ROWS * overall) / (count.sum(axis=1) + PRIOR_ROWS)
    beyond = (total - count * of_model[:, None]).sum(axis=2)
    of_cell = beyond / (count.sum(axis=2) + PRIOR_ROWS)
    expected = of_model[:, None] + of_cell[:, :, None]
    table = (total + PRIOR_ROWS * expected) / (count + PRIOR_ROWS)
    plain = table[fold, log.category]
    informed = plain.copy()
    for number in range(FOLDS):
        others, own = (fold != number) & seen, fold == number
        fitted = log.reward[others] - table[number, log.category[others], log.action[others]]
        components = variance_components(fitted, log.action[others], cluster[others], size)
        mine = np.flatnonzero(own & seen)
        residual = log.reward[mine] - table[number, log.category[mine], log.action[mine]]
        place, first = (np.cumsum(own) - 1)[mine], np.zeros(len(mine), bool)
        columns = (residual, log.action[mine], place, first, cluster[own])
        informed[own] += expected_residuals(*columns, size, components)
    return plain.clip(*log.bounds), informed.clip(*log.bounds)


def clustered(score: np.ndarray, cluster: np.ndarray, unseen: Unseen | None = None) -> Estimate:
    value, sizes = float(score.mean()), np.bincount(cluster)
    influence = np.bincount(cluster, score - value) * (len(sizes) / len(cluster))
    return Estimate("doubly robust", value, influence, unseen=unseen)


def is_refused(log: Log, cluster: np.ndarray, chance: np.ndarray, looked: np.ndarray, rate: float) -> bool:
    rows, rest = len(log.action), EPSILON / log.size
    if np.count_nonzero(np.bincount(cluster, log.candidate != log.static)) < FEWEST_TASKS:
        return True
    for policy in (log.candidate, log.static):
        ratio = 1 / (np.where(policy == log.static, 1 - EPSILON + rest, rest) * rate)
        second, third = float(ratio.mean()), float((ratio**2).mean())
        weights = np.bincount(cluster, looked * (log.action == policy) / chance)
        if not weights.any():
            return True
        size = min(weights.sum() ** 2 / (weights**2).sum(), rows / second)
        if size < MIN_EFFECTIVE_SAMPLE_SIZE or rows < ROWS_PER_SQUARED_SKEWNESS * skewness(1.0, second, third) ** 2:
            return True
    return False


def has_gone(log: Log, cluster: np.ndarray, chance: np.ndarray, looked: np.ndarray, rate: float) -> bool:
    for policy in (log.candidate, log.static):
        mean = clustered(looked * (log.action == policy) / chance, cluster)
        if 2 * normal_tail(np.array([abs(mean.value - 1)]), np.array([mean.standard_error**2]))[0] < GONE:
            return True
    usual, rest = np.bincount(log.static, minlength=log.size), EPSILON / log.size
    rest, most = rest * rate, (1 - EPSILON + rest) * rate
    expected = usual * most + (len(log.action) - usual) * rest
    variance = usual * most * (1 - most) + (len(log.action) - usual) * rest * (1 - rest)
    few = normal_tail(expected - np.bincount(log.action, looked, log.size), variance)
    return bool(few.min() < GONE / log.size)


def check(
    log: Log,
    observed: np.ndarray | None = None,
    *,
    absent: int = 0,
    sampled: np.ndarray | None = None,
    rate: float = 1.0,
) -> None:
    """The gate itself, on the same log, must say the same."""
    index, seen = np.arange(len(log.action)), np.ones(len(log.action), bool) if observed is None else observed
    propensities = np.full((len(index), log.size), EPSILON / log.size)
    propensities[index, log.static] += 1 - EPSILON
    bandit = BanditLog(
        actions=log.action,
        rewards=log.reward,
        propensities=propensities,
        features=log.category[:, None],
        clusters=log.cluster,
        reward_range=log.bounds,
        **({} if sampled is None else {"sampled": sampled, "sampling_rates": np.full(len(index), rate)}),
    )
    one_hot = np.eye(log.size)
    seen = seen if sampled is None else seen & sampled
    lacks = Completeness(checked=True, gone=absent)
    weights = lacks.weights(bandit)
    report, worst = compare(
        bandit, one_hot[log.candidate], one_hot[log.static], observed=seen, absent=weights, method="t"
    )
    found = judge(log, observed, absent=absent, sampled=sampled, rate=rate)
    models = tuple(f"model {k}" for k in range(log.size))
    texts = ("policy", "policy_version", "incumbent", "incumbent_version", "learner", "data_sha256", "reward_version")
    texts = (*texts, "method")
    numbers = ("num_rows", "left_out_rows", "floor", "differing_share", "mean_logged_reward", "seed")
    verdict = decide(
        OfflineEvaluation(
            report=report,
            missing=find_gaps(bandit, models, seen, worst),
            data_source="replay",
            acting_share=1.0,
            basis=basis_of(log.cluster, None),
            completeness=lacks,
            **dict.fromkeys(texts, ""),
            **dict.fromkeys(numbers, 0),
        )
    )
    assert report.interval is None or abs((report.value or 0) - found.estimate.value) < 1e-9
    low = None if report.interval is None else (worst or report.interval).low
    assert low is None or abs(low - found.low()) < 1e-9, (low, found.low())
    assert verdict.promote == found.promoted(), (verdict, found)
