import json
from dataclasses import replace

import numpy as np
import pytest

from rl_base.evaluation import Interval
from sage.dollars import in_usd
from sage.evidence.completeness import Completeness
from sage.evidence.objective import weighted
from sage.policies.learned_policy import hash_tasks
from sage.proof.evaluation import evaluate_offline
from sage.proof.gate import decide, record_of
from sage.proof.look_ledger import enter_look
from sage.rl.category_table import learn_table
from sage.rl.doubly_robust_learner import learn_doubly_robust
from tests.sage.rl.made_logs import made_log


@pytest.fixture(scope="module")
def found():
    log = made_log(2_000)
    return evaluate_offline(log, learn_doubly_robust(log.split_by_task(0.6, 0)[0]), floor=0.5)


@pytest.mark.parametrize(("low", "promote"), [(-0.001, False), (0.0, False), (0.001, True)])
def test_the_lower_bound_decides_not_the_estimate(found, low, promote):
    assert found.report.value > 0
    report = replace(found.report, interval=Interval(low, 0.3, 0.95, "t"))
    verdict = decide(replace(found, report=report))
    assert verdict.promote is promote
    assert verdict.exit_code == (0 if promote else 3)
    assert ("not above zero" in verdict.reason) is not promote


def test_the_bound_is_the_low_end_of_a_95_percent_interval(found):
    assert found.report.interval.level == 0.95
    assert found.report.interval.method == found.method == "anytime"
    assert found.report.estimator == "doubly robust"
    log = made_log(2_000)
    once = evaluate_offline(log, learn_doubly_robust(log.split_by_task(0.6, 0)[0]), floor=0.5, method="t")
    assert once.report.interval.method == "t"
    assert once.report.value == found.report.value
    assert once.report.interval.low > found.report.interval.low
    assert "at one look" in decide(once).reason
    assert "at every look" in decide(found).reason


@pytest.mark.parametrize("unit", [1e-6, 1.0, 100.0])
def test_a_verdict_by_reward_says_what_the_policy_costs(tmp_path, unit):
    """The better model of half the rows is five times as dear, so that the policy costs three times as much."""
    log = made_log(4_000, prices=(0.1 * unit, 0.5 * unit, 0.1 * unit))
    quality = weighted(cost=0.0)
    policy = learn_doubly_robust(log.split_by_task(0.5, 0)[0], objective=quality)
    found = evaluate_offline(log, policy, objective=quality, floor=0.5)
    verdict = decide(found)
    assert verdict.promote
    (checkpoint := tmp_path / "policy").write_bytes(b"")
    record = json.loads(record_of("0" * 64, found, verdict).write(checkpoint).read_text())
    for told in (record, found.to_json()["parts"]):
        assert told["cost_ratio"]["low"] < 3.0 < told["cost_ratio"]["high"] < 3.5
        assert told["cost_usd"]["low"] < 0.2 * unit < told["cost_usd"]["high"]
    low, value, high = (in_usd(told["cost_usd"][name], "+") for name in ("low", "value", "high"))
    assert f"; cost {value} USD per decision ({low} to {high}), " in record["reason"]
    assert " times the incumbent's (" in record["reason"]


def test_a_cost_that_nobody_reported_is_called_unknown(found):
    verdict = decide(found)
    assert verdict.reason.endswith("; cost unknown, as no row has one")
    assert record_of("0" * 64, found, verdict).cost_usd is None


def test_missing_costs_widen_what_is_said_of_cost():
    log = made_log(2_000, prices=(0.1, 0.5, 0.1))
    quality = weighted(cost=0.0)
    policy = learn_doubly_robust(log.split_by_task(0.5, 0)[0], objective=quality)
    whole = evaluate_offline(log, policy, objective=quality, floor=0.5).parts
    unseen = np.arange(len(log)) % 10 == 0
    gaps = evaluate_offline(
        replace(log, cost_usd=np.where(unseen, np.nan, log.cost_usd)), policy, objective=quality, floor=0.5
    )
    assert gaps.parts.cost_ratio.low < whole.cost_ratio.low < whole.cost_ratio.high < gaps.parts.cost_ratio.high  # pyrefly: ignore
    assert f"{gaps.parts.cost_usd.missing} missing)" in decide(gaps).reason  # pyrefly: ignore


def test_the_ledger_counts_looks_at_one_policy_and_the_fixed_n_interval_holds_for_one(found, tmp_path):
    once = replace(found, method="t")
    db = tmp_path / "sage.db"
    assert enter_look(db, once) == 1
    assert enter_look(db, once) == 1  # the same question again
    assert decide(once, looks=1).promote
    assert enter_look(db, replace(once, data_sha256="more rows")) == 2
    assert enter_look(db, replace(once, policy_version="another")) == 1
    refused = decide(once, looks=2)
    assert not refused.promote
    assert "this is look 2" in refused.reason
    assert decide(found, looks=2).promote


