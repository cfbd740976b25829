"""What is said of the best of many is true, because all of them are believed together."""

import numpy as np
import pytest

from sage.policies.gains import GroupGains, Posterior, chance_not_worse
from sage.rl.gain_model import gain_posterior, summarize_draws


def posterior(gain: np.ndarray, error: float, *, incumbent: int = 0, unit: float = 0.5, seed: int = 0) -> Posterior:
    """Of measured gains [groups, models] over one model; NaN: not known."""
    certain = np.zeros(gain.shape, bool)
    certain[:, incumbent] = True
    gains = GroupGains(gain, np.full(gain.shape, error**2), np.full(gain.shape, 100.0))
    usual = np.full(len(gain), incumbent)
    return gain_posterior(gains, usual, np.full(len(gain), (error / 100) ** 2), certain, unit=unit, seed=seed)


def test_moments_and_chance_of_draws():
    mean, deviation = summarize_draws(np.array([[-1.0, 1.0], [0.0, 1.0], [1.0, -5.0]]), np.array([0.25, 0.5, 0.25]))
    np.testing.assert_allclose(mean, [0.0, -0.5])
    assert deviation[0] == pytest.approx(np.sqrt(0.5))
    draws = np.array([[0.1]] * 80 + [[-0.01]] * 20)  # loses in a fifth of the draws, by little
    mean, deviation = summarize_draws(draws, np.full(100, 0.01))
    assert chance_not_worse(mean, deviation)[0] == pytest.approx(0.8, abs=1e-6)


def test_a_gain_that_stands_out_among_many_is_mostly_luck():
    rng = np.random.default_rng(0)
    gain = rng.normal(-0.05, 0.1, (6, 40))
    gain[0, 7] = 0.2  # two errors above zero: one of 240
    found = posterior(gain, 0.1)
    assert chance_not_worse(found.mean, found.deviation)[0, 7] < 0.9
    alone = posterior(np.array([[0.0, 0.2]]), 0.1)
    assert chance_not_worse(alone.mean, alone.deviation)[0, 1] > 0.85


def test_a_clear_gain_is_believed_among_many():
    rng = np.random.default_rng(1)
    gain = rng.normal(-0.05, 0.03, (6, 20))
    gain[:, 3] += 0.3
    found = posterior(gain, 0.03)
    assert (chance_not_worse(found.mean, found.deviation)[:, 3] > 0.99).all()
    np.testing.assert_allclose(found.mean[:, 3], 0.25, atol=0.06)
    assert found.new_mean[3] > 0.1


def test_what_is_not_known_stays_unknown_and_the_incumbent_is_certain():
    gain = np.array([[0.0, 0.1, np.nan], [0.0, 0.1, np.nan]])
    found = posterior(gain, 0.05)
    assert np.isnan(found.mean[:, 2]).all()
    assert np.isnan(found.deviation[:, 2]).all()
    assert (found.mean[:, 0] == 0).all()
    assert (found.deviation[:, 0] == 0).all()
    assert found.new_deviation[1] == np.inf  # two groups say nothing about a third


def test_rewards_of_any_scale():
    gain = np.random.default_rng(2).normal(0.0, 0.1, (5, 4))
    small, large = posterior(gain, 0.05), posterior(gain * 1000, 50.0, unit=500.0)
    np.testing.assert_allclose(large.mean, small.mean * 1000, rtol=1e-6)
    np.testing.assert_allclose(large.deviation, small.deviation * 1000, rtol=1e-6)


def test_of_choices_with_nine_in_ten_nine_in_ten_are_right():
    rng, sure = np.random.default_rng(3), []
    for _ in range(8):
        truth = rng.normal(-0.05, 0.06, (1, 10)) + rng.normal(0, 0.05, (8, 10))
        truth[:, 0] = 0
        found = posterior(truth + rng.normal(0, 0.06, truth.shape), 0.06)
        choice = np.nan_to_num(found.mean).argmax(axis=1)
        chance = chance_not_worse(found.mean, found.deviation)[np.arange(8), choice]
        sure.extend((truth[np.arange(8), choice] >= 0)[(chance >= 0.9) & (choice > 0)].tolist())
    assert len(sure) > 10
    assert np.mean(sure) >= 0.88
