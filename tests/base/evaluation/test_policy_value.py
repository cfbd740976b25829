import json
import math
import re
from dataclasses import FrozenInstanceError
from pathlib import Path

import numpy as np
import pytest

from rl_base.evaluation import (
    BanditLog,
    Estimate,
    compare_bandit,
    compare_episodes,
    cross_fit,
    doubly_robust,
    evaluate_bandit,
    evaluate_episodes,
    interval,
    paired_difference,
    weighted_per_decision,
)
from tests.base.evaluation.ope_logs import make_bandit, make_episodes, make_target

BANDIT_ROWS = ["direct method", "IPS", "SNIPS", "doubly robust", "SWITCH-DR"]
EPISODE_ROWS = ["trajectory IS", "weighted IS", "per-decision IS", "weighted per-decision IS"]


def test_a_bandit_report_holds_every_estimator_and_answers_with_the_doubly_robust_one() -> None:
    log = make_bandit()
    target = make_target(log)
    report = evaluate_bandit(log, target, seed=3)
    assert [row.estimator for row in report.rows] == BANDIT_ROWS
    expected = doubly_robust(log, target, cross_fit(log, seed=3))
    assert report.value == expected.value
    assert report.interval == interval(expected)
    assert report.refusal is None


def test_an_episode_report_answers_with_values_where_it_has_them() -> None:
    log, target = make_episodes()
    report = evaluate_episodes(log, target)
    assert [row.estimator for row in report.rows] == EPISODE_ROWS
    assert report.interval == interval(weighted_per_decision(log, target))
    values = np.zeros_like(target), np.zeros_like(target)
    with_values = evaluate_episodes(log, target, values=values)
    assert with_values.estimator == "sequential DR"
    assert with_values.value == pytest.approx(with_values.rows[2].value)  # with values of 0 it is per-decision IS


def test_another_estimator_method_and_level_can_be_asked_for() -> None:
    log = make_bandit(reward_range=(0.0, 1.0))
    target = make_target(log)
    report = evaluate_bandit(log, target, estimator="IPS", method="bernstein", level=0.9)
    assert report.interval is not None
    assert (report.estimator, report.interval.method, report.interval.level) == ("IPS", "bernstein", 0.9)
    (self_normalised,) = [row for row in report.rows if row.estimator == "SNIPS"]
    assert (self_normalised.low, self_normalised.high) == (-math.inf, math.inf)
    with pytest.raises(ValueError, match="estimator='best': choose from"):
        evaluate_bandit(log, target, estimator="best")
    with pytest.raises(ValueError, match="needs the range"):
        evaluate_bandit(log, target, estimator="SNIPS", method="bernstein")


def test_below_an_effective_size_of_50_there_is_no_number() -> None:
    log = make_bandit(40)
    report = evaluate_bandit(log, make_target(log))
    assert report.refusal is not None
    assert report.refusal.startswith("target: the effective sample size is")
    assert (report.rows, report.interval, report.value, report.above_zero) == ((), None, None, False)
    assert "refused: target: the effective sample size is" in str(report)
    assert json.loads(report.to_json())["refusal"] == report.refusal


def test_a_comparison_refuses_if_either_policy_is_out_of_reach() -> None:
    log = make_bandit(60)
    report = compare_bandit(log, log.propensities, np.tile([0.0, 0.0, 1.0], (60, 1)))
    assert report.refusal is not None
    assert report.refusal.startswith("baseline: ")
    assert set(report.diagnostics) == {"candidate", "baseline"}


def test_a_policy_does_not_differ_from_itself() -> None:
    log = make_bandit()
    target = make_target(log)
    report = compare_bandit(log, target, target)
    assert report.interval is not None
    assert (report.value, report.interval.low, report.interval.high) == (0.0, 0.0, 0.0)
    assert not report.above_zero
    episodes, probabilities = make_episodes()
    assert compare_episodes(episodes, probabilities, probabilities).value == 0.0


def test_a_better_candidate_is_above_zero_and_a_worse_one_is_not() -> None:
    log = make_bandit(3000)
    better, worse = np.tile([0.1, 0.2, 0.7], (3000, 1)), np.tile([0.7, 0.2, 0.1], (3000, 1))
    assert compare_bandit(log, better, worse).above_zero
    assert not compare_bandit(log, worse, better).above_zero


