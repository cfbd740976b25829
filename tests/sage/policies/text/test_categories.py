"""Categories inferred from texts: right where they are inferred, and said in the log."""

from dataclasses import replace

import numpy as np
import pytest

from sage.log.decision_log import DecisionLog
from sage.log.records import Request
from sage.orchestrator.model_router import Router
from sage.orchestrator.promotion import Served
from sage.policies.checkpoint import load_policy, save_policy
from sage.policies.features import contexts_of
from sage.policies.text.categories import learn_categories, least_floor
from sage.rl.category_table import table_from_outcomes
from tests.sage.examples import parsed

MODELS = ("small", "large")


def made(num_tasks=240, *, told=True, seed=0):
    generator = np.random.default_rng(seed)
    kind = generator.integers(0, 2, num_tasks)
    says = kind if told else generator.integers(0, 2, num_tasks)
    texts = [
        f"{('write sql for', 'style the page with')[k]} case {'x ' * n}" for k, n in zip(says, says + 3, strict=True)
    ]
    return [
        Request(role="coder", task=text, task_id=f"t{i}", category=("database", "frontend")[k])
        for i, (text, k) in enumerate(zip(texts, kind, strict=True))
    ], kind


@pytest.fixture(scope="module")
def policy():
    """Small is better for databases, large for frontends."""
    requests, kind = made()
    contexts = contexts_of(requests)
    found = table_from_outcomes(contexts, MODELS, np.stack([1.0 - kind, kind], axis=1), incumbent="large")
    return replace(found, categorizer=learn_categories(contexts))


def test_texts_that_tell_are_inferred_and_noise_is_not(policy):
    assert policy.categorizer.accuracy == 1.0
    assert policy.categorizer.share == 1.0
    asked = contexts_of([Request(role="coder", task="write sql for case x x x"), Request(role="coder")])
    assert policy.categorizer.infer(asked).tolist() == ["database", ""]
    noise = learn_categories(contexts_of(made(told=False)[0]))
    assert noise is None or noise.share < 0.2
    assert learn_categories(contexts_of(made(50)[0])) is None
    inferred = contexts_of(made()[0])
    inferred.features[:] = 0.0  # no caller gave these categories
    assert learn_categories(inferred) is None


def test_the_floor_by_hand():
    score, right = np.array([0.9, 0.8, 0.7, 0.6]), np.array([True, True, False, True])
    assert least_floor(score, right) == 0.8
    assert least_floor(score, ~right & False) is None


def test_a_cell_policy_uses_the_inferred_category_and_its_checkpoint_too(policy, tmp_path):
    save_policy(tmp_path / "p", policy)
    loaded = load_policy(tmp_path / "p")
    assert loaded.version == policy.version
    for task, category, chosen in (
        ("write sql for case x x x", "database", 0),
        ("style the page with case", "frontend", 1),
    ):
        blank = contexts_of([Request(role="coder", task=task)])
        named = contexts_of([Request(role="coder", task=task, category=category)])
        for one in (policy, loaded):
            shares = one.probabilities(blank, MODELS, np.ones((1, 2), bool))
            assert shares[0].argmax() == chosen
            np.testing.assert_array_equal(shares, one.probabilities(named, MODELS, np.ones((1, 2), bool)))
            assert one.confidence(blank, MODELS, np.ones((1, 2), bool)) == one.confidence(
                named, MODELS, np.ones((1, 2), bool)
            )


def test_the_log_says_that_a_category_was_inferred(policy, tmp_path):
    router = Router(DecisionLog.open(tmp_path / "sage.db"), parsed(), served=Served(policy), data_source="synthetic")
    inferred = router.route(role="coder", task="write sql for case x x x")
    given = router.route(role="coder", task="write sql for case x x x", category="frontend")
    nothing = router.route(role="coder")
    assert (inferred.category, inferred.category_inferred) == ("database", True)
    assert "category 'database' inferred from the text" in inferred.reason
    assert (given.category, given.category_inferred) == ("frontend", False)
    assert (nothing.category, nothing.category_inferred) == ("", False)
    [logged, *_] = [made for made, _ in router.log.rows()]
    assert (logged.category, logged.category_inferred) == ("database", True)
