"""Oracle 46: importance sampling of episodes against a two-state MDP whose trajectories are all enumerated."""

import math
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from rl_base.evaluation import (
    EpisodeLog,
    Estimate,
    per_decision_importance_sampling,
    sequential_doubly_robust,
    trajectory_importance_sampling,
    weighted_importance_sampling,
    weighted_per_decision,
)
from rl_base.evaluation.sequential import returns
from tests.base.evaluation.ope_logs import make_episodes

Estimator = Callable[[EpisodeLog, np.ndarray], Estimate]
WITHOUT_VALUES: tuple[Estimator, ...] = (
    trajectory_importance_sampling,
    weighted_importance_sampling,
    per_decision_importance_sampling,
    weighted_per_decision,
)
HORIZON, GAMMA = 3, 0.9
NEXT = np.array([[[0.5, 0.3, 0.2], [0.1, 0.9, 0.0]], [[0.0, 0.6, 0.4], [0.7, 0.3, 0.0]]])  # state, action, next; 2: end
REWARD = np.array([[1.0, -2.0], [0.5, 3.0]])  # state, action
BEHAVIOUR = np.array([[0.7, 0.3], [0.4, 0.6]])
TARGET = np.array([[0.2, 0.8], [0.9, 0.1]])
Steps = list[tuple[int, int]]


def target_values() -> tuple[np.ndarray, np.ndarray]:
    """Exact Q [time, state, action] and V [time, state] of the target policy."""
    q, v = np.zeros((HORIZON, 2, 2)), np.zeros((HORIZON + 1, 3))
    for t in reversed(range(HORIZON)):
        q[t] = REWARD + GAMMA * NEXT @ v[t + 1]
        v[t, :2] = (TARGET * q[t]).sum(axis=1)
    return q, v


def trajectories(state: int = 0, time: int = 0) -> Iterator[tuple[float, Steps]]:
    """Every trajectory from a state with its probability under the behaviour policy."""
    for action in range(2):
        for following in range(3):
            probability = BEHAVIOUR[state, action] * NEXT[state, action, following]
            if probability == 0:
                continue
            rests = trajectories(following, time + 1) if following < 2 and time + 1 < HORIZON else [(1.0, [])]
            for rest_probability, rest in rests:
                yield probability * rest_probability, [(state, action), *rest]


ALL = list(trajectories())
PROBABILITIES = np.array([probability for probability, _ in ALL])
STATE, ACTION = (np.array([step[i] for _, steps in ALL for step in steps]) for i in range(2))
TIME = np.concatenate([np.arange(len(steps)) for _, steps in ALL])
EPISODES = np.repeat(np.arange(len(ALL)), [len(steps) for _, steps in ALL])


def enumerated(propensities: np.ndarray = BEHAVIOUR) -> EpisodeLog:
    return EpisodeLog(
        episodes=EPISODES, rewards=REWARD[STATE, ACTION], propensities=propensities[STATE, ACTION], gamma=GAMMA
    )


def expectation(estimate: Estimate) -> float:
    """Of a mean over episodes: what each contributes, by its probability."""
    return float(PROBABILITIES @ (estimate.value + estimate.influence))


def test_the_enumeration_is_complete_and_ragged() -> None:
    assert PROBABILITIES.sum() == pytest.approx(1)
    assert set(np.bincount(EPISODES)) == {1, 2, 3}
    assert float(PROBABILITIES @ returns(enumerated())) != pytest.approx(target_values()[1][0, 0], abs=0.1)


