import numpy as np
import pytest

from rl_base.evaluation import (
    bootstrap_interval,
    holm,
    iqm,
    optimality_gap,
    performance_profile,
    probability_of_improvement,
    stratified_interval,
)

SCORES = (3.0, 10.0, 1.0, 7.0, 4.0, 12.0, 5.0, 6.0, 2.0, 30.0)


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ((5.0,), 5.0),
        ((1.0, 5.0), 3.0),
        ((1.0, 2.0, 9.0), 4.0),  # fewer than four: nothing is cut
        ((4.0, 1.0, 100.0, 2.0), 3.0),  # the middle two of 1 2 4 100
        ((1.0, 2.0, 3.0, 5.0, 100.0), 10 / 3),  # one is cut at each end, whole
        ((100.0, 1.0, 2.0, 3.0, 5.0, 6.0), 4.0),
        ((7.0, 1.0, 2.0, 3.0, 5.0, 100.0, 8.0), 5.0),
        ((8.0, -50.0, 1.0, 2.0, 4.0, 7.0, 50.0, 60.0), (2 + 4 + 7 + 8) / 4),
        ((-9.0, 100.0, 1.0, 2.0, 3.0, 4.0, 5.0, 9.0, 200.0, -8.0), 4.0),  # ten: two at each end
    ],
)
def test_iqm_is_the_mean_trimmed_by_a_quarter_at_each_end(scores: tuple[float, ...], expected: float) -> None:
    assert iqm(scores) == pytest.approx(expected)


@pytest.mark.parametrize("count", range(1, 42))
def test_iqm_cuts_as_many_scores_as_rliable_does(count: int) -> None:
    """Growing powers give away which scores are in the mean: each is more than all below it together."""
    cut = int(0.25 * count)  # scipy.stats.trim_mean
    powers = [2.0**index for index in range(count)]
    assert iqm(powers[::-1]) * (count - 2 * cut) == pytest.approx(sum(powers[cut : count - cut]), rel=1e-12)


def test_iqm_takes_runs_of_several_tasks_together() -> None:
    assert iqm(np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 600.0]])) == (2 + 3 + 4 + 5) / 4


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


@pytest.mark.parametrize("statistic", [iqm, np.mean])
@pytest.mark.parametrize("count", [1, 3, 5, 10])
def test_statistics_of_all_resamples_at_once_change_no_bit_of_an_interval(statistic, count: int) -> None:
    scores = SCORES[:count]
    one_by_one = bootstrap_interval(scores, lambda drawn: float(statistic(drawn)))
    assert bootstrap_interval(scores, statistic) == one_by_one


def test_equal_scores_have_no_spread() -> None:
    assert bootstrap_interval((2.0, 2.0, 2.0)) == (2.0, 2.0)


def test_a_stratified_interval_keeps_every_task() -> None:
    """Runs without spread within a task leave none, however far apart the tasks are; a plain bootstrap would see it."""
    tasks = [[0.0] * 5, [1.0] * 5]
    assert stratified_interval(tasks, np.mean) == (0.5, 0.5)
    low, high = bootstrap_interval([0.0] * 5 + [1.0] * 5, np.mean)
    assert low < 0.4 < 0.6 < high


def test_a_stratified_interval_of_one_task_is_the_plain_one() -> None:
    assert stratified_interval([SCORES]) == pytest.approx(bootstrap_interval(SCORES), abs=0.5)


@pytest.mark.parametrize(
    ("scores", "target", "expected"),
    [
        ((0.5, 1.0), 1.0, 0.25),
        ((0.5, 100.0), 1.0, 0.25),  # what is above the target makes up for nothing
        ((2.0, 3.0), 1.0, 0.0),
        ((-1.0,), 1.0, 2.0),
        ((5.0, 20.0), 10.0, 2.5),
    ],
)
def test_optimality_gap_known_answers(scores: tuple[float, ...], target: float, expected: float) -> None:
    assert optimality_gap(scores, target) == pytest.approx(expected)


def test_a_profile_is_the_share_of_runs_strictly_above_each_threshold() -> None:
    found = performance_profile([[0.0, 0.5], [1.0, 1.0, 2.0]], [-1.0, 0.0, 0.5, 0.9, 1.0, 2.0])
    assert found.thresholds == [-1.0, 0.0, 0.5, 0.9, 1.0, 2.0]
    assert found.share == pytest.approx([1.0, 0.8, 0.6, 0.6, 0.2, 0.0])
    assert all(low <= share <= high for _, share, low, high in zip(*found, strict=True))


def test_the_band_of_a_profile_is_the_binomial_one_within_each_task() -> None:
    """Of the second task's 4 runs 0 to 4 are drawn above, each end in 1 of 16 draws, more than the tail of 2.5 %."""
    found = performance_profile([[0.0] * 4, [0.0, 0.0, 1.0, 1.0]], [0.5])
    assert (found.share, found.low, found.high) == ([0.25], [0.0], [0.5])
    flat = performance_profile([[0.0] * 4, [1.0] * 4], [0.5])
    assert (flat.share, flat.low, flat.high) == ([0.5], [0.5], [0.5])


def test_the_gap_is_the_area_above_the_profile_up_to_the_target() -> None:
    tasks = [[0.11, 0.52, 0.93], [0.74, 1.55, 0.0]]
    middles = (np.arange(1_000) + 0.5) / 1_000
    share = performance_profile(tasks, middles, resamples=10).share
    assert optimality_gap([score for task in tasks for score in task]) == pytest.approx(1 - np.mean(share), abs=1e-3)


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        ([[2.0, 3.0]], [[0.0, 1.0]], 1.0),
        ([[1.0, 3.0]], [[2.0, 2.0]], 0.5),
        ([[1.0, 1.0]], [[1.0, 1.0]], 0.5),  # ties are halves
        ([[5.0], [0.0]], [[1.0], [1.0]], 0.5),  # averaged over tasks
        ([[1.0, 2.0, 3.0]], [[2.5]], 1 / 3),
    ],
)
def test_probability_of_improvement_known_answers(ours, theirs, expected: float) -> None:
    found = probability_of_improvement(ours, theirs)
    assert found.probability == pytest.approx(expected)
    assert 0 <= found.low <= found.high <= 1
    assert found.low <= found.probability <= found.high


def test_clear_improvement_has_a_small_p_value_and_none_a_large_one() -> None:
    better, worse = [10.0, 11.0, 12.0, 13.0, 14.0], [1.0, 2.0, 3.0, 4.0, 5.0]
    assert probability_of_improvement([better], [worse]).p_value == pytest.approx(1 / 2_001)
    assert probability_of_improvement([worse], [better]).p_value == 1.0


@pytest.mark.parametrize(
    ("p_values", "expected"),
    [
        ([0.01, 0.04, 0.03], [True, False, False]),  # 0.01 <= 0.05 / 3, then 0.03 > 0.05 / 2 ends it
        ([0.01, 0.02, 0.04], [True, True, True]),
        ([0.2, 0.001], [False, True]),
        ([], []),
    ],
)
def test_holm_known_answers(p_values: list[float], expected: list[bool]) -> None:
    assert holm(p_values) == expected
