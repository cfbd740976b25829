"""Orders of candidates: known answers, and intervals in which what candidates have in common cancels."""

from __future__ import annotations

import numpy as np
import pytest

from rl_base.evaluation.ranking import Term, compare, spearman

RNG = np.random.default_rng(0)
VALUES = RNG.normal(size=60)


def mean_of(values: np.ndarray) -> list[Term]:
    return [Term(values, np.ones_like(values))]


def test_candidates_are_ordered_by_their_means() -> None:
    found = compare([mean_of(VALUES), mean_of(VALUES + 2), mean_of(VALUES + 1)])
    assert found.order == (1, 2, 0)
    assert found.scores == pytest.approx([VALUES.mean() + 2, VALUES.mean() + 1, VALUES.mean()])
    assert compare([mean_of(VALUES), mean_of(VALUES + 2)], higher_is_better=False).order == (0, 1)


def test_what_candidates_have_in_common_cancels() -> None:
    found = compare([mean_of(VALUES), mean_of(VALUES + 0.01)])
    (low, high), (_, above) = found.intervals
    assert low < VALUES.mean() < high
    assert above > low  # alone, the two could not be told apart
    assert found.differences[1] == pytest.approx((0.01, 0.01))
    assert found.first_is_best == 1.0
    # The bootstrap's interval is that of a mean.
    assert high - low == pytest.approx(2 * 1.96 * VALUES.std() / np.sqrt(60), rel=0.1)


def test_candidates_that_differ_by_chance_cannot_be_told_apart() -> None:
    found = compare([mean_of(VALUES), mean_of(RNG.permutation(VALUES) + 0.02)])
    low, high = found.differences[1]
    assert low < 0 < high
    assert 0.3 < found.first_is_best < 0.9


def test_a_score_may_be_a_difference_of_means_over_rows() -> None:
    length = np.array([1.0, 3.0, 2.0, 4.0])
    total, good = np.array([5.0, 3.0, 8.0, 2.0]), np.array([1, 0, 1, 0])
    terms = [Term(total * good, length * good), Term(total, length)]
    found = compare([terms, terms])
    assert found.scores == pytest.approx([13 / 3 - 18 / 10] * 2)
    assert np.isfinite(found.intervals).all()  # also where a resample holds no good episode
    assert found.differences[1] == (0.0, 0.0)


def test_a_confidence_is_below_one() -> None:
    with pytest.raises(ValueError, match="level is 1: choose a confidence between 0 and 1"):
        compare([mean_of(VALUES)] * 2, level=1)


@pytest.mark.parametrize(
    ("a", "b", "right"),
    [
        ([1, 2, 3, 4], [10, 20, 30, 40], 1.0),
        ([1, 2, 3, 4], [4, 3, 2, 1], -1.0),
        ([1, 2, 3, 4], [1, 3, 2, 4], 0.8),
        ([1, 2, 3], [9, 100, 1_000_000], 1.0),  # ranks, not sizes
        ([1, 2, 2, 3], [1, 2, 3, 4], 0.948683),  # ties share a rank
        ([5, 1, 4, 2, 3], [4, 2, 5, 1, 3], 0.8),
    ],
)
def test_rank_correlation(a: list[float], b: list[float], right: float) -> None:
    assert spearman(np.array(a, float), np.array(b, float)) == pytest.approx(right, abs=1e-6)


def test_rank_correlation_of_ties_alone_is_unknown() -> None:
    assert spearman(np.ones(3), np.arange(3.0)) is None