def test_a_policy_that_needs_models_left_out_of_exploration_is_refused() -> None:
    """Learned while all models were explored, judged on a log in which the better one no longer was in half of the rows."""
    log = made_log(4_000)
    policy = learn_doubly_robust(log.split_by_task(0.6, 0)[0])
    kept = (log.action != 1) | (np.arange(4_000) % 4 < 2)
    later = log.select(kept)
    propensity = later.propensity.copy()
    narrowed = np.flatnonzero(kept) % 4 >= 2
    propensity[narrowed, 1] = 0.0
    propensity[narrowed] /= propensity[narrowed].sum(axis=1, keepdims=True)
    refused = decide(evaluate_offline(replace(later, propensity=propensity), policy, floor=0.5))
    assert not refused.promote
    assert "of what the candidate chooses are models that this log could not have chosen" in refused.reason


WORSE = {"code": (0.7, 0.6, 0.6), "prose": (0.7, 0.6, 0.6)}


def failures_of_mid(log):
    return (log.action == 1) & (log.quality == 0)


def judged(log, train, floor=0.5):
    policy = learn_table(train.select(train.observed))
    training = replace(policy.training, task_hashes=hash_tasks(train.contexts.task_id))
    return evaluate_offline(log, replace(policy, training=training), floor=floor)


def test_failures_that_nobody_reported_do_not_promote_a_worse_model():
    # All failures of a model with .60 against .70 are missing: what is left of it looks perfect.
    whole = made_log(12_000, truth=WORSE, epsilon=0.22)
    gaps = replace(whole, quality=np.where(failures_of_mid(whole), np.nan, whole.quality))
    found = judged(gaps, gaps.split_by_task(0.6, 0)[0])
    verdict = decide(found)
    assert found.report.interval.low > 0.2
    assert found.missing.worst_case.low < -0.2
    assert not verdict.promote
    assert verdict.reason.startswith(
        f"the verdict depends on {found.missing.rows} missing outcomes (mid {found.missing.rows} of "
    )
    assert "not by chance" in verdict.reason
    assert found.to_json()["missing"]["models"]["big"]["missing"] == 0


def test_rows_that_were_dropped_before_the_export_are_noticed():
    whole = made_log(12_000, truth=WORSE, epsilon=0.22)
    dropped = whole.select(~failures_of_mid(whole))
    verdict = decide(judged(dropped, dropped.split_by_task(0.6, 0)[0]))
    assert not verdict.promote
    assert verdict.reason.startswith("rows are not in the log: mid was chosen in ")


def test_a_whole_log_says_that_nothing_is_missing(found):
    assert (found.missing.rows, found.missing.worst_case, found.missing.gone) == (0, None, "")


def test_what_has_no_worst_case_is_refused_if_anything_is_missing(found):
    """A deleted cascade may have had any number of attempts."""
    lacking = Completeness(checked=True, numbers=2_000, gone=1, bounded=False)
    assert decide(replace(found, completeness=replace(lacking, bounded=True))).promote
    verdict = decide(replace(found, completeness=lacking))
    assert not verdict.promote
    assert verdict.reason.startswith(
        "of the log's 2,000 decisions 1 are not here, and nothing says why: cascades may be"
    )
    assert decide(replace(found, completeness=replace(lacking, gone=0))).promote


def test_a_gain_that_no_missing_outcome_could_undo_is_promoted():
    log = made_log(8_000)
    missing = np.random.default_rng(0).random(len(log)) < 0.02
    found = judged(replace(log, quality=np.where(missing, np.nan, log.quality)), log.split_by_task(0.6, 0)[0])
    verdict = decide(found)
    assert verdict.promote
    assert 0 < found.missing.worst_case.low < found.report.interval.low
    assert f"whatever the {found.missing.rows} missing outcomes were" in verdict.reason


def test_probabilities_that_are_not_those_of_the_draws_are_refused(found):
    weights = found.report.diagnostics | {
        "candidate": replace(found.report.diagnostics["candidate"], mean_weight=0.74, mean_weight_error=0.04)
    }
    verdict = decide(replace(found, report=replace(found.report, diagnostics=weights)))
    assert not verdict.promote
    assert "the mean weight of the candidate is 0.740 +- 0.040, not 1" in verdict.reason


def test_a_difference_in_a_handful_of_tasks_is_not_judged():
    # Many rows, but the policies differ in those of nine tasks only: their spread says little about other tasks.
    log = made_log(9_600, rows_per_task=60)
    names = np.unique(log.contexts.task_id)
    policy = learn_table(made_log(4_000, seed=1))
    for count, refused in ((9, True), (10, False)):
        code = names[np.array([int(name.rpartition("-")[2]) % 2 == 0 for name in names])][:count]  # where mid is better
        rows = log.select(np.isin(log.contexts.task_id, code) | (log.contexts.category == "prose"))
        found = evaluate_offline(rows, policy, floor=0.5)
        assert found.acting_share > 0.09
        assert ("differ in rows of 9 tasks" in (found.report.refusal or "")) is refused
        assert (found.report.interval is None) is refused
