import numpy as np
import pytest
from threshold_router import curve_of, dear_at

from sage.policies.text.text_policy import TextPolicy
from sage.rl.category_table import table_from_outcomes
from sage.rl.train_text import text_from_outcomes
from tests.sage.rl.text_logs import COST, MODELS, outcomes_of, text_contexts


def test_the_curve_by_hand():
    score = np.array([[0.0, 1.0], [1.0, 1.0], [0.0, 1.0], [1.0, 0.0]])
    cost = np.array([[1.0, 10.0]] * 4)
    dear = np.array([[False] * 4, [True, False, False, False], [True, False, True, False], [True] * 4])
    curve = curve_of(dear, score, cost)
    np.testing.assert_allclose(curve.quality, [2 / 3, 1.0, 4 / 3, 1.0])
    np.testing.assert_allclose(curve.cost, [0.1, 0.325, 0.55, 1.0])
    assert curve.cost_at(0.95) == pytest.approx(0.325)


def test_a_text_policy_is_asked_at_every_worth_of_a_dollar():
    contexts, hard = text_contexts(200)
    cost = np.tile(COST, (200, 1))
    policy = text_from_outcomes(contexts, MODELS, outcomes_of(hard), cost, keep_quality=0.95, incumbent="dear")
    assert isinstance(policy, TextPolicy)
    dear = dear_at(policy, contexts, MODELS, np.array([0.0, 5.0, 1e6]))
    np.testing.assert_array_equal(dear[1], hard)
    assert not dear[2].any()
    table = table_from_outcomes(contexts, MODELS, outcomes_of(hard))
    assert dear_at(table, contexts, MODELS, np.array([0.0, 5.0])).all()
