from dataclasses import replace
from itertools import product
from statistics import NormalDist

import numpy as np
import pytest

from rl_training.evaluation import (
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
from rl_training.evaluation.missing import missing_rate_p_values, too_few_p_values


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
