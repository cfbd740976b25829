import math

import numpy as np
import pytest

from sage.policies.gains import GroupGains, between_variance, chance_not_worse, group_gains, shrink


def test_means_and_variances_are_by_task():
    gain = np.array([[1.0], [1.0], [0.0], [4.0]])
    tasks = np.array(["a", "a", "b", "c"])
    found = group_gains(gain, np.array([0, 0, 0, 1]), 2, tasks)
    np.testing.assert_allclose(found.mean[:, 0], [2 / 3, 4.0])
    np.testing.assert_array_equal(found.rows[:, 0], [3, 1])
    # Centred sums of group 0: 2/3 (task a) and -2/3 (task b), whose squares add up to 8/9; group 1 has one task, no spread.
    own = 8 / 9 / 3**2 * 2 / (2 - 1)  # over rows squared, tasks / (tasks - 1)
    pooled = 8 / 9 / 4 * 3 / 1  # per row of both groups; three tasks, one degree of freedom
    assert own / 2 < pooled / 3
    np.testing.assert_allclose(found.variance[:, 0], [pooled / 3, pooled / 1])
    alone = group_gains(gain[:3], np.zeros(3, np.int64), 1, tasks[:3])
    assert alone.variance[0, 0] == pytest.approx(own)  # all groups together are this one


def test_a_group_that_varies_more_than_the_others_keeps_half_of_its_own_variance():
    gain = np.concatenate([[-1.0, 1.0], np.zeros(100)])[:, None]
    found = group_gains(gain, np.repeat([0, 1], [2, 100]), 2, np.arange(102))
    assert found.variance[0, 0] == pytest.approx(2 / 2**2 * 2 / 1 / 2)


def test_copied_rows_of_a_task_do_not_make_the_variance_smaller():
    rng = np.random.default_rng(0)
    gain, tasks, group = rng.normal(size=(50, 1)), np.arange(50), np.zeros(50, np.int64)
    once = group_gains(gain, group, 1, tasks)
    thrice = group_gains(np.repeat(gain, 3, axis=0), np.zeros(150, np.int64), 1, np.repeat(tasks, 3))
    np.testing.assert_allclose(thrice.variance, once.variance)


def test_a_group_in_which_nothing_was_seen_to_vary_borrows_the_spread_of_the_others():
    rng = np.random.default_rng(0)
    gain = np.concatenate([rng.normal(size=200), np.zeros(10)])[:, None]
    found = group_gains(gain, np.repeat([0, 1], [200, 10]), 2, np.arange(210))
    assert found.variance[1, 0] == pytest.approx(found.variance[0, 0] * 20, rel=0.1)


def test_a_model_that_was_hardly_tried_borrows_the_spread_of_the_others():
    gain = np.full((100, 2), np.nan)
    gain[:, 0] = np.random.default_rng(0).normal(size=100)
    gain[:3, 1] = 0.5  # three lucky rows without any spread
    found = group_gains(gain, np.zeros(100, np.int64), 1, np.arange(100))
    of_one_row = found.variance[0, 0] * 100
    assert found.variance[0, 1] == pytest.approx(10 / 12 * of_one_row * 99 / 101 / 3, rel=0.05)


def test_what_is_not_known_stays_unknown():
    gain = np.array([[np.nan, 1.0], [np.nan, 2.0], [np.nan, 5.0]])
    found = shrink(group_gains(gain, np.zeros(3, np.int64), 1, np.arange(3)))
    assert np.isnan(found.mean[0, 0])
    assert np.isnan(found.deviation[0, 0])
    assert found.mean[0, 1] == pytest.approx(8 / 3)


def test_groups_that_do_not_differ_are_pooled():
    mean, variance = np.array([[0.1], [0.2], [0.15]]), np.full((3, 1), 0.01)
    found = shrink(GroupGains(mean, variance, np.full((3, 1), 100.0)))
    np.testing.assert_allclose(found.mean, 0.15)
    np.testing.assert_allclose(found.deviation, math.sqrt(0.01 / 3))


def test_groups_that_differ_a_lot_keep_their_own_means():
    mean, variance = np.array([[-1.0], [0.0], [1.0]]), np.full((3, 1), 1e-6)
    found = shrink(GroupGains(mean, variance, np.full((3, 1), 100.0)))
    np.testing.assert_allclose(found.mean, mean, atol=1e-5)
    np.testing.assert_allclose(found.deviation, 1e-3, rtol=1e-3)
    assert found.new_deviation[0] == pytest.approx(math.sqrt(1 + 1 / 3), rel=1e-3)  # what a new group may be like


def test_spread_between_groups_solves_paule_and_mandel():
    rng = np.random.default_rng(1)
    variance = rng.uniform(0.01, 0.05, size=(8, 2))
    mean = rng.normal(scale=0.5, size=(8, 2))
    between = between_variance(mean, variance, np.ones((8, 2), bool))
    weights = 1 / (variance + between)
    centre = (weights * mean).sum(axis=0) / weights.sum(axis=0)
    assert (weights * (mean - centre) ** 2).sum() == pytest.approx(16 - 2, rel=1e-6)
    assert between > 0


def test_shrunk_means_are_closer_to_the_truth():
    rng = np.random.default_rng(2)
    truth = rng.normal(scale=0.1, size=(200, 1))
    seen = truth + rng.normal(scale=0.2, size=truth.shape)
    found = shrink(GroupGains(seen, np.full(truth.shape, 0.04), np.ones(truth.shape)))
    assert ((found.mean - truth) ** 2).mean() < 0.3 * ((seen - truth) ** 2).mean()
    standard = (found.mean - truth) / found.deviation
    assert 0.85 < standard.std() < 1.15


def test_two_groups_say_nothing_about_a_third():
    found = shrink(GroupGains(np.array([[0.5], [0.5]]), np.full((2, 1), 1e-4), np.ones((2, 1))))
    assert found.new_deviation[0] == math.inf


@pytest.mark.parametrize(
    ("mean", "deviation", "chance"),
    [(0.0, 1.0, 0.5), (1.96, 1.0, 0.975), (0.1, 0.0, 1.0), (-0.1, 0.0, 0.0), (1.0, math.inf, 0.5)],
)
def test_chance_of_no_loss(mean, deviation, chance):
    assert chance_not_worse(np.array([mean]), np.array([deviation]))[0] == pytest.approx(chance, abs=1e-3)
