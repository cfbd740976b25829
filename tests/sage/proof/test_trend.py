"""Older rows against newer ones: a model that fell after the promotion, tasks that became harder, and chance."""

from dataclasses import replace

import numpy as np
import pytest

from rl_base.evaluation import BanditLog
from sage.evidence.routing_data import ROW_COLUMNS, RoutingData
from sage.proof.evaluation import evaluate_offline
from sage.proof.gate import decide
from sage.proof.trend import Outcomes, Shift, find_trend
from sage.rl.category_table import learn_table
from tests.sage.rl.made_logs import TRUTH, made_log

FALLEN = TRUTH | {"code": (0.5, 0.4, 0.2)}  # the model that the policy takes
HARDER = TRUTH | {"code": (0.2, 0.5, 0.0)}


def followed(before: RoutingData, after: RoutingData) -> RoutingData:
    """Returns both logs as one, the second later than the first."""
    columns = {name: np.concatenate([getattr(before, name), getattr(after, name)]) for name in ROW_COLUMNS}
    contexts = [
        None if one is None else np.concatenate([one, other])
        for one, other in zip(before.contexts, after.contexts, strict=True)
    ]
    columns["time"] = np.concatenate([before.time, before.time[-1] + 1 + after.time])
    return replace(before, contexts=type(before.contexts)(*contexts), **columns)


@pytest.fixture(scope="module")
def before():
    return made_log(6_000)


@pytest.mark.parametrize(("truth", "promote"), [(TRUTH, True), (FALLEN, False), (HARDER, True)])
def test_a_fall_of_the_policys_model_is_refused_and_harder_tasks_are_not(before, truth, promote):
    policy = learn_table(before.split_by_task(0.5, 0)[0])
    found = evaluate_offline(followed(before, made_log(3_000, seed=1, truth=truth, epsilon=0.9)), policy, floor=0.5)
    assert found.report.interval.low > 0
    verdict = decide(found)
    assert verdict.promote is promote
    assert verdict.reason.startswith("older and newer rows disagree: trend: from row ") is not promote
    assert found.trend.fell is not promote
    if truth is FALLEN:
        assert found.trend.policy.low < -0.4 < found.trend.policy.high < 0
        assert abs(found.trend.newer_rows - 3_000) < 800
        assert found.trend.others.low < 0 < found.trend.others.high
        assert str(found.trend) in str(found)


def test_a_shift_compares_outcomes_within_cell_and_model():
    """Two cells whose shares change: the means of all rows would fall, while only the second cell's rises."""
    value = np.array([1, 1, 1, 0, 0, 0, 1, 1, 1, 0], float)
    stratum = np.array([0, 0, 0, 1, 1, 1, 0, 0, 1, 1])
    outcomes = Outcomes(np.arange(10), value, np.ones(10), stratum, np.arange(10))
    found = Shift.of(outcomes, 6, 10)
    # Cell 0: 1 and 1. Cell 1: 0 and 1/2. Each has 3 older and 2 newer rows, so that both count alike.
    assert found.value == pytest.approx(0.25)
    assert found.influence.sum() == pytest.approx(0.0)
    newer, small = np.array([0.5, -0.5]) / 2 / 2, np.sqrt(2)
    assert found.influence[8:] == pytest.approx(newer * small)
    assert found.noise == pytest.approx((4 * 0.2) / 4 * (1 / 3 + 1 / 2) / 4)  # cell 1 has one success of 5


def test_few_older_outcomes_without_a_failure_do_not_make_a_fall():
    rng = np.random.default_rng(0)
    rows, differ = 2_000, np.eye(2)
    action = np.where(np.arange(rows) < 1_000, (np.arange(rows) % 30 == 0).astype(int), 1)
    reward = np.where((np.arange(rows) < 1_000) | (rng.random(rows) < 0.98), 1.0, 0.0)
    log = BanditLog(
        actions=action,
        rewards=reward,
        propensities=np.full((rows, 2), 0.5),
        features=np.zeros((rows, 1)),
        clusters=np.arange(rows),
    )
    policies = np.repeat(differ[1:], rows, axis=0), np.repeat(differ[:1], rows, axis=0)
    how = {"observed": np.ones(rows, bool), "time": np.arange(rows)}
    found = find_trend(log, *policies, **how)
    assert found is not None
    assert not found.fell
    assert found.policy.value < 0
    assert find_trend(log, *policies, **how | {"observed": np.arange(rows) < 1_000}) is None
