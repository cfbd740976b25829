"""Shrunk estimates, computed propensities and forgetting."""

import numpy as np
import pytest

from sage.log.records import Request
from sage.policies.bandits.bandit_statistics import BanditStatistics
from sage.policies.bandits.contextual_bandit import (
    ContextualBandit,
    ContextualBanditConfig,
    chance_of_highest,
    normal_below,
)
from sage.policies.features import contexts_of
from sage.policies.policy import Contexts

PAIR = np.ones((1, 2), bool)


def context(category: str, role: str = "coder") -> Contexts:
    return contexts_of([Request(role=role, category=category)])


def teach(bandit: ContextualBandit, category: str, model: str, reward: float, times: int = 1) -> None:
    for _ in range(times):
        bandit.update(context(category), [model], np.array([reward]))


def test_the_normal_distribution_function() -> None:
    np.testing.assert_allclose(
        normal_below(np.array([-3.0, -1.0, 0.0, 1.96])), [0.00134990, 0.15865525, 0.5, 0.97500210], atol=2e-7
    )


def test_chances_of_two_are_those_of_their_difference() -> None:
    mean, deviation = np.array([[0.3, 0.5]]), np.array([[0.3, 0.4]])
    exact = float(normal_below(np.array([0.2 / 0.5]))[0])
    np.testing.assert_allclose(chance_of_highest(mean, deviation, PAIR), [[1 - exact, exact]], atol=1e-3)


def test_chances_are_those_of_drawing() -> None:
    generator = np.random.default_rng(0)
    mean, deviation = generator.random((3, 4)), 0.05 + 0.3 * generator.random((3, 4))
    deviation[2, 0] = 0.001  # one is nearly certain
    eligible = np.ones((3, 4), bool)
    eligible[1, 2] = False
    draws = np.where(eligible, mean + deviation * generator.standard_normal((200_000, 3, 4)), -np.inf)
    share = (draws.argmax(axis=2)[:, :, None] == np.arange(4)).mean(axis=0)
    np.testing.assert_allclose(chance_of_highest(mean, deviation, eligible), share, atol=0.005)


def test_chances_add_up_and_are_nil_for_the_others() -> None:
    generator = np.random.default_rng(1)
    mean, deviation = generator.random((50, 9)), 0.01 + generator.random((50, 9))
    eligible = generator.random((50, 9)) < 0.5
    eligible[:, 3] = True
    chances = chance_of_highest(mean, deviation, eligible)
    np.testing.assert_allclose(chances.sum(axis=1), 1.0, atol=1e-12)
    assert (chances[~eligible] == 0).all()
    assert (chances >= 0).all()


def test_given_noise_is_drawn_with_and_estimated_noise_by_its_share() -> None:
    bandit = ContextualBandit(ContextualBanditConfig(noise=0.3))
    _, deviation = bandit.estimates(bandit.cell_rows(context("x")), ("a", "b"))
    np.testing.assert_allclose(deviation, 0.3 * np.sqrt(1 / 10 + 1 / 5))
    bandit = ContextualBandit(ContextualBanditConfig(noise_share=0.5))
    _, deviation = bandit.estimates(bandit.cell_rows(context("x")), ("a", "b"))
    np.testing.assert_allclose(deviation, 0.5 * 0.5 * np.sqrt(1 / 10 + 1 / 5))  # a coin's noise is 0.5


def test_a_model_that_was_not_tried_in_a_hard_category_does_not_look_good_there() -> None:
    bandit = ContextualBandit()
    teach(bandit, "easy", "a", 0.9, 50)
    teach(bandit, "easy", "b", 0.8, 50)
    teach(bandit, "hard", "a", 0.1, 50)
    assert bandit.probabilities(context("hard"), ("a", "b"), PAIR)[0, 1] < 0.5


def test_different_categories_learn_different_models() -> None:
    bandit = ContextualBandit()
    for _ in range(60):
        for category, good in (("x", "a"), ("y", "b")):
            for model in ("a", "b"):
                teach(bandit, category, model, float(model == good))
    assert bandit.probabilities(context("x"), ("a", "b"), PAIR)[0, 0] > 0.99
    assert bandit.probabilities(context("y"), ("a", "b"), PAIR)[0, 1] > 0.99


