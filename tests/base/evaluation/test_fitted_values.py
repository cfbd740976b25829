"""Values fitted from the last step back: exact on the enumerated process, and unable to bias the doubly robust estimate."""

import numpy as np
import pytest

from rl_base.evaluation import EpisodeLog, cross_fit_values, fit_values, sequential_doubly_robust, step_sample_sizes
from tests.base.evaluation.test_sequential import (
    ACTION,
    ALL,
    EPISODES,
    GAMMA,
    PROBABILITIES,
    REWARD,
    STATE,
    TARGET,
    TIME,
    enumerated,
    expectation,
    target_values,
)

COPIES = np.round(PROBABILITIES * 20_000).astype(int)  # episodes in proportion to how often they come


def many_episodes() -> tuple[EpisodeLog, np.ndarray, np.ndarray]:
    """The enumerated episodes in their proportions, with the state as features and the actions."""
    copied = np.repeat(np.arange(len(ALL)), COPIES)
    lengths = np.bincount(EPISODES)
    first = np.cumsum(lengths) - lengths
    rows = np.concatenate([np.arange(first[e], first[e] + lengths[e]) for e in copied])
    log = enumerated()
    big = EpisodeLog(
        episodes=np.repeat(np.arange(len(copied)), lengths[copied]),
        rewards=log.rewards[rows],
        propensities=log.propensities[rows],
        gamma=GAMMA,
    )
    return big, np.eye(2)[STATE[rows]], ACTION[rows]


def test_values_of_a_policy_are_those_of_dynamic_programming() -> None:
    log, features, actions = many_episodes()
    q, v = target_values()
    target = TARGET[features.argmax(axis=1)]
    action_values, state_values = cross_fit_values(log, features, actions, target, folds=2)
    state = features.argmax(axis=1)
    np.testing.assert_allclose(action_values, q[log.times, state, actions], atol=0.03)
    np.testing.assert_allclose(state_values, v[log.times, state], atol=0.03)


def test_the_maximum_gives_the_best_policy() -> None:
    log, features, actions = many_episodes()
    models = fit_values(log, features, actions, 2, lambda rows, values: values.max(axis=1))
    assert len(models) == log.times.max() + 1
    last = models[-1](np.eye(2))
    np.testing.assert_allclose(last, REWARD, atol=0.03)


def test_any_values_leave_the_doubly_robust_estimate_unbiased() -> None:
    """By exact enumeration: wrong values, with V the target's mean of Q, change no expectation."""
    wrong = np.random.default_rng(0).normal(size=(3, 2, 2))
    q = wrong[TIME, STATE, ACTION]
    v = (TARGET[STATE] * wrong[TIME, STATE]).sum(axis=1)
    estimate = sequential_doubly_robust(enumerated(), TARGET[STATE, ACTION], q, v)
    assert expectation(estimate) == pytest.approx(target_values()[1][0, 0])


def test_sample_sizes_fall_with_the_steps_and_end_at_that_of_whole_episodes() -> None:
    log = EpisodeLog(episodes=[0, 0, 1, 2, 2], rewards=np.zeros(5), propensities=[0.5] * 5)  # pyrefly: ignore
    target = np.array([0.5, 1.0, 0.5, 0.5, 0.0])
    np.testing.assert_allclose(step_sample_sizes(log, target), [3.0, 9 / 5])
