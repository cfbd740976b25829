"""Policies that give a share of the decisions away."""

from dataclasses import replace

import numpy as np
import pytest

from sage.policies.cells import Cells
from sage.policies.checkpoint import load_policy, save_policy
from sage.policies.learned_policy import Training
from sage.policies.share_policy import SharePolicy
from tests.sage.rl.made_logs import MODELS, made_contexts

CONTEXTS = made_contexts(np.array(["code", "prose", "law"]), np.array(["x", "y", "z"]))
ALL = np.ones((3, 3), bool)
POLICY = SharePolicy(
    name="doubly_robust",
    models=MODELS,
    training=Training("doubly_robust", "", "real", "at most 1 points worse", 0, 10),
    cells=Cells((("coder", "code"), ("coder", "prose"))),
    share=np.array([[0.0, 0.25, 0.05], [0.0, 0.0, 0.0]]),
    usual=np.array([0, 1]),
    chance=0.97,
)


def test_the_usual_model_keeps_the_rest():
    assert POLICY.probabilities(CONTEXTS, MODELS, ALL)[0].tolist() == pytest.approx([0.7, 0.25, 0.05])
    # nothing given away in prose, and law was never seen: the fallback decides
    assert POLICY.confidence(CONTEXTS, MODELS, ALL).tolist() == [0.97, 0.0, 0.0]


def test_the_share_of_a_model_that_may_not_answer_stays_with_the_usual_one():
    eligible = np.array([[1, 0, 1]] * 3, bool)
    assert POLICY.probabilities(CONTEXTS, MODELS, eligible)[0].tolist() == pytest.approx([0.95, 0.0, 0.05])
    assert POLICY.confidence(CONTEXTS, MODELS, np.array([[0, 1, 1]] * 3, bool))[0] == 0.0
    pool = ("small", "new", "big")
    assert POLICY.probabilities(CONTEXTS, pool, ALL)[0].tolist() == pytest.approx([0.05, 0.0, 0.95])
    assert POLICY.confidence(CONTEXTS, ("mid", "small"), ALL[:, :2])[0] == 0.0


def test_a_row_alone_gets_the_bits_that_it_gets_among_others():
    whole = POLICY.probabilities(CONTEXTS, MODELS, ALL)
    one = POLICY.probabilities(made_contexts(np.array(["code"]), np.array(["x"])), MODELS, ALL[:1])
    np.testing.assert_array_equal(one[0], whole[0])


def test_a_file_keeps_the_shares(tmp_path):
    save_policy(tmp_path / "p", POLICY)
    again = load_policy(tmp_path / "p")
    assert (again.kind, again.version) == ("shares", POLICY.version)
    for ask in ("probabilities", "confidence"):
        before, after = (getattr(one, ask)(CONTEXTS, MODELS, ALL) for one in (POLICY, again))
        np.testing.assert_array_equal(before, after)


@pytest.mark.parametrize(
    "wrong",
    [
        {"share": np.full((2, 3), 0.5)},
        {"share": np.array([[-0.1, 0, 0]] * 2)},
        {"usual": np.array([0, 3])},
        {"chance": 2.0},
    ],
)
def test_shares_that_are_none_are_refused(wrong):
    with pytest.raises(ValueError, match=r"share must be|usual must number"):
        replace(POLICY, **wrong)