def test_a_batch_is_answered_as_its_rows_are() -> None:
    bandit = ContextualBandit()
    teach(bandit, "x", "a", 1.0, 5)
    teach(bandit, "y", "b", 0.3, 5)
    rows = [("x", (True, True)), ("y", (True, True)), ("x", (False, True)), ("x", (True, True))]
    batch = contexts_of([Request(role="coder", category=category) for category, _ in rows])
    together = bandit.probabilities(batch, ("a", "b"), np.array([eligible for _, eligible in rows]))
    alone = [bandit.probabilities(context(category), ("a", "b"), np.array([eligible])) for category, eligible in rows]
    np.testing.assert_allclose(together, np.concatenate(alone), atol=1e-12)


def test_a_new_model_is_tried_and_a_removed_one_is_gone() -> None:
    bandit = ContextualBandit()
    teach(bandit, "x", "a", 0.6, 100)
    assert 0.1 < bandit.probabilities(context("x"), ("a", "new"), PAIR)[0, 1] < 0.9
    assert bandit.probabilities(context("x"), ("new",), np.ones((1, 1), bool)).tolist() == [[1.0]]


def test_nothing_known_is_an_even_choice() -> None:
    np.testing.assert_allclose(ContextualBandit().probabilities(context("x"), ("a", "b"), PAIR), [[0.5, 0.5]])


def test_forgetting_fades_the_cell_that_is_updated_only() -> None:
    statistics = BanditStatistics(keep=0.5)
    statistics.add(("coder", "x"), "a", 1.0)
    statistics.add(("coder", "y"), "a", 1.0)
    statistics.add(("coder", "x"), "b", 1.0)
    counts, totals = statistics.of_models(("a", "b"))
    np.testing.assert_allclose(counts, [[0.5, 1.0], [1.0, 0.0]])
    np.testing.assert_allclose(totals, [[0.5, 1.0], [1.0, 0.0]])


def test_a_model_that_got_worse_is_left() -> None:
    forgetful = ContextualBandit(ContextualBanditConfig(keep=0.95))
    faithful = ContextualBandit(ContextualBanditConfig(keep=1.0))
    for bandit in (forgetful, faithful):
        teach(bandit, "x", "b", 0.5, 100)
        teach(bandit, "x", "a", 1.0, 300)
        for _ in range(60):
            teach(bandit, "x", "a", 0.0)
            teach(bandit, "x", "b", 0.5)
    assert forgetful.probabilities(context("x"), ("a", "b"), PAIR)[0, 1] > 0.9
    assert faithful.probabilities(context("x"), ("a", "b"), PAIR)[0, 1] < 0.1


def test_many_models_and_cells_take_no_more_room_than_they_need() -> None:
    statistics = BanditStatistics()
    for k in range(60):
        statistics.add(("coder", f"c{k % 5}"), f"m{k}", 0.5)
    assert statistics.count.shape[0] <= 16
    assert statistics.count.shape[1] == 60
    assert statistics.count.sum() == 60


@pytest.mark.parametrize("keep", [0.0, 1.5, -1.0])
def test_forgetting_more_than_everything_is_refused(keep: float) -> None:
    with pytest.raises(ValueError, match="must be above 0 and at most 1"):
        BanditStatistics(keep)


def test_it_regrets_less_than_ucb1_where_categories_differ() -> None:
    from sage.policies.bandits.ucb_bandit import UCB1

    generator = np.random.default_rng(0)
    chance = {"x": (0.9, 0.1), "y": (0.2, 0.8), "z": (0.5, 0.6)}
    earned = {"ucb1": 0.0, "contextual": 0.0}
    bandits = {"ucb1": UCB1(), "contextual": ContextualBandit()}
    for _ in range(600):
        category = "xyz"[generator.integers(3)]
        scores = generator.random(2) < chance[category]
        at = generator.random()
        for name, bandit in bandits.items():
            chosen = int(at >= bandit.probabilities(context(category), ("a", "b"), PAIR)[0, 0])
            earned[name] += scores[chosen]
            bandit.update(context(category), ["ab"[chosen]], np.array([float(scores[chosen])]))
    assert earned["contextual"] > earned["ucb1"] + 60
