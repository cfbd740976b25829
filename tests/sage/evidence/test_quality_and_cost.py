"""Quality and cost apart: known answers, missing parts, and both bounds of the gate."""

from dataclasses import replace

import numpy as np
import pytest

from rl_base.evaluation import Estimate
from sage.evidence.objective import points_worse, usd_per_task, weighted
from sage.evidence.quality_and_cost import Amount, cost_part, estimate_both, per_task
from sage.evidence.reward import RewardError
from sage.evidence.task_evidence import EvaluationError
from sage.policies.cells import Cells
from sage.policies.learned_policy import hash_tasks
from sage.proof.evaluation import evaluate_offline
from sage.proof.gate import decide, record_of
from sage.rl.category_table import learn_table
from tests.sage.rl.made_logs import made_log

PRICES = (0.40, 0.10, 0.02)
EQUAL = {"code": (0.7, 0.7, 0.2), "prose": (0.7, 0.7, 0.2)}  # mid is as good as big, and a quarter of its price
BIG, MID = np.eye(3)[0], np.eye(3)[1]


def always(model, rows):
    return np.tile(model, (len(rows), 1))


def both(log, method="t"):
    return estimate_both(log, always(MID, log), always(BIG, log), level=0.95, method=method)


def test_quality_and_cost_are_found_on_the_same_rows():
    log = made_log(12_000, truth=EQUAL, prices=PRICES)
    found = both(log)
    assert found.quality.low < 0 < found.quality.high
    assert found.quality.value == pytest.approx(0, abs=0.03)
    assert found.cost_usd.value == pytest.approx(-0.30, abs=0.005)
    assert found.cost_usd.low < found.cost_usd.value < found.cost_usd.high < 0
    assert found.usd_per_task.value == pytest.approx(0.10, abs=0.005)
    assert found.incumbent_usd_per_task == pytest.approx(0.40, abs=0.005)
    wide = both(log, "anytime")
    assert wide.cost_usd.value == found.cost_usd.value
    assert wide.cost_usd.high > found.cost_usd.high


def test_the_cost_of_a_task_is_that_of_all_its_decisions():
    log = made_log(9_000, truth=EQUAL, prices=PRICES, rows_per_task=3)
    assert both(log).usd_per_task.value == pytest.approx(0.30, abs=0.01)
    estimate = Estimate("mean", 2.0, np.array([1.0, -1.0]))  # tasks of 1 and 3 decisions with sums 4 and 4
    uneven = cost_part(made_log(4, prices=PRICES), Cells.of(made_log(4).contexts)).log
    uneven = replace(uneven, clusters=np.array([0, 1, 1, 1]))
    found = per_task(estimate, uneven)
    assert found.value == 4.0
    np.testing.assert_allclose(found.influence, [0.0, 0.0])


def test_a_missing_part_is_taken_at_its_worst_for_the_claim():
    log = made_log(6_000, truth=EQUAL, prices=PRICES)
    gone = np.random.default_rng(0).random(len(log)) < 0.05
    costs = replace(log, cost_usd=np.where(gone, np.nan, log.cost_usd))
    whole, part = both(log), both(costs)
    assert (part.quality, part.cost_usd.missing) == (whole.quality, int(gone.sum()))
    assert part.cost_usd.low < whole.cost_usd.low - 0.01
    assert part.cost_usd.high > whole.cost_usd.high + 0.01
    most = np.nanmax(costs.cost_usd)  # what a missing cost is at most
    for filled in (0.0, most, most / 2):
        possible = both(replace(costs, cost_usd=np.where(gone, filled, log.cost_usd)))
        assert part.cost_usd.low < possible.cost_usd.value < part.cost_usd.high
    qualities = both(replace(log, quality=np.where(gone, np.nan, log.quality)))
    assert qualities.cost_usd == whole.cost_usd
    assert qualities.quality.low < whole.quality.low
    assert both(made_log(2_000)).cost_usd is None


def test_a_time_out_has_no_quality_and_may_have_no_cost():
    log = made_log(6_000, truth=EQUAL, prices=PRICES)
    late = (log.action == 1) & (np.arange(len(log)) % 2 == 0)
    timed = replace(
        log,
        timed_out=late,
        quality=np.where(late, np.nan, log.quality),
        cost_usd=np.where(late, np.nan, log.cost_usd),
    )
    found = both(timed)
    assert found.quality.missing == 0
    assert found.quality.value == pytest.approx(-0.35, abs=0.03)  # half of mid's answers never come
    assert found.cost_usd.missing == late.sum()
    assert found.cost_usd.high > both(log).cost_usd.high


