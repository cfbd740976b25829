import json
from dataclasses import replace

import numpy as np
import pytest

from sage.evidence.incumbent import incumbent_of
from sage.evidence.logged_rewards import bandit_log
from sage.evidence.task_evidence import EvaluationError
from sage.orchestrator.static_table import StaticTable
from sage.policies.cells import Cells
from sage.policies.serving import GuardRules, serving_distribution
from sage.proof.evaluation import compare, evaluate_offline
from sage.proof.gate import decide
from sage.rl.category_table import learn_table
from sage.rl.doubly_robust_learner import learn_doubly_robust
from tests.sage.rl.made_logs import TRUTH, made_log

GAIN = (TRUTH["code"][1] - TRUTH["code"][0]) / 2  # of the best table over the static one


@pytest.fixture(scope="module")
def log():
    return made_log(8_000)


@pytest.fixture(scope="module")
def policy(log):
    return learn_doubly_robust(log.split_by_task(0.6, 0)[0])


@pytest.fixture(scope="module")
def found(log, policy):
    return evaluate_offline(log, policy, floor=0.5)


def test_the_gain_is_found_on_tasks_kept_out(log, found):
    assert found.num_rows == len(log.split_by_task(0.6, 0)[1]) == 3_200
    assert found.left_out_rows == 4_800
    assert found.report.interval.low < GAIN < found.report.interval.high
    assert found.report.interval.low > 0.05
    code = log.split_by_task(0.6, 0)[1].contexts.category == "code"
    assert found.acting_share == found.differing_share == code.mean()


def test_the_value_is_the_doubly_robust_difference_by_hand(log, policy, found):
    # Where mid replaces big, by weights and cell means that have not seen the task; recomputed from its parts.
    from rl_base.evaluation import doubly_robust
    from sage.evidence.logged_rewards import bandit_log, predict_rewards
    from sage.policies.cells import Cells

    rows = log.split_by_task(0.6, 0)[1]
    bandit = bandit_log(rows, Cells.of(rows.contexts))
    predictions = predict_rewards(bandit)
    code = rows.contexts.category == "code"
    candidate = np.where(code[:, None], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0])
    usual = np.tile([1.0, 0.0, 0.0], (len(rows), 1))
    expected = doubly_robust(bandit, candidate, predictions).value - doubly_robust(bandit, usual, predictions).value
    assert found.report.value == pytest.approx(expected, abs=1e-12)


def test_rows_of_training_tasks_are_never_used_even_from_another_file(log, policy):
    newer = made_log(2_000, seed=5)
    together = replace(
        newer,
        contexts=newer.contexts._replace(
            task_id=np.where(
                np.arange(2_000) < 1_500, log.split_by_task(0.6, 0)[0].contexts.task_id[:2_000], newer.contexts.task_id
            )
        ),
    )
    assert evaluate_offline(together, policy, floor=0.5).num_rows == 500
    with pytest.raises(EvaluationError, match="every task of the 4800 rows"):
        evaluate_offline(log.split_by_task(0.6, 0)[0], policy, floor=0.5)


def test_the_same_file_and_seed_give_the_same_report(log, policy, found):
    again = evaluate_offline(log, policy, floor=0.5)
    assert json.dumps(again.to_json()) == json.dumps(found.to_json())
    assert evaluate_offline(log, policy, floor=0.5, seed=3).report.value != found.report.value  # other folds


def test_the_report_names_what_was_compared(found, policy):
    values = found.to_json()
    assert values["estimand"] == "expected reward per decision, candidate minus baseline"
    assert (values["policy"], values["policy_version"]) == ("doubly_robust", policy.version)
    assert values["incumbent_version"] == "static 1"
    assert values["reward_version"] == "reward_v1-without-cost-latency"
    assert values["evidence"] is True
    assert "note" not in values
    assert values["diagnostics"]["candidate"]["effective_sample_size"] > 50


def test_below_the_floor_the_incumbent_decides(log, policy):
    unsure = replace(policy, spread=1e6)
    incumbent = incumbent_of(log, None)
    rows = (log.contexts, log.models, log.eligible)
    found = serving_distribution(replace(unsure, pessimism=0.0), GuardRules(0.9, fallback=incumbent), *rows)
    np.testing.assert_array_equal(found.probabilities, incumbent.probabilities)
    assert not incumbent.differs(found.probabilities).any()
    some = log.select(np.arange(5))
    with pytest.raises(ValueError, match="was asked about 5 others"):
        incumbent.choices(some.contexts, some.models, some.eligible)


