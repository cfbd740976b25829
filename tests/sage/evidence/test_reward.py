import numpy as np
import pytest

from sage.evidence.reward import REWARD_V1, RewardError, RewardWeights, composite_reward, measured_weights


def reward(quality=1.0, cost=0.0, latency=0.0, retries=0, timed_out=False, weights=REWARD_V1):
    columns = (np.array([x]) for x in (quality, cost, latency, retries, timed_out))
    return composite_reward(*columns, weights=weights)[0]


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ({}, 1.0),
        ({"quality": 0.25}, 0.25),
        ({"cost": 0.5}, 0.9),
        ({"cost": 1.0}, 0.8),
        ({"cost": 50.0}, 0.8),
        ({"latency": 60.0}, 0.975),
        ({"latency": 1e6}, 0.95),
        ({"retries": 3}, 0.95),
        ({"retries": 30}, 0.95),
        ({"quality": 1.0, "timed_out": True}, -0.2),
        ({"quality": np.nan, "timed_out": True}, -0.2),
        ({"quality": 0.0, "cost": 9.0, "latency": 1e6, "retries": 9, "timed_out": True}, -0.5),
    ],
)
def test_reward_v1_to_the_digit(parts, expected):
    assert reward(**parts) == pytest.approx(expected, abs=1e-12)


def test_the_bounds_are_reached_and_never_passed():
    assert REWARD_V1.bounds == pytest.approx((-0.5, 1.0))
    generator = np.random.default_rng(0)
    columns = generator.uniform(0, 1, 500), generator.exponential(5, 500), generator.exponential(500, 500)
    rewards = composite_reward(*columns, generator.integers(0, 9, 500), generator.random(500) < 0.5)
    assert rewards.min() >= -0.5
    assert rewards.max() <= 1.0


def test_an_unknown_part_is_not_zero():
    assert np.isnan(reward(cost=np.nan))
    assert np.isnan(reward(quality=np.nan))
    assert reward(cost=np.nan, weights=RewardWeights(cost=0.0)) == 1.0


def test_a_part_that_no_row_has_is_left_out_and_named():
    known, unknown = np.array([0.1, 0.2]), np.array([np.nan, np.nan])
    weights = measured_weights(REWARD_V1, known, unknown)
    assert (weights.latency, weights.cost, weights.version) == (0.0, 0.2, "reward_v1-without-latency")
    assert measured_weights(REWARD_V1, known, known) is REWARD_V1


def test_a_part_that_some_rows_have_is_refused():
    with pytest.raises(RewardError, match=r"cost is missing in 1 of 2 rows \(first: row 2\)"):
        measured_weights(REWARD_V1, np.array([0.1, np.nan]), np.array([1.0, 1.0]))


@pytest.mark.parametrize(
    "bad", [{"cost": -1.0}, {"latency": float("nan")}, {"retries_scale": 0.0}, {"cost_scale_usd": 0}]
)
def test_weights_that_make_no_sense_are_refused(bad):
    with pytest.raises(RewardError, match=next(iter(bad))):
        RewardWeights(**bad)
