import math
from dataclasses import replace

import numpy as np
import pytest

from rl_base.evaluation import BanditLog
from sage.proof.evaluation import compare
from sage.proof.look_plan import LookPlan
from sage.proof.power import ONE_LOOK, Power, chance, errors_of, noise_of_draws, over_next_tasks, power_of

ROWS = 40_000


@pytest.fixture(scope="module")
def judged():
    """Two models with success rates of .6 and .5, tried in .1 and .9 of the rows; the candidate takes the first."""
    rng = np.random.default_rng(0)
    action = (rng.random(ROWS) < 0.9).astype(int)
    rates = np.array([0.6, 0.5])
    log = BanditLog(
        actions=action,
        rewards=(rng.random(ROWS) < rates[action]).astype(float),
        propensities=np.tile([0.1, 0.9], (ROWS, 1)),
        reward_range=(0.0, 1.0),
        features=np.zeros((ROWS, 1)),
    )
    new, old = np.tile([1.0, 0.0], (ROWS, 1)), np.tile([0.0, 1.0], (ROWS, 1))
    predictions = np.tile(rates, (ROWS, 1))
    report, _ = compare(log, new, old, observed=np.ones(ROWS, bool), predictions=predictions, method="t")
    return log, new, old, predictions, report


def test_the_noise_of_draws_by_hand(judged):
    """A try of probability p adds its variance times (1 - p) / p: .24 x 9 + .25 / 9."""
    assert ROWS * noise_of_draws(*judged[:4]) == pytest.approx(0.24 * 9 + 0.25 / 9, rel=0.05)


def test_power_is_that_of_the_errors_with_and_without_draws(judged):
    found = power_of(*judged, method=ONE_LOOK)
    assert found is not None
    error, full = math.sqrt((0.24 / 0.1 + 0.25 / 0.9) / ROWS), math.sqrt((0.24 + 0.25) / ROWS)
    assert found.now == pytest.approx(chance(0.01, error), abs=0.01)
    assert found.full == pytest.approx(chance(0.01, full), abs=0.05)
    assert str(found).startswith(
        f"power for a gain of 0.01 at 40,000 rows: {found.now:.2f}, which is {found.share:.0%} of"
    )


def test_what_is_missing_takes_its_part_of_the_gain(judged):
    """The gate asks for the low end of the worst case: 6 thousandths below the other, so that 4 of the 10 are left."""
    low = judged[4].interval.low
    worst = replace(judged[4].interval, low=low - 0.006)
    found, whole = power_of(*judged, method=ONE_LOOK, worst=worst), power_of(*judged, method=ONE_LOOK)
    error = next(row.standard_error for row in judged[4].rows if row.estimator == "doubly robust")
    assert found is not None
    assert whole is not None
    assert found.now == pytest.approx(chance(0.004, error))
    assert found.full == whole.full
    assert str(found).endswith("what is missing, at its worst, takes 0.0060 of the gain")
    planned = power_of(*judged, method=ONE_LOOK, worst=worst, plan=LookPlan(final_rows=4 * ROWS))
    assert planned is not None
    assert planned.now == pytest.approx(chance(0.004, error / 2), abs=0.001)


def test_power_under_a_margin_says_what_quality_it_is_about(judged):
    found = power_of(*judged, method=ONE_LOOK, limit=-0.03)
    assert str(found).startswith(
        "power for a quality -0.02 from the static table's, 0.01 above the limit, at 40,000 rows"
    )


def test_power_of_planned_looks_is_about_the_last(judged):
    """A fourth of the rows now: the error at the end is half of what it is, and next to nothing is spent now."""
    found = power_of(*judged, method=ONE_LOOK, plan=LookPlan(final_rows=4 * ROWS))
    assert found is not None
    error = next(row.standard_error for row in judged[4].rows if row.estimator == "doubly robust")
    assert found.rows == 4 * ROWS
    assert found.now == pytest.approx(chance(0.01, error / 2), abs=0.001)


def test_the_share_of_full_information():
    assert Power(gain=0.01, rows=10, now=0.3, full=0.6).share == 0.5


def test_the_mean_over_other_tasks_varies_by_these_as_well(judged):
    """The variance of one task's gain is .24 + .25, of the estimate's term .24 / .1 + .25 / .9; there are as many of both."""
    errors = errors_of(*judged)
    found = judged[4].interval
    ahead = over_next_tasks(found, judged[4].value, errors)
    wider = math.sqrt(1 + (0.24 + 0.25) / (0.24 / 0.1 + 0.25 / 0.9))
    assert ahead.high - ahead.low == pytest.approx(wider * (found.high - found.low), rel=0.01)
    assert ahead.high - judged[4].value == pytest.approx(wider * (found.high - judged[4].value), rel=0.01)
