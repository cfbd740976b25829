"""Text that serves: learned where words tell models apart, the table where they do not."""

from dataclasses import replace

import numpy as np
import pytest

from sage.evidence.objective import points_worse
from sage.log.records import Request
from sage.policies.cell_policy import CellPolicy
from sage.policies.checkpoint import PolicyLoadError, load_policy, save_policy
from sage.policies.features import contexts_of
from sage.policies.policy import select_rows
from sage.policies.text.text_policy import TextPolicy
from sage.proof.evaluation import evaluate_offline
from sage.proof.gate import decide
from sage.rl.category_table import learn_table
from sage.rl.train_text import learn_text, text_from_outcomes
from tests.sage.rl.text_logs import COST, MODELS, outcomes_of, text_contexts, text_log

EVERYONE = np.ones((1, 2), bool)
HARD, EASY = "prove the theorem and so on", "add two numbers and so on"


def asked(task: str, category: str = "a") -> tuple:
    return contexts_of([Request(role="coder", task=task, category=category)]), MODELS, EVERYONE


@pytest.fixture(scope="module")
def policy() -> TextPolicy:
    """At a dollar worth 5: the cheap model, .09 cheaper, is worth .45 more where both solve a task."""
    contexts, hard = text_contexts(300, categories=("a", "b", "c"))
    cost = np.tile(COST, (300, 1))
    found = text_from_outcomes(contexts, MODELS, outcomes_of(hard), cost, usd_worth=5.0, incumbent="dear")
    assert isinstance(found, TextPolicy)
    return found


def test_words_choose_the_model_in_known_and_new_categories(policy):
    for category in ("a", "never seen"):
        assert policy.probabilities(*asked(HARD, category)).tolist() == [[0.0, 1.0]]
        assert policy.probabilities(*asked(EASY, category)).tolist() == [[1.0, 0.0]]
        assert policy.confidence(*asked(EASY, category))[0] > 0.9
        assert policy.confidence(*asked(HARD, category))[0] == 1.0  # the incumbent itself
    assert policy.training.settings["text_decides_in"] == "known and new categories"


def test_the_worth_of_a_dollar_is_the_operating_point(policy):
    assert policy.at(0.0).probabilities(*asked(HARD)).tolist() == [[0.0, 1.0]]
    assert policy.at(100.0).probabilities(*asked(HARD)).tolist() == [[1.0, 0.0]]
    assert policy.at(100.0).version != policy.version


def test_without_a_text_the_table_decides(policy):
    contexts, _, _ = asked("")
    for given in (contexts, contexts._replace(text=None)):
        np.testing.assert_array_equal(
            policy.probabilities(given, MODELS, EVERYONE), policy.table.probabilities(given, MODELS, EVERYONE)
        )
        assert policy.confidence(given, MODELS, EVERYONE) == policy.table.confidence(given, MODELS, EVERYONE)
    other_role = contexts_of([Request(role="planner", task=HARD)])
    assert policy.confidence(other_role, MODELS, EVERYONE) == 0.0


def test_a_checkpoint_acts_as_the_policy_did(policy, tmp_path):
    save_policy(tmp_path / "p", policy)
    loaded = load_policy(tmp_path / "p")
    contexts, _ = text_contexts(50, seed=3, categories=("a", "new"))
    everyone = np.ones((50, 2), bool)
    assert loaded.version == policy.version
    for ask in ("probabilities", "confidence"):
        before, after = (getattr(one, ask)(contexts, MODELS, everyone) for one in (policy, loaded))
        np.testing.assert_array_equal(before, after)
    alone = [loaded.confidence(select_rows(contexts, np.array([i])), MODELS, EVERYONE)[0] for i in range(50)]
    np.testing.assert_allclose(alone, loaded.confidence(contexts, MODELS, everyone))


def test_a_checkpoint_with_arrays_that_do_not_fit_is_refused(policy, tmp_path):
    broken = replace(policy.model, near=policy.model.near[:-1])
    with pytest.raises(ValueError, match="text_near has shape"):
        replace(policy, model=broken)
    save_policy(tmp_path / "p", policy)
    data = (tmp_path / "p").read_bytes()
    (tmp_path / "cut").write_bytes(data[: len(data) // 2])
    with pytest.raises(PolicyLoadError, match="was cut"):
        load_policy(tmp_path / "cut")


def test_a_pool_that_changed_is_no_error(policy):
    contexts, _, _ = asked(HARD)
    chosen = policy.probabilities(contexts, ("new", "cheap"), EVERYONE)
    assert chosen.tolist() == [[0.0, 1.0]]
    assert policy.confidence(contexts, ("new", "other"), EVERYONE).tolist() == [0.0]


def test_words_that_tell_nothing_leave_the_table(caplog):
    data = text_log(told=False)
    found, table = learn_text(data), learn_table(data)
    assert isinstance(found, CellPolicy)
    np.testing.assert_array_equal(found.mean, table.mean)
    np.testing.assert_array_equal(found.deviation, table.deviation)
    assert found.training.settings["text_decides_in"] == "nothing"
    without = learn_text(text_log(words=False))
    assert isinstance(without, CellPolicy)
    assert "fewer than 100 tasks have a text" in caplog.text


def test_a_log_of_hashed_words_teaches_what_the_gate_promotes():
    """Where the cheap model is as good and quality may fall by a little, it is taken for easy tasks only."""
    data = text_log(1_600)
    train, held_out = data.split_by_task(0.6, 0)
    objective = points_worse(8)
    policy = learn_text(train, objective=objective)
    assert isinstance(policy, TextPolicy)
    assert policy.probabilities(*asked(EASY)).tolist() == [[1.0, 0.0]]
    assert policy.probabilities(*asked(HARD)).tolist() == [[0.0, 1.0]]
    found = evaluate_offline(held_out, policy, objective=objective, floor=0.9)
    verdict = decide(found)
    assert verdict.promote, verdict.reason
    assert found.acting_share == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"incumbent": "none"}, "incumbent='none' is not one of the models"),
        ({"models": ("cheap",)}, "quality has shape"),
    ],
)
def test_outcomes_that_do_not_fit_are_refused(given, sentence):
    contexts, hard = text_contexts(20)
    values = {"models": MODELS, "quality": outcomes_of(hard)} | given
    with pytest.raises(ValueError, match=sentence):
        text_from_outcomes(contexts, **values)
