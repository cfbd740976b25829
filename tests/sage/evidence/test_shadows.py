"""Shadows in a proof: they make one possible without exploration, and what is missing of them cannot fake one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sage.evidence.routing_data import RoutingData
from sage.evidence.shadows import Shadows
from sage.proof.evaluation import OfflineEvaluation, evaluate_offline
from sage.proof.gate import decide
from sage.rl.doubly_robust_learner import learn_doubly_robust
from tests.sage.rl.made_logs import MODELS, TRUTH, made_log

SHARE = 0.3
WORSE = {"code": (0.7, 0.6, 0.3), "prose": (0.7, 0.6, 0.3)}


def with_shadows(log: RoutingData, truth: dict[str, tuple[float, ...]], seed: int = 7) -> RoutingData:
    """Either of the first two models may be the shadow where the other answers."""
    rng, rows = np.random.default_rng(seed), len(log)
    other = np.where(log.action == 0, 1, 0)
    action = np.where((rng.random(rows) < SHARE) & (log.action < 2), other, -1)
    mean = np.array([truth[name] for name in log.contexts.category])[np.arange(rows), action]
    probability = np.zeros((rows, len(MODELS)))
    probability[:, 0], probability[:, 1] = SHARE * log.propensity[:, 1], SHARE * log.propensity[:, 0]
    unknown = np.full(rows, np.nan)
    shadows = Shadows(
        action=action,
        probability=probability,
        quality=np.where(action >= 0, (rng.random(rows) < mean).astype(float), np.nan),
        cost_usd=np.where(action >= 0, 0.5, np.nan),
        latency_s=unknown,
        retries=np.zeros(rows, np.int64),
        timed_out=np.zeros(rows, bool),
    )
    return replace(log, shadows=shadows)


def judged(log: RoutingData, truth: dict[str, tuple[float, ...]]) -> OfflineEvaluation:
    """A policy that takes what an earlier log with exploration says."""
    policy = learn_doubly_robust(made_log(4_000, seed=99, truth=truth))
    return evaluate_offline(log, policy, floor=0.5)


def test_shadows_prove_a_gain_that_no_user_had_to_be_explored_for() -> None:
    plain = made_log(4_000, epsilon=0.0)
    refused = decide(judged(plain, TRUTH))
    assert not refused.promote
    found = judged(with_shadows(plain, TRUTH), TRUTH)
    assert decide(found).promote
    assert found.report.interval is not None
    assert found.report.interval.low < 0.15 < found.report.interval.high  # mid is better by .3 in half of the rows
    assert found.shadow_rows == pytest.approx(4_000 * SHARE, rel=0.1)
    assert found.shadow_usd == 0.5 * found.shadow_rows
    assert found.report.diagnostics["candidate"].mean_weight == pytest.approx(1.0, abs=0.1)


def test_shadows_make_the_interval_of_an_explored_log_narrower() -> None:
    log = made_log(4_000)
    without, found = judged(log, TRUTH).report.interval, judged(with_shadows(log, TRUTH), TRUTH).report.interval
    assert without is not None
    assert found is not None
    assert found.high - found.low < 0.85 * (without.high - without.low)


def test_failures_of_shadows_that_nobody_reported_do_not_promote_a_worse_model() -> None:
    whole = with_shadows(made_log(6_000, truth=WORSE, epsilon=0.0), WORSE)
    assert whole.shadows is not None
    failed = (whole.shadows.action == 1) & (whole.shadows.quality == 0)
    quality = np.where(failed, np.nan, whole.shadows.quality)
    gappy = replace(whole, shadows=replace(whole.shadows, quality=quality))
    liked = {"code": (0.6, 0.9, 0.3), "prose": (0.6, 0.9, 0.3)}  # what a policy was taught that takes mid
    found = judged(gappy, liked)
    assert found.report.interval is not None
    assert found.missing.worst_case is not None
    assert found.report.interval.low > 0.1  # as if mid never failed
    assert found.missing.worst_case.low < -0.05
    assert found.missing.rows == failed.sum()
    verdict = decide(found)
    assert not verdict.promote
    assert f"(mid {failed.sum()} of " in verdict.reason
    assert not decide(judged(whole, liked)).promote


def test_a_few_missing_shadows_leave_a_large_gain_proved() -> None:
    log = with_shadows(made_log(4_000, epsilon=0.0), TRUTH)
    assert log.shadows is not None
    lost = np.random.default_rng(0).random(len(log)) < 0.02
    gappy = replace(log, shadows=replace(log.shadows, quality=np.where(lost, np.nan, log.shadows.quality)))
    found = judged(gappy, TRUTH)
    assert decide(found).promote
    assert found.missing.rows == (lost & (log.shadows.action >= 0)).sum()