def test_an_open_question_is_not_above_zero() -> None:
    log = make_bandit()
    report = compare_bandit(log, make_target(log), make_target(log, seed=9))
    assert report.interval is not None
    assert report.interval.low < 0 < report.interval.high
    assert not report.above_zero


def test_pairing_cancels_what_both_policies_share() -> None:
    log = make_bandit(1000)
    baseline = make_target(log)
    candidate = 0.9 * baseline + 0.1 * make_target(log, seed=9)
    predictions = cross_fit(log)
    ours, theirs = (doubly_robust(log, policy, predictions) for policy in (candidate, baseline))
    difference = paired_difference(ours, theirs)
    assert difference.value == pytest.approx(ours.value - theirs.value)
    assert difference.standard_error < 0.3 * math.hypot(ours.standard_error, theirs.standard_error)
    assert compare_bandit(log, candidate, baseline, predictions=predictions).value == pytest.approx(difference.value)


def test_a_difference_adds_bias_bounds_and_spans() -> None:
    ours = Estimate("x", 5.0, np.array([1.0, -1.0]), bias_bound=0.5, span=2.0)
    theirs = Estimate("x", 3.0, np.array([0.5, -0.5]), bias_bound=0.25, span=1.0)
    difference = paired_difference(ours, theirs)
    assert (difference.value, difference.bias_bound, difference.span) == (2.0, 0.75, 3.0)
    assert difference.influence.tolist() == [0.5, -0.5]


def test_estimates_of_different_logs_are_not_compared() -> None:
    ours, theirs = Estimate("x", 1.0, np.zeros(3)), Estimate("x", 1.0, np.zeros(4))
    with pytest.raises(ValueError, match="candidate has 3 clusters and baseline 4: estimate both on the same log"):
        paired_difference(ours, theirs)


def test_the_text_is_a_table() -> None:
    log = make_bandit()
    lines = str(evaluate_bandit(log, make_target(log))).splitlines()
    assert lines[0] == "expected reward per decision"
    assert lines[1].split() == ["estimator", "value", "std.", "error", "low", "high"]
    assert len({len(line) for line in lines[1:7]}) == 1
    assert lines[5].startswith("* doubly robust")
    assert lines[7] == "* answers; intervals: 95 %, t"
    assert lines[8].startswith("target: effective sample size ")


def test_json_holds_everything_and_only_json_numbers() -> None:
    log = make_bandit(reward_range=(0.0, 1.0))
    target = make_target(log)
    report = evaluate_bandit(log, target, estimator="IPS", method="bernstein")
    written = json.loads(report.to_json(), parse_constant=lambda constant: pytest.fail(constant))
    assert written["value"] == report.value
    assert written["interval"]["low"] == report.rows[1].low
    assert written["rows"][2]["low"] is None  # infinite
    assert written["diagnostics"]["target"]["effective_sample_size"] > 50
    assert written["refusal"] is None


def test_a_report_cannot_be_changed() -> None:
    log = make_bandit()
    report = evaluate_bandit(log, make_target(log))
    with pytest.raises(FrozenInstanceError):
        report.refusal = "no"  # pyrefly: ignore


def test_the_page_shows_what_the_code_prints() -> None:
    page = (Path(__file__).parents[3] / "docs" / "off_policy_evaluation.md").read_text()
    blocks = re.findall(r"^```(\w*)\n(.*?)^```", page, flags=re.DOTALL | re.MULTILINE)
    script = next(text for language, text in blocks if language == "python")
    shown, refused = (text for language, text in blocks if not language)
    names: dict = {}
    exec(script, names)
    log, candidate = names["log"], names["candidate"]
    assert str(evaluate_bandit(log, candidate)) == shown.strip()
    short = BanditLog(
        actions=log.actions[:40], rewards=log.rewards[:40], propensities=log.propensities[:40], reward_range=(0, 1)
    )
    answer = str(evaluate_bandit(short, candidate[:40]))
    assert answer.split() == refused.split()  # the page breaks the lines
