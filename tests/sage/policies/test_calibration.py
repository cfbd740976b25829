import numpy as np
import pytest

from sage.policies.calibration import (
    Checks,
    Prediction,
    cross_fitted_checks,
    fit_spread,
    lower_bound_width,
    measure_reliability,
    reliability,
)
from sage.rl.category_table import learn_table
from tests.sage.rl.made_logs import made_log


def test_reliability_by_hand():
    found = reliability(np.array([0.6, 0.6, 0.98]), np.array([1.0, 0.0, 1.0]), np.array([1.0, 1.0, 2.0]))
    assert found["expected_calibration_error"] == pytest.approx(0.5 * 0.1 + 0.5 * 0.02)
    low, high = found["bins"]
    assert (low["from"], low["to"], low["share"], low["happened"]) == (0.5, 0.7, 0.5, 0.5)
    assert high["predicted"] == pytest.approx(0.98)


def test_nothing_to_check_is_said_not_scored():
    found = measure_reliability(Checks(*(np.zeros(0) for _ in range(5))), 1.0)
    assert found["expected_calibration_error"] is None
    assert found["num_checks"] == 0


def checks_with(spread: float, num: int = 4_000) -> Checks:
    rng = np.random.default_rng(0)
    mean, deviation, noise = rng.normal(size=num), np.full(num, 0.5), np.full(num, 0.09)
    truth = mean + spread * deviation * rng.normal(size=num)
    return Checks(mean, deviation, truth + np.sqrt(noise) * rng.normal(size=num), noise, np.ones(num))


@pytest.mark.parametrize("spread", [1.5, 3.0])
def test_deviations_that_are_too_small_are_found_out(spread):
    assert fit_spread(checks_with(spread)) == pytest.approx(spread, rel=0.05)


def test_deviations_are_never_made_smaller():
    assert fit_spread(checks_with(0.2)) == 1.0


def test_with_the_right_spread_the_chances_are_true():
    checks = checks_with(3.0)
    assert measure_reliability(checks, fit_spread(checks))["expected_calibration_error"] < 0.02
    assert measure_reliability(checks, 1.0)["expected_calibration_error"] > 0.08


def test_predictions_are_checked_on_rows_they_have_not_seen():
    tasks, asked = np.repeat(np.arange(20), 2), []

    def predict(rows: np.ndarray) -> Prediction:
        asked.append(set(tasks[rows]))
        return Prediction(np.zeros(1, np.int64), np.zeros(1), np.ones(1))

    checks = cross_fitted_checks(predict, np.ones((40, 1)), np.zeros(40, np.int64), 1, tasks)
    assert len(asked) == 5
    assert all(len(seen) == 16 for seen in asked)
    assert checks.rows.sum() == 40


def test_a_learned_table_is_calibrated_on_its_own_log():
    calibration = learn_table(made_log(8_000)).training.calibration
    assert calibration["num_checks"] == 5  # five folds of one cell in which it leaves the incumbent
    assert calibration["expected_calibration_error"] < 0.1


@pytest.mark.parametrize(("confidence", "width"), [(0.5, 0.0), (0.975, 1.959964)])
def test_width_of_a_lower_bound(confidence, width):
    assert lower_bound_width(confidence) == pytest.approx(width, abs=1e-5)


@pytest.mark.parametrize("confidence", [0.3, 1.0])
def test_a_bound_that_is_none_is_refused(confidence):
    with pytest.raises(ValueError, match="and below 1"):
        lower_bound_width(confidence)