def judged(objective, *, rows=12_000, truth=EQUAL, method="t", floor=0.5):
    log = made_log(rows, truth=truth, prices=PRICES)
    policy = learn_table(made_log(4_000, truth=dict.fromkeys(truth, (0.5, 0.9, 0.1)), prices=PRICES, seed=1))
    training = replace(policy.training, reward_version="given", task_hashes=hash_tasks(np.array(["none"])))
    return evaluate_offline(log, replace(policy, training=training), objective=objective, floor=floor, method=method)


def test_the_gate_wants_both_bounds_under_a_margin():
    found = judged(points_worse(5))
    within, without = decide(found), decide(replace(found, objective=points_worse(0)))
    assert within.promote
    assert "at most 5.0 points worse in quality, as cheap as possible" in within.reason
    assert "quality" in within.reason
    assert "upper bound -0." in within.reason
    assert not without.promote
    assert "not shown for quality, and the objective is" in without.reason
    dearer = replace(found.parts, cost_usd=Amount(value=-0.1, low=-0.3, high=0.0, missing=0))
    refused = decide(replace(found, parts=dearer))
    assert not refused.promote
    assert "not shown for cost" in refused.reason


BETTER = {"code": (0.5, 0.7, 0.2), "prose": (0.5, 0.7, 0.2)}


def test_the_gate_wants_both_bounds_under_a_budget():
    found = judged(usd_per_task(0.12), truth=BETTER)
    assert decide(found).promote
    exact = usd_per_task(found.parts.usd_per_task.high)
    assert decide(replace(found, objective=exact)).promote  # no more than the limit
    tight = decide(replace(found, objective=usd_per_task(0.1)))
    assert not tight.promote
    assert "not shown for cost, and the objective is best quality at no more than 0.1 USD per task" in tight.reason
    same = decide(judged(usd_per_task(0.12)))
    assert not same.promote
    assert "not shown for quality" in same.reason


def test_the_report_of_a_limit_is_about_quality_and_the_record_names_the_objective(tmp_path):
    found = judged(points_worse(5), method="anytime")
    assert found.report.value == pytest.approx(found.parts.quality.value)
    assert found.bound.low == pytest.approx(found.parts.quality.low)
    assert found.to_json()["objective"] == points_worse(5).name
    assert found.to_json()["parts"]["cost_usd"]["high"] == found.parts.cost_usd.high
    checkpoint = tmp_path / "policy"
    checkpoint.write_text("any")
    assert record_of("0" * 64, found, decide(found)).objective == points_worse(5).name


def test_weights_change_the_reward_and_costs_are_needed_for_a_limit():
    log = made_log(6_000, truth=EQUAL, prices=PRICES)
    policy = learn_table(log.split_by_task(0.5, 0)[0])
    assert policy.training.reward_version == "reward_v1-without-latency"
    with pytest.raises(EvaluationError, match=r"learned for reward_v1-without-latency, and log and objective ask for"):
        evaluate_offline(log, policy, objective=weighted(cost=2.0), floor=0.5)
    given = replace(policy, training=replace(policy.training, reward_version="given"))
    cheap, dear = (evaluate_offline(log, given, objective=weighted(cost=c), floor=0.0) for c in (0.2, 2.0))
    assert dear.report.value > cheap.report.value + 0.3
    with pytest.raises(RewardError, match=r"no row has a cost, and the objective is 'at most 1.0 points worse"):
        evaluate_offline(made_log(2_000), given, objective=points_worse(1), floor=0.5)


def test_a_model_that_never_failed_and_always_cost_the_same_may_still_fail_and_cost_more():
    log = made_log(600, truth={"code": (0.97, 1.0, 0.5)}, prices=PRICES)
    flat = replace(log, cost_usd=np.where(log.action == 1, 0.1, log.cost_usd))
    tries = int((log.action == 1).sum())
    for method in ("t", "anytime"):
        found = both(flat, method)
        # Of n tries without a failure, 3.7 / n may fail; a call may cost as much as the dearest one of the log.
        assert found.quality.value - found.quality.low > 3.5 / tries
        assert found.cost_usd.high - found.cost_usd.value > 3.5 / tries * (flat.cost_usd.max() - 0.1)
        assert found.usd_per_task.high - found.usd_per_task.value > 3.5 / tries * (flat.cost_usd.max() - 0.1)
