from dataclasses import replace
from itertools import product
from statistics import NormalDist

import numpy as np
import pytest

from rl_base.evaluation import (
    BanditLog,
    EpisodeLog,
    cross_fit,
    doubly_robust,
    interval,
    paired_difference,
    sequential_doubly_robust,
    worst_case_episodes,
    worst_case_interval,
)
from rl_base.evaluation.missing import missing_rate_p_values, too_few_p_values, worst_case_estimates


def made(rows=40, seed=0):
    rng = np.random.default_rng(seed)
    propensities = rng.dirichlet(np.ones(3), size=rows)
    actions = (rng.random(rows)[:, None] > propensities.cumsum(axis=1)).sum(axis=1)
    log = BanditLog(
        actions=actions, rewards=rng.random(rows), propensities=propensities, reward_range=(-0.5, 1.0), clusters=None
    )
    candidate, baseline = rng.dirichlet(np.ones(3), size=rows), rng.dirichlet(np.ones(3), size=rows)
    return log, candidate, baseline, rng.random((rows, 3))


def difference(log, candidate, baseline, predictions):
    return paired_difference(doubly_robust(log, candidate, predictions), doubly_robust(log, baseline, predictions))


@pytest.mark.parametrize("seed", range(5))
def test_no_rewards_that_could_have_been_give_less_or_more(seed):
    log, candidate, baseline, predictions = made(seed=seed)
    missing = np.zeros(40, bool)
    missing[[1, 4, 7, 20, 33]] = True
    found = worst_case_interval(log, candidate, baseline, predictions, missing)
    estimates = []
    for ends in product((-0.5, 1.0), repeat=5):
        rewards = log.rewards.copy()
        rewards[missing] = ends
        estimates.append(difference(replace(log, rewards=rewards), candidate, baseline, predictions))
    lowest, highest = min(estimates, key=lambda e: e.value), max(estimates, key=lambda e: e.value)
    assert found.low == pytest.approx(interval(lowest).low, abs=1e-12)
    assert found.high == pytest.approx(interval(highest).high, abs=1e-12)


def test_with_nothing_missing_it_is_the_doubly_robust_interval():
    log, candidate, baseline, predictions = made()
    found = worst_case_interval(log, candidate, baseline, predictions, np.zeros(40, bool), level=0.9, method="normal")
    assert found == interval(difference(log, candidate, baseline, predictions), level=0.9, method="normal")


def test_what_stands_in_a_missing_row_plays_no_part():
    log, candidate, baseline, predictions = made()
    missing = np.arange(40) % 7 == 0
    other = replace(log, rewards=np.where(missing, 0.123, log.rewards))
    args = (candidate, baseline, predictions, missing)
    assert worst_case_interval(log, *args) == worst_case_interval(other, *args)
    np.testing.assert_array_equal(cross_fit(log, rows=~missing), cross_fit(other, rows=~missing))
    assert (cross_fit(log) != cross_fit(other)).any()


def test_without_a_range_there_are_no_bounds():
    log, candidate, baseline, predictions = made()
    with pytest.raises(ValueError, match="reward_range"):
        worst_case_interval(replace(log, reward_range=None), candidate, baseline, predictions, np.ones(40, bool))


def test_too_few_rows_of_an_action_by_hand():
    propensities = np.tile([0.1, 0.9], (1000, 1))
    log = BanditLog(actions=np.arange(1000) >= 70, rewards=np.zeros(1000), propensities=propensities)
    tail = NormalDist().cdf(-30 / 90**0.5)  # 70 where 100 are expected, with a variance of 1000 x .1 x .9
    np.testing.assert_allclose(too_few_p_values(log), [tail, 1 - tail], rtol=1e-9)
    sure = BanditLog(actions=np.zeros(5), rewards=np.zeros(5), propensities=np.tile([1.0, 0.0], (5, 1)))
    assert too_few_p_values(sure).tolist() == [1.0, 1.0]


def test_missing_rates_by_hand():
    actions = np.repeat([0, 1], [200, 800])
    missing = np.r_[np.arange(200) < 20, np.arange(800) < 40]  # 10 % and 5 %
    z = 0.05 / (0.06 * 0.94 * (1 / 200 + 1 / 800)) ** 0.5
    np.testing.assert_allclose(missing_rate_p_values(actions, missing, 2), 2 * NormalDist().cdf(-z), rtol=1e-9)
    assert missing_rate_p_values(actions, np.zeros(1000, bool), 3).tolist() == [1.0, 1.0, 1.0]


def test_worst_case_of_episodes_holds_at_both_ends() -> None:
    """One step, two actions, known values: the ends are those of the differences with the missing reward at 0 and at 1."""
    log = EpisodeLog(episodes=np.arange(4), rewards=np.array([1.0, 0.0, 1.0, 0.0]), propensities=np.full(4, 0.5))
    candidate, baseline = np.array([1.0, 1.0, 0.0, 0.0]), np.array([0.0, 0.0, 1.0, 1.0])
    nothing = (np.zeros(4), np.zeros(4))
    missing = np.array([True, False, True, False])
    found = worst_case_episodes(log, candidate, baseline, (nothing, nothing), missing, (0.0, 1.0))
    ends = []
    for ours, theirs in ((0.0, 1.0), (1.0, 0.0)):
        filled = replace(log, rewards=np.array([ours, 0.0, theirs, 0.0]))
        estimates = [sequential_doubly_robust(filled, target, *nothing) for target in (candidate, baseline)]
        ends.append(interval(paired_difference(*estimates)))
    assert (found.low, found.high) == (ends[0].low, ends[1].high)


