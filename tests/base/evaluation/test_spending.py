import math

import numpy as np
import pytest

from rl_base.evaluation.spending import LARGEST, spending_boundaries, spent


def equal_looks(number: int) -> list[float]:
    return [look / number for look in range(1, number + 1)]


@pytest.mark.parametrize(
    ("fraction", "tail", "published"),
    [(0.5, 0.025, 0.00153), (0.75, 0.025, 0.00965), (1.0, 0.025, 0.025), (1.7, 0.025, 0.025), (0.5, 0.05, 0.00557)],
)
def test_the_error_that_is_spent(fraction, tail, published):
    """2 - 2 Phi(z / root of the fraction), where z is 2.2414 for .025 and 1.96 for .05."""
    assert spent(fraction, tail) == pytest.approx(published, abs=2e-5)


@pytest.mark.parametrize(
    ("looks", "published"),
    [
        (1, [1.960]),
        (2, [2.963, 1.969]),
        (3, [3.710, 2.511, 1.993]),
        (4, [4.333, 2.963, 2.359, 2.014]),
        (5, [4.877, 3.357, 2.680, 2.290, 2.031]),
    ],
)
def test_the_published_boundaries_of_equal_looks(looks, published):
    assert spending_boundaries(equal_looks(looks)) == pytest.approx(published, abs=6e-4)


def test_all_looks_together_err_as_often_as_one():
    """Sums of steps of unequal sizes cross the boundaries in 2.5 % of 400,000 walks."""
    fractions = np.array([0.1, 0.3, 0.32, 0.7, 1.0])
    steps = np.random.default_rng(0).normal(size=(400_000, 5)) * np.sqrt(np.diff(fractions, prepend=0))
    crossed = (steps.cumsum(axis=1) / np.sqrt(fractions) > spending_boundaries(fractions)).any(axis=1)
    assert crossed.mean() == pytest.approx(0.025, abs=0.001)  # four standard errors


@pytest.mark.parametrize(("looks", "later_rows_tell", "together"), [(20, 3, 0.030), (20, 20, 0.035), (5, None, 0.0356)])
def test_how_much_looks_err_that_are_not_as_planned(looks, later_rows_tell, together):
    """Rows of the second half tell more than those of the first, or each look has rows of its own (None)."""
    fractions = np.array(equal_looks(looks))
    values = np.random.default_rng(0).normal(size=(100_000, looks))
    if later_rows_tell is not None:
        told = np.where(fractions <= 0.5, fractions, 0.5 + later_rows_tell * (fractions - 0.5))
        values = (values * np.sqrt(np.diff(told, prepend=0))).cumsum(axis=1) / np.sqrt(told)
    assert (values > spending_boundaries(fractions)).any(axis=1).mean() == pytest.approx(together, abs=0.002)


def test_a_look_that_adds_nothing_cannot_reject_and_costs_nothing():
    plain, again = spending_boundaries([0.5, 1.0]), spending_boundaries([0.5, 0.5004, 1.0])
    assert again == pytest.approx((plain[0], LARGEST, plain[1]))


def test_later_looks_than_planned_spend_what_is_left():
    on_time, late = spending_boundaries([0.5, 1.0])[1], spending_boundaries([0.5, 1.4])[1]
    assert on_time < late < 1.98
    assert spending_boundaries([1.4]) == pytest.approx((1.95996,), abs=1e-5)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: spending_boundaries([0.5, 0.5]), "fractions=.* must increase"),
        (lambda: spent(0.0), "fraction=0.0 must be above 0"),
        (lambda: spent(math.nan), "fraction=nan must be above 0"),
        (lambda: spent(0.5, 1.0), "tail=1.0 must lie between 0 and 1"),
    ],
)
def test_what_cannot_be_planned_is_named(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()