def test_a_table_that_explores_all_the_time_is_still_its_own_incumbent(log):
    table = StaticTable.always(log.models[-1], exploration=1.0)
    assert (incumbent_of(log, table).choice == len(log.models) - 1).all()


def test_a_better_policy_is_promoted_and_the_reason_has_the_numbers(found):
    verdict = decide(found)
    assert verdict.promote
    assert verdict.exit_code == 0
    assert f"{found.report.interval.low:+.4f}" in verdict.reason


def test_a_policy_that_is_not_better_is_refused():
    # All models alike: a table that follows noise, without pessimism and without a floor.
    same = made_log(3_000, truth={"code": (0.5,) * 3, "prose": (0.5,) * 3}, seed=3)
    policy = learn_table(same.split_by_task(0.5, 0)[0])
    verdict = decide(evaluate_offline(same, policy, floor=0.0))
    assert not verdict.promote
    assert verdict.exit_code == 3
    assert "above zero" in verdict.reason or "nothing to promote" in verdict.reason


def test_synthetic_rows_are_no_evidence(log, policy):
    found = evaluate_offline(replace(log, data_source=np.full(len(log), "synthetic")), policy, floor=0.5)
    values = found.to_json()
    assert values["evidence"] is False
    assert "synthetic" in values["note"]
    refused, allowed = decide(found), decide(found, allow_synthetic=True)
    assert not refused.promote
    assert "--allow-synthetic" in refused.reason
    assert allowed.promote
    assert allowed.reason.startswith("SYNTHETIC, no evidence")


def test_a_log_that_cannot_answer_is_refused_with_its_reason(log, policy):
    few = made_log(60, seed=4)
    verdict = decide(evaluate_offline(few, policy, floor=0.5))
    assert not verdict.promote
    assert "effective sample size" in verdict.reason


def test_a_policy_that_changes_nothing_is_not_promoted(log, policy):
    timid = replace(policy, pessimism=1e6)
    verdict = decide(evaluate_offline(log, timid, floor=0.5))
    assert not verdict.promote
    assert "nothing to promote" in verdict.reason


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda d: replace(d, features_version=7), "features version"),
        (lambda d: replace(d, models=("x", "y", "z")), "none of them"),
        (lambda d: replace(d, cost_usd=np.zeros(len(d))), "reward_v1-without-latency"),
        (lambda d: replace(d, cost_usd=np.where(np.arange(len(d)) < 9, 0.1, np.nan)), "cost is missing in"),
    ],
)
def test_a_log_that_does_not_fit_gets_a_sentence(log, policy, change, sentence):
    with pytest.raises(ValueError, match=sentence):
        evaluate_offline(change(log), policy, floor=0.5)


@pytest.mark.parametrize("method", ["t", "anytime"])
@pytest.mark.parametrize("missing", [0, 1])
def test_a_new_model_without_a_failure_is_not_promoted_over_one_that_hardly_ever_fails(method, missing):
    log = made_log(600, seed=2, truth={"code": (0.96, 1.0, 0.5)})
    assert 30 < (log.action == 1).sum() < 70
    bandit = bandit_log(log, Cells.of(log.contexts))
    new, old = (np.tile(np.eye(3)[model], (600, 1)) for model in (1, 0))
    seen = np.arange(600) >= missing
    report, worst = compare(bandit, new, old, observed=seen, method=method)
    assert report.refusal is None
    assert 0.01 < report.value < 0.06
    assert not report.above_zero
    assert worst is None or worst.low < 0
    # With ten times as many tries, none of which failed, it is.
    many = made_log(6_000, seed=2, truth={"code": (0.96, 1.0, 0.5)})
    policies = (np.tile(np.eye(3)[model], (6_000, 1)) for model in (1, 0))
    everything = np.ones(6_000, bool)
    assert compare(bandit_log(many, Cells.of(many.contexts)), *policies, observed=everything)[0].above_zero
