import numpy as np
import pytest

from sage.evidence.mixing_line import MixingLine


def line_of(points):
    quality, cost = np.array(points).T
    return MixingLine.of(quality[None], cost[None])


def test_only_the_corners_that_no_mixture_beats_stay():
    # cheap, dearer than a better one, on the way, worse and dearer than the best, best, below two chords
    line = line_of([(0.2, 1.0), (0.3, 3.0), (0.6, 2.0), (0.7, 9.0), (0.8, 4.0), (0.25, 1.5)])
    assert line.models.tolist() == [0, 2, 4]
    assert line.quality_at(1.5) == pytest.approx(0.4)
    assert line.cost_of(0.7) == pytest.approx(3.0)
    assert np.isnan(line.cost_of(0.9))


def test_a_cheapest_model_that_is_worse_for_the_same_money_is_left_out():
    assert line_of([(0.1, 1.0), (0.5, 1.0), (0.4, 2.0)]).models.tolist() == [1]


def test_shares_cost_the_budget_and_stay_within_the_ends():
    line = line_of([(0.2, 1.0), (0.6, 2.0), (0.8, 4.0)])
    cost = np.array([1.0, 2.0, 4.0])
    for budget in (1.0, 1.25, 2.0, 3.5, 4.0):
        shares = line.shares(budget, 3)
        assert shares.sum() == pytest.approx(1.0)
        assert shares @ cost == pytest.approx(budget)
    assert line.shares(0.1, 3).tolist() == [1, 0, 0]
    assert line.shares(99.0, 3).tolist() == [0, 0, 1]
