"""UCB1 by its formula, with propensities that say what is drawn."""

import numpy as np
import pytest

from sage.log.records import Request
from sage.policies.bandits.ucb_bandit import UCB1
from sage.policies.features import contexts_of

ONE = contexts_of([Request(role="coder")])
MODELS = ("a", "b", "c")
ALL = np.ones((1, 3), bool)


def taught(rewards: dict[str, list[float]], **settings: float) -> UCB1:
    bandit = UCB1(**settings)
    for model, values in rewards.items():
        for value in values:
            bandit.update(ONE, [model], np.array([value]))
    return bandit


def test_models_that_were_never_tried_share_the_first_calls() -> None:
    np.testing.assert_allclose(UCB1().probabilities(ONE, MODELS, ALL), [[1 / 3] * 3])
    np.testing.assert_allclose(taught({"a": [1.0]}).probabilities(ONE, MODELS, ALL), [[0, 0.5, 0.5]])


def test_the_highest_bound_is_taken() -> None:
    # Means 0.5, 0.6, 0.4; bonuses sqrt(2 ln 17 / n) = 1.683, 0.753, 1.190.
    bandit = taught({"a": [0.0, 1.0], "b": [0.6] * 10, "c": [0.4] * 4 + [0.4]})
    assert bandit.probabilities(ONE, MODELS, ALL).tolist() == [[1.0, 0.0, 0.0]]
    bound_a = 0.5 + np.sqrt(2 * np.log(17) / 2)
    bound_c = 0.4 + np.sqrt(2 * np.log(17) / 5)
    assert bound_a > bound_c
    assert bandit.probabilities(ONE, MODELS, np.array([[False, True, True]])).tolist() == [[0.0, 0.0, 1.0]]


def test_the_bonus_shrinks_until_the_better_mean_wins() -> None:
    bandit = taught({"a": [0.2] * 400, "b": [0.8] * 400})
    assert bandit.probabilities(ONE, ("a", "b"), np.ones((1, 2), bool)).tolist() == [[0.0, 1.0]]


def test_exploration_is_mixed_in_honestly() -> None:
    bandit = taught({"a": [0.0] * 50, "b": [1.0] * 50}, exploration=0.2)
    np.testing.assert_allclose(bandit.probabilities(ONE, ("a", "b"), np.ones((1, 2), bool)), [[0.1, 0.9]])


def test_it_looks_at_no_context() -> None:
    bandit = UCB1()
    bandit.update(contexts_of([Request(role="coder", category="x")]), ["a"], np.array([1.0]))
    other = contexts_of([Request(role="planner", category="y")])
    assert bandit.probabilities(other, ("a", "b"), np.ones((1, 2), bool)).tolist() == [[0.0, 1.0]]


def test_removed_models_are_gone_and_new_ones_are_tried() -> None:
    bandit = taught({"a": [1.0], "b": [0.5]})
    assert bandit.probabilities(ONE, ("b", "new"), np.ones((1, 2), bool)).tolist() == [[0.0, 1.0]]
    assert bandit.probabilities(ONE, ("b",), np.ones((1, 1), bool)).tolist() == [[1.0]]


@pytest.mark.parametrize("reward", [np.nan, np.inf])
def test_a_reward_that_is_not_a_number_is_refused(reward: float) -> None:
    bandit = UCB1()
    with pytest.raises(ValueError, match="for 'a' must be a finite number"):
        bandit.update(ONE, ["a"], np.array([reward]))
    assert bandit.statistics.models == {}
