"""Policies for a limit: what a dollar must be worth, found on tasks that were left out."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from rl_base.evaluation import Estimate
from sage.evidence.objective import points_worse, usd_per_task
from sage.evidence.quality_and_cost import estimate_both
from sage.evidence.reward import RewardError
from sage.policies.cells import Cells
from sage.rl.category_table import learn_table
from sage.rl.dollar_worth import (
    WORTHS,
    ChoiceEstimator,
    SweptPolicy,
    best_of,
    sweep,
    with_quality_and_cost,
    within_limit,
)
from sage.rl.doubly_robust_learner import learn_doubly_robust
from tests.sage.rl.made_logs import made_log

PRICES = (0.40, 0.10, 0.02)
# mid loses nothing in code and 4 points in prose; small is cheap and bad everywhere
TRUTH = {"code": (0.7, 0.72, 0.3), "prose": (0.7, 0.5, 0.3)}


@pytest.fixture(scope="module")
def log():
    return made_log(3_000, truth=TRUTH, prices=PRICES, epsilon=0.5)


@pytest.fixture(scope="module")
def points(log):
    return sweep(log, Cells.of(log.contexts), np.zeros(len(log), np.int64), pessimism=0.0)


def choices(policy):
    """By category, code first."""
    return policy.score_table[: len(policy.cells)].argmax(axis=1).tolist()


def test_a_dearer_dollar_costs_quality_and_saves_money(log, points):
    assert len(points) == len(WORTHS)
    first, last = points[0], points[-1]
    assert first.usd_worth == 0.0
    assert first.quality.value > -0.02
    code = log.contexts.category == "code"
    assert (first.choice[~code] == 0).all()
    assert (last.choice == 2).all()  # the cheapest everywhere
    assert last.cost.value == pytest.approx(-0.38, abs=0.01)
    assert last.quality.value == pytest.approx(-0.40, abs=0.04)
    assert last.usd_per_task.value == pytest.approx(0.02, abs=0.01)
    saved = [-point.cost.value for point in points]
    assert all(later > before - 0.02 for before, later in pairwise(saved))


def test_limits_choose_among_what_was_swept(log, points):
    code = log.contexts.category == "code"

    def chosen(objective):
        found = within_limit(points, objective).choice
        return [int(np.bincount(found[rows]).argmax()) for rows in (code, ~code)]

    assert chosen(points_worse(50)) == [2, 2]
    assert chosen(usd_per_task(0.30)) == [1, 0]
    assert chosen(usd_per_task(0.12)) == [1, 1]
    assert chosen(usd_per_task(0.001)) == [2, 2]  # out of reach: as cheap as possible


def test_the_pessimistic_learner_learns_for_a_budget(log):
    policy = learn_doubly_robust(log, objective=usd_per_task(0.30))
    assert choices(policy) == [1, 0]
    assert policy.pessimism > 1.6


def test_policies_never_choose_for_tasks_that_they_have_seen(log, points):
    # The outcomes of one fold's tasks must not change the choices made for them.
    incumbent, cells = np.zeros(len(log), np.int64), Cells.of(log.contexts)
    task = np.unique(log.contexts.task_id, return_inverse=True)[1]
    fold = np.random.default_rng(0).permutation(int(task.max()) + 1)[task] % 5 == 0
    changed = replace(log, quality=np.where(fold, 1.0 - log.quality, log.quality))
    after = sweep(changed, cells, incumbent, pessimism=0.0)
    for old, new in zip(points, after, strict=True):
        np.testing.assert_array_equal(old.choice[fold], new.choice[fold])


def test_the_judge_agrees_with_the_difference_of_the_gate(log):
    always = np.full(len(log), 1)
    estimator = ChoiceEstimator(log, Cells.of(log.contexts), np.zeros(len(log), np.int64))
    found = estimator.estimate(1.0, always)
    both = estimate_both(log, np.eye(3)[always], np.eye(3)[always * 0], level=0.95, method="t")
    assert found.quality.value == pytest.approx(both.quality.value)
    assert found.cost.value == pytest.approx(both.cost_usd.value)
    assert found.usd_per_task.value == pytest.approx(both.usd_per_task.value)


def point(worth, quality, cost, error=0.001):
    spread = np.array([1.0, -1.0] * 50) * error * 10
    estimates = [Estimate("x", value, spread) for value in (quality, cost, 1.0 + cost)]
    return SweptPolicy(worth, np.zeros(0, np.int64), *estimates)


def test_the_bound_not_the_estimate_keeps_to_the_limit():
    points = [point(0, 0.0, 0.0), point(1, -0.009, -0.5), point(2, -0.0075, -0.4), point(3, -0.2, -0.9)]
    assert within_limit(points, points_worse(1)).usd_worth == 2  # -.009 - .002 is below -.01
    assert within_limit(points, points_worse(1.2)).usd_worth == 1
    assert within_limit(points[3:], points_worse(1)).usd_worth == 3
    assert within_limit(points, usd_per_task(0.61)).usd_worth == 2
    assert within_limit(points, usd_per_task(0.601)).usd_worth == 1
    assert within_limit(points, usd_per_task(0.01)).usd_worth == 3


def test_models_that_could_not_be_chosen_are_left_out():
    scores = np.array([[0.0, 2.0, 1.0]] * 3)
    supported = np.array([[1, 1, 1], [1, 0, 1], [0, 1, 1]], bool)
    assert best_of(scores, supported, np.zeros(3, np.int64)).tolist() == [1, 2, 0]
    assert best_of(np.full((1, 3), -np.inf), supported[:1], np.array([2])).tolist() == [2]


def test_without_costs_there_is_nothing_to_learn_for_a_limit():
    with pytest.raises(RewardError, match="no row has a cost"):
        learn_table(made_log(200), objective=points_worse(1))
    apart = made_log(200, prices=PRICES)
    half = np.arange(200) < 100
    apart = replace(apart, cost_usd=np.where(half, np.nan, 0.1), quality=np.where(half, apart.quality, np.nan))
    with pytest.raises(RewardError, match="no row has both a quality and a cost"):
        with_quality_and_cost(apart)