@pytest.mark.parametrize("estimator", [trajectory_importance_sampling, per_decision_importance_sampling])
def test_importance_sampling_has_the_true_expectation(estimator: Estimator) -> None:
    truth = target_values()[1][0, 0]
    assert expectation(estimator(enumerated(), TARGET[STATE, ACTION])) == pytest.approx(truth, rel=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_doubly_robust_is_unbiased_with_exact_ratios_for_any_values(seed: int) -> None:
    wrong_q = 5 * np.random.default_rng(seed).normal(size=(HORIZON, 2, 2))
    wrong_v = (TARGET * wrong_q).sum(axis=2)
    values = wrong_q[TIME, STATE, ACTION], wrong_v[TIME, STATE]
    estimate = sequential_doubly_robust(enumerated(), TARGET[STATE, ACTION], *values)
    assert expectation(estimate) == pytest.approx(target_values()[1][0, 0], rel=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_doubly_robust_is_exact_with_exact_values_for_any_ratios(seed: int) -> None:
    wrong = np.random.default_rng(seed).uniform(0.05, 1, size=(2, 2))
    q, v = target_values()
    estimate = sequential_doubly_robust(
        enumerated(wrong), TARGET[STATE, ACTION], q[TIME, STATE, ACTION], v[TIME, STATE]
    )
    assert expectation(estimate) == pytest.approx(v[0, 0], rel=1e-12)
    biased = per_decision_importance_sampling(enumerated(wrong), TARGET[STATE, ACTION])
    assert expectation(biased) != pytest.approx(v[0, 0], abs=0.1)


def test_doubly_robust_is_exact_on_every_episode_where_nothing_is_random_but_actions() -> None:
    """Two steps, rewards by action: then Q leaves nothing over, whatever the ratios."""
    log = EpisodeLog(
        episodes=np.repeat(np.arange(4), 2),
        rewards=np.array([1.0, 5, 1, 7, 2, 5, 2, 7]),
        propensities=np.full(8, 0.3),
    )
    target = np.array([0.6, 0.6, 0.6, 0.4, 0.4, 0.6, 0.4, 0.4])
    later = 0.6 * 5 + 0.4 * 7
    q = log.rewards + np.tile([later, 0.0], 4)
    v = np.tile([0.6 * 1 + 0.4 * 2 + later, later], 4)
    estimate = sequential_doubly_robust(log, target, q, v)
    assert estimate.value == pytest.approx(0.6 * 1 + 0.4 * 2 + later, rel=1e-14)
    assert estimate.influence == pytest.approx(0, abs=1e-13)


@pytest.mark.parametrize("estimator", WITHOUT_VALUES)
def test_the_logging_policy_itself_has_the_mean_return_exactly(estimator: Estimator) -> None:
    log, _ = make_episodes()
    assert estimator(log, log.propensities).value == pytest.approx(returns(log).mean(), rel=1e-14)


def test_doubly_robust_of_the_logging_policy_has_the_mean_return_where_q_equals_v() -> None:
    log, _ = make_episodes()
    values = np.random.default_rng(2).normal(size=len(log.rewards))
    estimate = sequential_doubly_robust(log, log.propensities, values, values)
    assert estimate.value == pytest.approx(returns(log).mean(), rel=1e-12)


def test_known_answers() -> None:
    """Ratios 2, 3 and 0.5; rewards 1, 10 and 4; gamma 0.5."""
    log = EpisodeLog(
        episodes=np.array(["a", "a", "b"]),
        rewards=np.array([1.0, 10.0, 4.0]),
        propensities=np.array([0.25, 0.2, 0.8]),
        gamma=0.5,
    )
    target = np.array([0.5, 0.6, 0.4])
    first, second = 1 + 0.5 * 10, 4.0
    assert trajectory_importance_sampling(log, target).value == pytest.approx((6 * first + 0.5 * second) / 2)
    assert weighted_importance_sampling(log, target).value == pytest.approx((6 * first + 0.5 * second) / 6.5)
    assert per_decision_importance_sampling(log, target).value == pytest.approx((2 * 1 + 0.5 * 6 * 10 + 0.5 * 4) / 2)
    steps = (2 * 1 + 0.5 * 4) / 2.5 + 0.5 * (6 * 10) / 6.5  # the ended episode keeps 0.5 and earns nothing
    assert weighted_per_decision(log, target).value == pytest.approx(steps)
    q, v = np.array([2.0, 8.0, 3.0]), np.array([1.5, 9.0, 2.5])
    second_step = 9.0 + 3 * (10 - 8)
    expected = (1.5 + 2 * (1 + 0.5 * second_step - 2) + 2.5 + 0.5 * (4 - 3)) / 2
    assert sequential_doubly_robust(log, target, q, v).value == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(5))
def test_weighted_estimates_stay_within_what_was_seen(seed: int) -> None:
    log, target = make_episodes(15, seed=seed)
    seen = returns(log)
    assert seen.min() <= weighted_importance_sampling(log, target).value <= seen.max()
    rewards, discounts = log.padded(log.rewards, 0.0), log.discounts()
    low, high = rewards.min(axis=0) @ discounts, rewards.max(axis=0) @ discounts
    assert low <= weighted_per_decision(log, target).value <= high


@pytest.mark.parametrize("estimator", WITHOUT_VALUES)
def test_influence_is_the_derivative_by_an_episodes_weight(estimator: Estimator) -> None:
    """Repeating episode 3 once more among many moves the estimate by its influence."""
    log, target = make_episodes(400, seed=4)
    extra = log.episodes == 3
    more = EpisodeLog(
        episodes=np.concatenate([log.episodes, np.full(extra.sum(), 400)]),
        rewards=np.concatenate([log.rewards, log.rewards[extra]]),
        propensities=np.concatenate([log.propensities, log.propensities[extra]]),
        gamma=log.gamma,
    )
    before, after = estimator(log, target), estimator(more, np.concatenate([target, target[extra]]))
    assert 401 * (after.value - before.value) == pytest.approx(before.influence[3], rel=0.05)
    assert before.influence.mean() == pytest.approx(0, abs=1e-10)


def test_tasks_cluster_episodes() -> None:
    log, target = make_episodes(60)
    twice = EpisodeLog(
        episodes=np.concatenate([log.episodes, log.episodes + 60]),
        rewards=np.tile(log.rewards, 2),
        propensities=np.tile(log.propensities, 2),
        gamma=log.gamma,
        clusters=np.tile(log.episodes, 2),
    )
    for estimator in WITHOUT_VALUES:
        once = estimator(log, target)
        both = estimator(twice, np.tile(target, 2))
        assert (both.value, both.standard_error) == pytest.approx((once.value, once.standard_error))


def test_without_any_weight_self_normalised_estimates_are_undefined() -> None:
    log, target = make_episodes(5)
    for estimator in (weighted_importance_sampling, weighted_per_decision):
        assert math.isnan(estimator(log, np.zeros_like(target)).value)
    assert trajectory_importance_sampling(log, np.zeros_like(target)).value == 0