def test_no_row_that_is_not_there_could_have_added_less():
    rng = np.random.default_rng(3)
    low, high, least = -0.5, 1.0, np.inf
    for _ in range(2_000):
        chance = rng.uniform(0.1, 1.0)
        ours, theirs = rng.dirichlet(np.full(2, 0.2), size=2)
        predicted, reward = rng.choice([low, high, rng.uniform(low, high)], size=2), rng.choice([low, high])
        term = (ours - theirs) @ predicted + (ours - theirs)[0] / chance * (reward - predicted[0])
        assert term >= -(high - low) / chance - 1e-12
        least = min(least, term + (high - low) / chance)
    assert least < 1e-3  # and one comes as near


def test_absent_rows_are_rows_with_the_least_term():
    """Known answer: a log with rows whose term is the least, against the log without them and their weights."""
    log, candidate, baseline, predictions = made()
    taken = {"actions": 0, "rewards": 1.0, "propensities": [0.25, 0.75, 0.0]}  # the baseline's, and as good as can be
    longer = replace(
        log,
        **{name: np.concatenate([getattr(log, name), [value] * 3]) for name, value in taken.items()},
        clusters=np.arange(43),
    )
    own, others = (np.tile(row, (3, 1)) for row in ([0.0, 1.0, 0.0], [1.0, 0.0, 0.0]))
    wide = [
        np.concatenate(pair) for pair in ((candidate, own), (baseline, others), (predictions, np.full((3, 3), -0.5)))
    ]
    expected = interval(replace(difference(longer, *wide), unseen=None), level=0.9)
    found, best = worst_case_estimates(log, candidate, baseline, predictions, np.zeros(40, bool), np.full(3, 4.0))
    assert interval(replace(found, unseen=None), level=0.9).low == pytest.approx(expected.low, abs=1e-12)
    assert best.value - found.value == pytest.approx(2 * 3 * 1.5 * 4.0 / 43)
    same = worst_case_estimates(log, candidate, baseline, predictions, np.zeros(40, bool), np.zeros(0))
    assert same[0].value == difference(log, candidate, baseline, predictions).value


def test_sampled_rewards_are_unbiased_also_where_the_rate_changes():
    """The mean over all draws of rows, by their probabilities, is the estimate from all rewards; that of drawn rows alone is not."""
    log, candidate, baseline, predictions = made(rows=6)
    rates = np.array([0.2, 0.2, 0.5, 0.9, 1.0, 1.0])
    weighted, alone = 0.0, 0.0
    for drawn in product((False, True), repeat=4):
        sampled = np.array([*drawn, True, True])
        chance = np.where(sampled, rates, 1 - rates)[:4].prod()
        hidden = replace(log, rewards=np.where(sampled, log.rewards, 0.0), sampled=sampled, sampling_rates=rates)
        weighted += chance * difference(hidden, candidate, baseline, predictions).value
        rows = {name: getattr(log, name)[sampled] for name in ("actions", "rewards", "propensities", "clusters")}
        kept = (array[sampled] for array in (candidate, baseline, predictions))
        alone += chance * difference(BanditLog(**rows, reward_range=(-0.5, 1.0)), *kept).value
    whole = difference(log, candidate, baseline, predictions).value
    assert weighted == pytest.approx(whole, abs=1e-12)
    assert abs(alone - whole) > 0.01


def test_what_stands_in_a_row_that_was_not_sampled_plays_no_part():
    log, candidate, baseline, _ = made()
    sampled, rates = np.arange(40) % 2 == 0, np.full(40, 0.5)
    beside = {"beside_actions": np.full(40, 1), "beside_rewards": log.rewards, "seen": log.propensities + 0.1}
    found = []
    for rewards in (log.rewards, np.where(sampled, log.rewards, 0.9)):
        told = replace(log, **beside | {"beside_rewards": np.where(sampled, 0.3, rewards)}, rewards=rewards)
        drawn = replace(told, sampled=sampled, sampling_rates=rates)
        predicted = cross_fit(drawn, folds=2)
        found.append(worst_case_interval(drawn, candidate, baseline, predicted, sampled & (np.arange(40) < 8)))
        np.testing.assert_array_equal(too_few_p_values(drawn) > 0, True)
    assert found[0] == found[1]
    with pytest.raises(ValueError, match=r"sampling_rates\[0\] is 0 "):
        replace(log, sampled=sampled, sampling_rates=np.zeros(40))
    with pytest.raises(ValueError, match="belong together"):
        replace(log, sampled=sampled)
