import dataclasses

import numpy as np
import pytest

from rl_base.evaluation import interval
from rl_base.evaluation.within_cluster import Components
from sage.evidence.logged_rewards import bandit_log
from sage.evidence.task_evidence import gain_estimate, predict_for_proof
from sage.policies.cells import Cells
from sage.proof.plan import (
    LogVariances,
    PlanError,
    Scheme,
    fewest_rows,
    make_plan,
    measure_log,
    measure_scheme,
    power_at,
    prediction_errors,
    row_variance,
    rows_before,
    rows_for,
)
from tests.sage.rl.made_logs import made_log

ALONE = LogVariances(
    components=Components(0.0, 0.0, 0.25), rows_per_task=1.0, earlier_rows=np.zeros(10, int), rows_a_day=100.0
)
HALF = Scheme(
    exploration=0.5, models=2.0, reward_lost=0.01, usd_spent=None
)  # .25 for the policy's model, .75 for the usual


def test_rows_by_themselves_by_hand() -> None:
    """Of every acting row: outcomes vary by .25 each, and the weights of both models add to that."""
    between = 1.0 * 0.1**2 - 0.1**2
    correction = 0.25 / 0.25 + 0.25 / 0.75 - 0.5
    assert row_variance(ALONE, HALF, gain=0.1, acting=1.0) == pytest.approx(between + 0.5 + correction)


def test_a_policy_that_acts_in_half_of_the_rows_has_about_half_the_variance() -> None:
    whole = row_variance(ALONE, HALF, gain=0.001, acting=1.0)
    assert row_variance(ALONE, HALF, gain=0.001, acting=0.5) == pytest.approx(whole / 2, rel=1e-4)


def test_earlier_rows_of_a_task_reduce_the_error_of_predictions_by_hand() -> None:
    """One earlier row, always of the static table's model: its difficulty is known as well as one outcome tells it."""
    found = dataclasses.replace(ALONE, components=Components(0.3, 0.1, 0.2), earlier_rows=np.ones(10, int))
    never = dataclasses.replace(HALF, exploration=1e-12)
    policy, usual, both = prediction_errors(found, never)
    known = 0.3 - 0.3**2 / 0.6  # of the task, after an outcome of variance .6
    assert policy == pytest.approx(known + 0.1 + 0.2)
    assert usual == pytest.approx(0.4 - 0.4**2 / 0.6 + 0.2)
    assert both == pytest.approx(0.3 - 0.3 * 0.4 / 0.6)


def test_rows_before_by_hand() -> None:
    assert rows_before(np.array([1, 0, 1, 1, 0])).tolist() == [0, 0, 1, 2, 1]


def test_power_of_one_look_by_hand() -> None:
    assert power_at(10_000, 1.0, 0.0196) == pytest.approx(0.5, abs=1e-3)
    assert rows_for(1.0, 0.01, 0.8) == pytest.approx((1.95996 + 0.84162) ** 2 / 0.01**2, rel=1e-4)


def test_looking_every_day_needs_more_rows() -> None:
    once, always = (rows_for(1.0, 0.01, 0.8, method) for method in ("t", "anytime"))
    assert once is not None
    assert always is not None
    assert 1.5 * once < always < 4 * once
    assert power_at(always, 1.0, 0.01, "anytime") >= 0.8 > power_at(always - 1, 1.0, 0.01, "anytime")


def test_planned_looks_need_little_more_rows_than_one() -> None:
    once, ten, always = (rows_for(1.0, 0.01, 0.8, *how) for how in (("t", 1), ("t", 10), ("anytime", 1)))
    assert once is not None
    assert ten == pytest.approx(once * ((2.0812 + 0.8416) / (1.96 + 0.8416)) ** 2, rel=1e-3)
    assert always > 1.5 * once


