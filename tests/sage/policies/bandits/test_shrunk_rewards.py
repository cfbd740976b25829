"""Cells, models and pairs as random effects, with strengths from the counts themselves."""

import numpy as np
import pytest

from sage.policies.bandits.shrunk_rewards import Effects, ShrunkRewards, coin_variance, shrink_rewards


def shrunk(counts: list, totals: list, noise: float | None = None) -> ShrunkRewards:
    return shrink_rewards(
        np.array(counts, float),
        np.array(totals, float),
        Effects(np.zeros(np.shape(counts)[1]), 10.0, 5.0),
        prior_mean=0.5,
        noise=noise,
    )


def test_nothing_seen_is_the_prior():
    found = shrunk(np.zeros((0, 3)), np.zeros((0, 3)), noise=0.3)
    np.testing.assert_allclose(found.mean, [[0.5, 0.5, 0.5]])
    np.testing.assert_allclose(found.deviation, 0.3 * np.sqrt(1 / 10 + 1 / 5), rtol=1e-12)


def test_noise_is_that_of_a_coin():
    np.testing.assert_allclose(coin_variance(np.array([0.5, 0.1, -1.0, 2.0])), [0.25, 0.09, 0.0196, 0.0196])


def test_a_hard_cell_is_hard_for_a_model_that_was_not_tried_there():
    found = shrunk([[100, 100], [100, 0]], [[80, 80], [10, 0]])
    assert found.mean[1, 0] == pytest.approx(0.1, abs=0.05)
    assert found.mean[1, 1] < 0.3
    assert found.mean[0, 1] == pytest.approx(0.8, abs=0.03)


def test_cells_that_are_alike_count_together():
    generator = np.random.default_rng(0)
    counts = np.full((40, 2), 10.0)
    alike = generator.binomial(10, [0.4, 0.7], (40, 2)).astype(float)
    found = shrunk(counts, alike)
    error = np.abs(np.diff(found.mean[:40]) - 0.3).mean()
    assert error < np.abs(np.diff(alike / 10) - 0.3).mean() / 2
    chance = np.where(generator.random((40, 2)) < 0.5, 0.1, 0.9)
    differ = shrunk(counts, generator.binomial(10, chance).astype(float))
    assert np.abs(differ.mean[:40] - chance).mean() < 0.15
    assert differ.deviation[:40].mean() > found.deviation[:40].mean() * 1.2


def test_many_trials_are_believed():
    found = shrunk([[10_000, 10_000]], [[6_000, 3_000]])
    np.testing.assert_allclose(found.mean[0], [0.6, 0.3], atol=0.002)
    np.testing.assert_allclose(found.deviation[0], np.sqrt(0.45 * 0.55 / 10_000) * np.ones(2), rtol=0.1)


def test_it_goes_on_from_where_it_was():
    generator = np.random.default_rng(0)
    counts = np.full((30, 3), 20.0)
    totals = generator.binomial(20, [0.4, 0.6, 0.7], (30, 3)).astype(float)
    prior, last = Effects(np.zeros(3), 10.0, 5.0), None
    for _ in range(60):
        found = shrink_rewards(counts, totals, prior, prior_mean=0.5, start=last)
        last = found.effects
    again = shrink_rewards(counts, totals, prior, prior_mean=0.5, start=last)
    np.testing.assert_allclose(again.mean, found.mean, atol=1e-3)
    np.testing.assert_allclose(np.diff(again.effects.model), [0.2, 0.1], atol=0.06)
    assert again.effects.pair_strength > 20  # pairs do not deviate
