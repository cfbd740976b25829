"""Curves over seeds, and the axes that they are drawn on."""

import numpy as np
import pytest

from rl_training.evaluation import bootstrap_interval
from rl_training.experiment.report.charts import NUM_COLOURS, dashes, ticks
from rl_training.experiment.report.curves import evaluation_curve, metric_curve
from rl_training.experiment.report.formatting import duration, number, tick


def test_an_evaluation_curve_has_the_iqm_of_the_runs_that_were_evaluated() -> None:
    runs = [[(10, [1.0, 3.0]), (20, [4.0])], [(10, [4.0]), (20, [8.0])], [(10, [6.0])], [(10, [100.0]), (30, [5.0])]]
    curve = evaluation_curve(runs)
    assert curve.steps.tolist() == [10, 20]  # at 30 there is one of four
    assert curve.middle.tolist() == [5.0, 6.0]  # the middle two of 2 4 6 100; the mean of two
    assert curve.count.tolist() == [4, 2]
    assert (curve.low[0], curve.high[0]) == bootstrap_interval([2.0, 4.0, 6.0, 100.0])


def test_the_curve_of_one_run_has_intervals_over_its_episodes() -> None:
    curve = evaluation_curve([[(10, [1.0, 2.0, 6.0])]])
    assert (curve.middle[0], curve.count[0]) == (3.0, 1)
    assert (curve.low[0], curve.high[0]) == bootstrap_interval([1.0, 2.0, 6.0], np.mean)


def test_a_metric_curve_is_the_mean_over_runs_of_means_in_bins() -> None:
    runs = [[(1, 1.0), (4, 3.0), (6, 10.0), (10, 20.0)], [(5, 4.0), (10, 30.0)], []]
    curve = metric_curve(runs, num_bins=2)
    assert curve.steps.tolist() == [2.5, 7.5]
    assert curve.middle.tolist() == [(2.0 + 4.0) / 2, (15.0 + 30.0) / 2]
    assert (curve.low.tolist(), curve.high.tolist()) == ([2.0, 15.0], [4.0, 30.0])


def test_a_metric_curve_ends_where_fewer_than_half_of_the_runs_go_on() -> None:
    runs = [[(step, 1.0) for step in range(1, 5)]] + 2 * [[(step, 2.0) for step in range(1, 3)]]
    assert metric_curve(runs, num_bins=4).steps.tolist() == [1.0]  # the middle of the first of two bins
    assert metric_curve([[(0, 5.0)]]).middle.tolist() == [5.0]
    assert metric_curve([]).steps.tolist() == metric_curve([[]]).steps.tolist() == []


@pytest.mark.parametrize(
    ("low", "high", "wanted", "expected"),
    [
        (0, 500, 5, [0, 100, 200, 300, 400, 500]),
        (-0.1, 1.04, 5, [0, 0.25, 0.5, 0.75, 1.0]),
        (3e-5, 9e-5, 3, [4e-5, 6e-5, 8e-5]),
        (-1200, -100, 4, [-1000, -500]),
    ],
)
def test_ticks_are_round_numbers_within_the_range(low, high, wanted, expected) -> None:
    assert ticks(low, high, wanted) == pytest.approx(expected)


def test_the_first_groups_all_look_different() -> None:
    assert len({(group % NUM_COLOURS, dashes(group)) for group in range(32)}) == 32


def test_numbers_are_short() -> None:
    assert [number(x) for x in (500.0, 212.94, 12_345.6, 0.000123456, -3, None, float("nan"), True)] == [
        *("500", "212.9", "12,346", "0.0001235", "-3"),
        *("-", "-", "-"),
    ]
    assert [tick(x) for x in (0.0, 9_000, 50_000, 2.5e6, 0.1 + 0.2)] == ["0", "9000", "50k", "2.5M", "0.3"]
    assert [duration(x) for x in (15.66, 200, 7_500, None)] == ["15.7 s", "3 min 20 s", "2 h 5 min", "-"]
