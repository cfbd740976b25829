"""Open questions: which models a small log cannot judge, and whether the tries that are asked for decide."""

import numpy as np
import pytest

from sage.evidence.objective import DEFAULT
from sage.pipeline.training import train
from sage.proof.open_questions import given_better, open_questions
from sage.rl.doubly_robust_learner import learn_doubly_robust
from tests.sage.rl.made_logs import made_log

TRUTH = {"code": (0.5, 0.6, 0.2), "prose": (0.7, 0.4, 0.3)}  # of big, mid and small
HOW = {"static": None, "objective": DEFAULT, "holdout": 0.4}


def learned_from(rows, **how):
    log = made_log(rows, truth=TRUTH, **how)
    return log, learn_doubly_robust(log)


def test_the_promising_model_is_named_and_as_many_tries_decide():
    log, policy = learned_from(1_800)
    assert policy.score_table[:2].argmax(axis=1).tolist() == [0, 0]  # it never leaves the static table
    (first, *others) = open_questions(log, policy, **HOW)
    assert (first.model, first.instead_of, first.cells) == ("mid", ("big",), ("coder/code",))
    assert first.tries == ((log.action == 1) & (log.contexts.category == "code")).sum()
    assert first.share == pytest.approx(0.5, abs=0.01)
    assert all("prose" not in cell for question in others for cell in question.cells)
    assert str(first).startswith(f"explore mid in coder/code: {first.needed:,} tries, ")
    more, acts = learned_from(round(len(log) * first.needed / first.tries), seed=1)
    assert acts.score_table[:2].argmax(axis=1).tolist() == [1, 0]
    assert "mid" not in {question.model for question in open_questions(more, acts, **HOW)}


def test_a_gain_given_that_there_is_one():
    drawn = np.random.default_rng(0).normal(0.02, 0.1, 400_000)
    chance, gain = given_better(np.array([[0.02, np.nan]]), np.array([[0.1, np.inf]]))
    assert chance[0, 0] == pytest.approx((drawn > 0).mean(), abs=0.005)
    assert gain[0, 0] == pytest.approx(drawn[drawn > 0].mean(), abs=0.001)
    assert np.isnan(chance[0, 1])


def test_training_says_what_is_undecided(tmp_path):
    made_log(1_800, truth=TRUTH).write(tmp_path / "log.jsonl")
    trained = train(tmp_path / "log.jsonl", out=tmp_path / "policy")
    (told, *_) = trained.to_json()["open_questions"]
    assert told["model"] == "mid"
    assert f"\nundecided: explore mid in coder/code: {told['needed']:,} tries" in str(trained)
    certain, policy = learned_from(600, epsilon=0.0)  # nothing explores, so that no gain is measured
    assert open_questions(certain, policy, **HOW) == []
