"""Policies for "at most so many points worse, as cheap as possible"."""

from dataclasses import replace

import numpy as np
import pytest

from sage.evidence.objective import points_worse
from sage.evidence.shadows import Shadows
from sage.policies.cells import Cells
from sage.policies.gains import group_gains, shrink
from sage.policies.share_policy import SharePolicy
from sage.proof.evaluation import evaluate_offline
from sage.proof.gate import decide
from sage.rl.doubly_robust_learner import learn_doubly_robust
from sage.rl.joint_gains import joint_gains
from sage.rl.margin_learner import learn_within_margin, usual_models
from tests.sage.rl.made_logs import made_log

PRICES = (0.40, 0.10, 0.02)
# mid loses nothing in code and 20 points in prose; small is cheap and bad everywhere
TRUTH = {"code": (0.7, 0.72, 0.3), "prose": (0.7, 0.5, 0.3)}


@pytest.fixture(scope="module")
def log():
    return made_log(6_000, truth=TRUTH, prices=PRICES, epsilon=0.5)


@pytest.fixture(scope="module")
def policy(log):
    found = learn_doubly_robust(log.split_by_task(0.6, 0)[0], objective=points_worse(2))
    assert isinstance(found, SharePolicy)
    return found


def true_loss(policy) -> float:
    """Of quality, with as many decisions about code as about prose."""
    truth = np.array([TRUTH[category] for _, category in policy.cells.pairs])
    return float((policy.share * (truth[:, :1] - truth)).sum(axis=1).mean())


def test_the_margin_is_spent_where_it_saves_most(policy):
    code, prose = policy.share
    assert code[1] > 0.25  # mid costs nothing in quality there
    assert prose.sum() < code[1] / 5
    assert true_loss(policy) < 0.02
    assert policy.training.settings["cost_usd"] < -0.03
    assert policy.chance > 0.95


def test_the_gate_says_that_the_margin_holds(log, policy):
    rows = log.split_by_task(0.6, 0)[1]
    verdict = decide(evaluate_offline(rows, policy, objective=points_worse(2), floor=0.9, method="t"))
    assert verdict.promote, verdict.reason


def test_with_few_rows_a_part_of_the_decisions_is_shown_to_be_within_the_margin():
    data = made_log(600, truth=TRUTH, prices=PRICES, epsilon=0.5)
    found = learn_within_margin(data, objective=points_worse(4))
    assert 0.02 < found.share[0].sum() < 0.5
    assert true_loss(found) < 0.04


def test_outcomes_of_shadows_are_evidence(log):
    """The static table always answers, and every second call has a shadow: nothing else tells mid from small."""
    rng, rows = np.random.default_rng(1), np.arange(len(log))
    asked = np.where(rng.random(len(log)) < 0.5, rng.integers(1, 3, len(log)), -1)
    answer = replace(
        log,
        action=np.zeros(len(log), np.int64),
        propensity=np.eye(3)[np.zeros(len(log), np.int64)],
        quality=(rng.random(len(log)) < 0.7).astype(float),
        cost_usd=np.full(len(log), 0.4),
    )
    truth = np.array([TRUTH[category] for category in log.contexts.category.tolist()])[rows, asked]
    seen = asked >= 0
    shadows = Shadows(
        action=asked,
        probability=np.tile([0.0, 0.25, 0.25], (len(log), 1)),
        quality=np.where(seen, rng.random(len(log)) < truth, np.nan),
        cost_usd=np.where(seen, np.array(PRICES)[asked], np.nan),
        latency_s=np.full(len(log), np.nan),
        retries=np.zeros(len(log), np.int64),
        timed_out=np.zeros(len(log), bool),
    )
    assert not learn_within_margin(answer, objective=points_worse(2)).share.any()
    found = learn_within_margin(replace(answer, shadows=shadows), objective=points_worse(2))
    assert found.share[0, 1] > 0.5
    assert true_loss(found) < 0.02


def test_cells_in_which_the_incumbent_varies_keep_it():
    incumbent, cell = np.array([0, 0, 1, 2, 2, 0]), np.array([0, 0, 0, 1, 1, 1])
    eligible = np.ones((6, 3), bool)
    usual, steady = usual_models(incumbent, cell, eligible, 2)
    assert usual.tolist() == [0, 2]
    assert steady.tolist() == [False, False]
    eligible[2, 0] = False  # the usual model could not be taken there
    assert usual_models(incumbent, cell, eligible, 2)[1].tolist() == [True, False]


def test_joint_gains_are_shrunk_as_single_ones_are(log):
    cells = Cells.of(log.contexts)
    cell = cells.index(log.contexts)
    gain = np.random.default_rng(0).normal([0.0, 0.1, -0.2], 0.5, (len(log), 3)) + 0.05 * cell[:, None]
    found = joint_gains(gain, cell, 2, log.contexts.task_id)
    single = shrink(group_gains(gain, cell, 2, log.contexts.task_id))
    assert found.gain == pytest.approx(single.mean.ravel())
    assert np.linalg.eigvalsh(found.error).min() > 0
    # The error counts that the spread between cells may be larger than it happens to be in the log.
    assert (np.sqrt(np.diag(found.error)) >= 0.9 * single.deviation.ravel()).all()


def test_two_models_that_do_the_same_have_the_same_noise():
    rng = np.random.default_rng(0)
    gain = np.repeat(rng.normal(size=(400, 1)), 2, axis=1)
    found = joint_gains(gain, np.zeros(400, np.int64), 1, np.arange(400).astype(str))
    assert found.noise[0, 1] / found.noise[0, 0] == pytest.approx(405 / 410)  # ten tasks of prior, half as correlated
    apart = rng.normal(size=(400, 2))
    found = joint_gains(apart, np.zeros(400, np.int64), 1, np.arange(400).astype(str))
    assert abs(found.noise[0, 1] / found.noise[0, 0]) < 0.15