def test_the_plan_says_what_full_information_would_allow() -> None:
    """Without draws a row has the variance .5 and the gain's: of power .8, that is .98."""
    plan = make_plan(ALONE, HALF, gain=0.1, acting=1.0, looks=5)
    assert plan.proof_rows is not None
    assert plan.full_power == pytest.approx(power_at(plan.proof_rows, 0.5, 0.1, looks=5))
    assert plan.power_share == pytest.approx(0.8 / plan.full_power, abs=0.01)
    with pytest.raises(PlanError, match="looks=0 must be at least 1"):
        make_plan(ALONE, HALF, gain=0.1, looks=0)


def test_a_gain_that_is_too_small_is_never_proved() -> None:
    assert rows_for(1e12, 1e-9, 0.8) is None


def test_the_plan_adds_what_is_learned_from_and_counts_days() -> None:
    plan = make_plan(ALONE, HALF, gain=0.1, acting=1.0, holdout=0.5)
    assert plan.proof_rows == max(rows_for(4 / 3, 0.1, 0.8) or 0, fewest_rows(HALF, 1.0))
    assert plan.log_rows == 2 * plan.proof_rows
    assert plan.days == plan.log_rows / 100
    assert plan.reward_lost == pytest.approx(10.0)


def test_the_predicted_width_is_that_of_the_gate() -> None:
    """A policy that takes "mid" everywhere, on a log of 6 rows per task."""
    data = made_log(12_000, rows_per_task=6, truth={"code": (0.5, 0.6, 0.2), "prose": (0.4, 0.5, 0.3)})
    log = bandit_log(data, Cells.of(data.contexts))
    mid, big = (np.tile(np.eye(3)[k], (len(data), 1)) for k in (1, 0))
    seen = interval(gain_estimate(log, mid, big, predict_for_proof(log, mid, big, np.ones(len(data), bool))))
    scheme = measure_scheme(data, 0.3)
    assert scheme.models == 3
    variance = row_variance(measure_log(data), scheme, gain=0.1, acting=1.0)
    assert 1.96 * (variance / len(data)) ** 0.5 == pytest.approx((seen.high - seen.low) / 2, rel=0.05)


def test_the_cost_of_exploration_is_what_it_loses_against_the_static_table() -> None:
    """Means over both categories: .6 of the usual model, .6 and .25 of the others."""
    data = made_log(40_000, prices=(3.0, 1.0, 0.1))
    all_models, plausible = measure_scheme(data, 0.3), measure_scheme(data, 0.3, most=2)
    assert all_models.reward_lost == pytest.approx(0.3 * (0.0 + 0.35) / 3, abs=0.1)
    assert all_models.usd_spent == pytest.approx(0.3 * (1.0 + 0.1 - 2 * 3.0) / 3, rel=0.02)
    assert plausible.models == 2  # "mid" in code, nothing in prose
    assert plausible.reward_lost < 0 < all_models.reward_lost


def test_a_log_of_one_model_has_nothing_to_explore() -> None:
    data = made_log(500)
    alone = dataclasses.replace(data, eligible=np.eye(3, dtype=bool)[data.action], propensity=np.eye(3)[data.action])
    with pytest.raises(PlanError, match="no model but the static table's can be explored"):
        measure_scheme(alone, 0.3)


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        ({"gain": 0.0}, "gain=0 must be above 0"),
        ({"gain": 0.01, "power": 1.0}, "power=1 must be above 0 and below 1"),
        ({"gain": 0.01, "acting": 0.0}, "acting=0 must be above 0 and at most 1"),
        ({"gain": 0.01, "holdout": 2.0}, "holdout=2 must be above 0 and at most 1"),
        ({"gain": 0.5, "acting": 0.3}, "gain=0.5 needs acting above it"),
    ],
)
def test_wishes_that_cannot_be_met_get_a_sentence(wish: dict, said: str) -> None:
    with pytest.raises(PlanError, match=said):
        make_plan(ALONE, HALF, **wish)


def test_a_handful_of_tasks_says_nothing_about_variances() -> None:
    log = made_log()
    few = np.isin(log.contexts.task_id, np.unique(log.contexts.task_id)[:3])
    with pytest.raises(PlanError, match="outcomes of 3 tasks, fewer than 10"):
        measure_log(log.select(few))
