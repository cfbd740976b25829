import itertools
from collections.abc import Callable

import numpy as np
import pytest

from rl_base.evaluation import BanditLog, cross_fit, doubly_robust
from rl_base.evaluation.within_cluster import Components, expected_residuals, variance_components

PROPENSITIES = np.array([[0.7, 0.3], [0.4, 0.6], [0.8, 0.2], [0.5, 0.5]])
REWARDS = np.array([[1.0, 0.0], [0.3, 0.9], [0.2, 0.6], [0.0, 1.0]])
CANDIDATE = np.array([[0.0, 1.0], [0.0, 1.0], [0.5, 0.5], [1.0, 0.0]])


def expectation(of: Callable[[np.ndarray], float]) -> float:
    """Over all ways in which the four rows' actions can be drawn."""
    total = 0.0
    for actions in itertools.product(range(2), repeat=4):
        chosen = np.array(actions)
        total += float(PROPENSITIES[np.arange(4), chosen].prod()) * of(chosen)
    return total


def estimated_total(actions: np.ndarray, rows: np.ndarray) -> float:
    """The doubly robust sum over the given rows; rows 0 and 1, 2 and 3 are a cluster each."""
    log = BanditLog(
        actions=actions[rows],
        rewards=REWARDS[rows, actions[rows]],
        propensities=PROPENSITIES[rows],
        clusters=np.array([0, 0, 1, 1])[rows],
    )
    predictions = cross_fit(log, folds=2, earlier_rows=True)
    return doubly_robust(log, CANDIDATE[rows], predictions).value * len(rows)


def test_earlier_rows_leave_the_estimate_unbiased() -> None:
    found = expectation(lambda actions: estimated_total(actions, np.arange(4)))
    assert found == pytest.approx((CANDIDATE * REWARDS).sum(), abs=1e-12)


def rows_with_retry(actions: np.ndarray) -> np.ndarray:
    """The second row of the first cluster is there only after a failure of the first."""
    return np.arange(4) if REWARDS[0, actions[0]] < 0.5 else np.array([0, 2, 3])


def test_the_estimate_stays_unbiased_where_later_rows_depend_on_earlier_actions() -> None:
    """What use of all other rows of the cluster would break: whether there is a second row tells what the first action was."""
    truth = expectation(lambda actions: float((CANDIDATE * REWARDS)[rows_with_retry(actions)].sum()))
    found = expectation(lambda actions: estimated_total(actions, rows_with_retry(actions)))
    assert found == pytest.approx(truth, abs=1e-12)


def test_components_of_residuals_by_hand() -> None:
    residuals = np.array([1.0, 1.0, 0.5, -1.0, -1.0, -0.5])
    actions, clusters = np.array([0, 0, 1, 0, 0, 1]), np.array([0, 0, 0, 1, 1, 1])
    total = 4.5 / 6
    # Products of two rows: one action 1 and 1; two actions .5 four times.
    assert variance_components(residuals, actions, clusters, 2) == pytest.approx((0.5, total - 0.5, 1e-3 * total))


def test_rows_by_themselves_share_nothing() -> None:
    found = variance_components(np.array([1.0, -1.0, 2.0]), np.zeros(3, int), np.arange(3), 2)
    assert found == pytest.approx((0.0, 0.0, 2.0))


def test_one_outcome_for_a_whole_cluster_is_no_evidence() -> None:
    """Rows of two actions that always agree report the same thing, on which the row's own action has an effect."""
    residuals = np.repeat([1.0, -1.0, 0.5], 2)
    found = variance_components(residuals, np.tile([0, 1], 3), np.repeat(np.arange(3), 2), 2)
    assert found == pytest.approx((0.0, 0.0, 0.75))


def test_guesses_by_hand() -> None:
    """From one earlier row: the covariance with it over its variance; later rows and other clusters say nothing."""
    clusters = np.array([0, 0, 1, 0])
    residuals, actions, rows = np.array([1.0, -2.0, 4.0]), np.array([0, 1, 0]), np.array([0, 2, 3])
    columns = (residuals, actions, rows, np.zeros(3, bool), clusters)
    found = expected_residuals(*columns, 2, Components(2.0, 1.0, 1.0))
    np.testing.assert_allclose(found, [[0, 0], [3 / 4, 2 / 4], [0, 0], [3 / 4, 2 / 4]])


def test_an_outcome_that_comes_first_counts_in_its_own_row() -> None:
    columns = (np.array([1.0, 5.0]), np.array([0, 1]), np.array([0, 0]), np.array([True, False]), np.zeros(1, int))
    found = expected_residuals(*columns, 2, Components(2.0, 1.0, 1.0))
    np.testing.assert_allclose(found, [[3 / 4, 2 / 4]])


def test_guesses_are_those_of_the_joint_normal_distribution() -> None:
    rng = np.random.default_rng(0)
    residuals, actions = rng.normal(size=5), np.array([0, 1, 1, 2, 0])
    parts = Components(0.6, 0.3, 0.2)
    between = parts.cluster + parts.action * (actions[:, None] == actions) + parts.rest * np.eye(5)
    towards = parts.cluster + parts.action * (np.arange(3)[:, None] == actions)
    expected = towards @ np.linalg.solve(between, residuals)
    columns = (residuals, actions, np.arange(5), np.zeros(5, bool), np.zeros(6, int))
    found = expected_residuals(*columns, 3, parts)
    np.testing.assert_allclose(found[5], expected)


def test_a_reward_that_is_known_besides_leaves_the_estimate_unbiased() -> None:
    """Rows in which action 0 answered and its reward is known; the action drawn is a shadow, or 0 again."""

    def total(actions: np.ndarray) -> float:
        log = BanditLog(
            actions=actions,
            rewards=REWARDS[np.arange(4), actions],
            propensities=PROPENSITIES,
            clusters=np.array([0, 0, 1, 1]),
            known_actions=np.array([0, 0, -1, 0]),
            known_rewards=np.where([True, True, False, True], REWARDS[:, 0], 0.0),
        )
        predictions = cross_fit(log, folds=2, earlier_rows=True)
        assert predictions[[0, 1, 3], 0].tolist() == REWARDS[[0, 1, 3], 0].tolist()
        return doubly_robust(log, CANDIDATE, predictions).value * 4

    assert expectation(total) == pytest.approx((CANDIDATE * REWARDS).sum(), abs=1e-12)
