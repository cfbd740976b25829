"""Actions that were tried besides the drawn one count with the right weight, and bias nothing."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from rl_base.evaluation import BanditLog, cross_fit, diagnose_bandit, doubly_robust
from rl_base.evaluation.bandit import inverse_propensity
from rl_base.evaluation.missing import fill_missing, worst_case_estimates

SHARE = 0.2
REWARDS = np.array([[0.9, 0.2, 0.4], [0.1, 0.8, 0.3], [0.5, 0.6, 0.0]])
PROPENSITIES = np.array([[0.7, 0.2, 0.1], [1.0, 0.0, 0.0], [0.5, 0.5, 0.0]])
TARGET = np.array([[0.0, 1.0, 0.0], [0.0, 0.5, 0.5], [1.0, 0.0, 0.0]])
CHOICES = [(0, 1, 2), (0,), (0, 1)]  # with a probability above 0


def log_of(actions: tuple[int, ...], besides: tuple[int, ...], rewards: np.ndarray = REWARDS) -> BanditLog:
    """Every other action is tried besides with the same chance, SHARE in all."""
    rows, made = np.arange(3), np.array(besides) >= 0
    return BanditLog(
        actions=np.array(actions),
        rewards=rewards[rows, actions],
        propensities=PROPENSITIES,
        clusters=np.array([0, 0, 1]),
        reward_range=(0.0, 1.0),
        beside_actions=np.array(besides),
        beside_rewards=np.where(made, rewards[rows, besides], 0.0),
        seen=PROPENSITIES + SHARE * (1 - PROPENSITIES) / 2,
    )


def worlds() -> list[tuple[float, BanditLog]]:
    """Every log that could have been drawn, with its probability."""
    found = []
    for actions in product(*CHOICES):
        for besides in product(*((-1, *(a for a in range(3) if a != action)) for action in actions)):
            chance = np.prod(PROPENSITIES[np.arange(3), actions])
            chance *= np.prod([1 - SHARE if beside < 0 else SHARE / 2 for beside in besides])
            found.append((float(chance), log_of(actions, besides)))
    return found


def test_a_try_counts_by_how_often_its_action_is_tried() -> None:
    """Row 0: action 1 is drawn with .2 and tried besides with .2 * .8 / 2, so a try of it weighs 1 / .28."""
    log = log_of((0, 0, 0), (1, -1, -1))
    predictions = np.full((3, 3), 0.5)
    by_row = 0.5 + (0.2 - 0.5) / 0.28, 0.5, 0.5 + (0.5 - 0.5) / 0.55
    assert doubly_robust(log, TARGET, predictions).value == pytest.approx(np.mean(by_row))
    assert diagnose_bandit(log, TARGET).mean_weight == pytest.approx((1 / 0.28 + 0 + 1 / 0.55) / 3)


def test_estimates_are_unbiased_over_all_logs_that_could_have_been() -> None:
    """Row 1 has no exploration: the target's models are known only where they were tried besides."""
    truth = (TARGET * REWARDS).sum() / 3
    sums = np.zeros(4)
    for chance, log in worlds():
        informed = cross_fit(log, folds=2, earlier_rows=True)
        estimates = doubly_robust(log, TARGET, informed), inverse_propensity(log, TARGET)
        weight = diagnose_bandit(log, TARGET).mean_weight
        sums += chance * np.array([1.0, weight, *(estimate.value for estimate in estimates)])
    np.testing.assert_allclose(sums, [1.0, 1.0, truth, truth], atol=1e-12)


def test_bounds_hold_whichever_rewards_of_tries_besides_are_missing() -> None:
    """Missing depends on the reward: as bad as can be. In expectation the truth lies between the two ends."""
    truth, baseline = (TARGET * REWARDS).sum() / 3, np.eye(3)[[0, 0, 0]]
    gain = truth - REWARDS[:, 0].mean()
    expected = np.zeros(2)
    for chance, log in worlds():
        assert log.beside_actions is not None
        made = log.beside_actions >= 0
        seen = np.where(made & (REWARDS[np.arange(3), log.beside_actions] < 0.5), np.nan, log.beside_rewards)
        gappy = BanditLog(**vars(log) | {"beside_rewards": seen})
        ends = worst_case_estimates(gappy, TARGET, baseline, np.full((3, 3), 0.5), np.zeros(3, bool))
        expected += chance * np.array([end.value for end in ends])
        assert ends[0].value <= ends[1].value
    assert expected[0] < gain < expected[1]


def test_a_reward_that_nobody_saw_is_filled_or_refused() -> None:
    log = BanditLog(**vars(log_of((0, 0, 0), (1, 2, -1))) | {"beside_rewards": np.array([np.nan, 0.3, 0.0])})
    with pytest.raises(ValueError, match=r"beside_rewards\[0\] is nan"):
        doubly_robust(log, TARGET, np.full((3, 3), 0.5))
    filled = fill_missing(log, np.zeros(3, bool), np.full((3, 3), 0.25))
    assert filled.beside_rewards is not None
    assert filled.beside_rewards.tolist() == [0.25, 0.3, 0.0]


def test_an_action_tried_besides_needs_a_chance() -> None:
    with pytest.raises(ValueError, match="the action tried besides, is 0"):
        BanditLog(**vars(log_of((0, 0, 0), (-1, 2, -1))) | {"seen": PROPENSITIES})
    with pytest.raises(ValueError, match="belong together"):
        BanditLog(**vars(log_of((0, 0, 0), (-1, 2, -1))) | {"seen": None})
