import numpy as np
import pytest

from rl_training.evaluation import bootstrap_interval, iqm

SCORES = (3.0, 10.0, 1.0, 7.0, 4.0, 12.0, 5.0, 6.0, 2.0, 30.0)


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ((4.0, 1.0, 100.0, 2.0), 3.0),  # the middle two of 1 2 4 100
        ((1.0, 2.0, 3.0, 5.0, 100.0), (0.75 * 2 + 3 + 0.75 * 5) / 2.5),  # 2.5 scores: the outer of them by 3/4
        ((8.0, -50.0, 1.0, 2.0, 4.0, 7.0, 50.0, 60.0), (2 + 4 + 7 + 8) / 4),
        ((1.0, 5.0), 3.0),
        ((5.0,), 5.0),
    ],
)
def test_iqm_known_answers(scores: tuple[float, ...], expected: float) -> None:
    assert iqm(scores) == pytest.approx(expected)


def test_iqm_ignores_outliers() -> None:
    assert iqm((-1e9, 1.0, 2.0, 1e9)) == 1.5


def test_interval_contains_the_statistic_and_is_ordered() -> None:
    low, high = bootstrap_interval(SCORES)
    assert min(SCORES) <= low < iqm(SCORES) < high <= max(SCORES)


def test_interval_is_deterministic_by_seed() -> None:
    assert bootstrap_interval(SCORES, seed=3) == bootstrap_interval(SCORES, seed=3)
    assert bootstrap_interval(SCORES, resamples=50, seed=3) != bootstrap_interval(SCORES, resamples=50, seed=4)


def test_a_higher_level_gives_a_wider_interval() -> None:
    low, high = bootstrap_interval(SCORES, level=0.5)
    wide_low, wide_high = bootstrap_interval(SCORES, level=0.99)
    assert wide_low < low < high < wide_high


def test_interval_of_the_mean_is_close_to_the_normal_one() -> None:
    scores = np.random.default_rng(0).normal(5.0, 2.0, size=400)
    low, high = bootstrap_interval(scores, statistic=np.mean)
    half = 1.96 * scores.std() / 20
    assert (low, high) == pytest.approx((scores.mean() - half, scores.mean() + half), abs=0.02)


def test_equal_scores_have_no_spread() -> None:
    assert bootstrap_interval((2.0, 2.0, 2.0)) == (2.0, 2.0)
