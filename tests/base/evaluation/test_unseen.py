"""Records without a failure: an interval must allow for failures that the log has not shown."""

from dataclasses import replace

import numpy as np
import pytest

from rl_base.evaluation import (
    BanditLog,
    EpisodeLog,
    doubly_robust,
    interval,
    sequential_doubly_robust,
    switch_doubly_robust,
    worst_case_episodes,
    worst_case_interval,
)
from rl_base.evaluation.missing import difference


def record(
    successes: int, failures: int = 0, *, scale: float = 1.0, chance: float = 1.0
) -> tuple[BanditLog, np.ndarray]:
    """Tries of action 1, each with this chance, among rows in which action 0 was taken; and a policy that always takes 1."""
    tries = successes + failures
    rows = round(tries / chance)
    rewards = np.zeros(rows)
    rewards[:successes] = scale
    propensities = np.tile([1 - chance, chance], (rows, 1))
    log = BanditLog(
        actions=(np.arange(rows) < tries).astype(int),
        rewards=rewards,
        propensities=propensities,
        reward_range=(0.0, scale),
    )
    return log, np.tile([0.0, 1.0], (rows, 1))


def predicted(log: BanditLog) -> np.ndarray:
    return np.full(log.propensities.shape, log.rewards[log.actions == 1].mean())


def low_end(log: BanditLog, target: np.ndarray, **how: str) -> float:
    return interval(doubly_robust(log, target, predicted(log)), **how).low


@pytest.mark.parametrize("tries", [15, 30, 52])
def test_a_perfect_record_is_no_certainty(tries):
    exact = 0.025 ** (1 / tries)  # Clopper and Pearson's bound of the rate
    assert exact - 0.05 < low_end(*record(tries)) < exact
    assert low_end(*record(tries), method="anytime") < low_end(*record(tries))


def test_a_perfect_record_of_many_tries_is_nearly_one():
    assert low_end(*record(20_000)) > 0.9997


@pytest.mark.parametrize(("failures", "exact"), [(0, 3.69), (1, 5.57), (2, 7.22), (3, 8.77), (5, 11.67), (10, 18.39)])
def test_few_failures_give_about_the_exact_bound_of_a_poisson_rate(failures, exact):
    found = 20_000 * (1 - low_end(*record(20_000 - failures, failures)))
    assert 0.975 * exact < found < 1.26 * exact


def test_the_high_end_allows_for_successes_that_were_not_seen():
    log, target = record(0, 30)
    found = interval(doubly_robust(log, target, np.zeros((30, 2))))
    assert found.low == 0
    assert found.high == pytest.approx(1 - low_end(*record(30)))


def test_the_doubt_grows_with_the_range_of_rewards_and_with_the_weight_of_a_try():
    plain = 1 - low_end(*record(30))
    assert 10 - low_end(*record(30, scale=10.0)) == pytest.approx(10 * plain)
    rare, target = record(30, chance=0.05)  # 30 tries in 600 rows, each of weight 20: as much doubt as 30 of 30
    found = interval(doubly_robust(rare, target, predicted(rare)))
    assert 1 - found.low == pytest.approx(plain, rel=0.1)


def test_rows_copied_within_their_task_change_nothing():
    log, target = record(30)
    twice = BanditLog(
        actions=np.repeat(log.actions, 2),
        rewards=np.repeat(log.rewards, 2),
        propensities=np.repeat(log.propensities, 2, axis=0),
        clusters=np.repeat(np.arange(30), 2),
        reward_range=(0.0, 1.0),
    )
    assert low_end(twice, np.repeat(target, 2, axis=0)) == pytest.approx(low_end(log, target))


def test_the_order_of_rows_plays_no_part():
    log, target = record(27, 3, chance=0.2)
    order = np.random.default_rng(0).permutation(len(log.actions))
    shuffled = BanditLog(
        actions=log.actions[order],
        rewards=log.rewards[order],
        propensities=log.propensities[order],
        reward_range=(0.0, 1.0),
    )
    assert low_end(shuffled, target) == pytest.approx(low_end(log, target))


def new_and_old(new_chance: float, rows: int) -> tuple[BanditLog, np.ndarray]:
    """A rarely tried action in the first rows, one tried half of the time in 2,000 others; both always succeed."""
    chance = np.where(np.arange(rows + 2_000) < rows, new_chance, 0.5)
    rng = np.random.default_rng(0)
    log = BanditLog(
        actions=(rng.random(len(chance)) < chance).astype(int),
        rewards=np.ones(len(chance)),
        propensities=np.stack([1 - chance, chance], axis=1),
        reward_range=(0.0, 1.0),
    )
    return log, np.tile([0.0, 1.0], (len(chance), 1))


def test_many_tries_of_one_action_do_not_hide_the_few_of_another():
    log, target = new_and_old(0.05, 300)
    worst, best = doubly_robust(log, target, np.ones((2_300, 2))).unseen.influence
    assert worst == pytest.approx(-20)  # one over .05
    assert best == 0


def test_a_weight_that_the_log_hardly_ever_meets_does_not_count():
    log, target = new_and_old(0.001, 10)
    assert doubly_robust(log, target, np.ones((2_010, 2))).unseen.influence[0] == pytest.approx(-2)


def test_equal_policies_differ_by_nothing():
    log, target = record(30, chance=0.2)
    found = interval(difference(log, target, target, predicted(log)))
    assert (found.low, found.high) == (0, 0)


def test_a_new_action_that_never_failed_is_not_better_than_one_that_nearly_never_does():
    # 30 of 30 where .97 of 600 succeed: so good a record has a chance of .4 if both are the same.
    actions = (np.arange(630) >= 600).astype(int)
    rewards = np.where((actions == 0) & (np.arange(630) % 33 == 0), 0.0, 1.0)
    propensities = np.tile([20 / 21, 1 / 21], (630, 1))
    log = BanditLog(actions=actions, rewards=rewards, propensities=propensities, reward_range=(0.0, 1.0))
    predictions = np.tile([rewards[:600].mean(), 1.0], (630, 1))
    new, old = (np.tile(policy, (630, 1)) for policy in ([0.0, 1.0], [1.0, 0.0]))
    nothing = np.zeros(630, bool)
    for method in ("t", "anytime"):
        assert interval(replace(difference(log, new, old, predictions), unseen=None), method=method).low > 0
        assert interval(difference(log, new, old, predictions), method=method).low < 0
        assert worst_case_interval(log, new, old, predictions, nothing, method=method).low < 0
    assert interval(switch_doubly_robust(log, new, predictions)).low < 0.97


def test_without_a_range_of_rewards_nothing_is_added():
    log, target = record(30)
    assert doubly_robust(replace(log, reward_range=None), target, predicted(log)).unseen is None


def test_episodes_that_all_succeeded_are_no_certainty():
    log = EpisodeLog(
        episodes=np.repeat(np.arange(30), 2),
        rewards=np.tile([0.0, 1.0], 30),
        propensities=np.full(60, 0.5),
        reward_range=(0.0, 1.0),
    )
    values = np.ones(60), np.ones(60)
    taken = np.full(60, 0.5)
    assert interval(sequential_doubly_robust(log, taken, *values)).low == pytest.approx(low_end(*record(30)))
    nothing, never = np.zeros(60, bool), np.zeros(60)
    worst = worst_case_episodes(log, taken, never, (values, (never, never)), nothing, (0.0, 1.0))
    assert worst.low == pytest.approx(low_end(*record(30)))
    assert interval(sequential_doubly_robust(replace(log, reward_range=None), taken, *values)).low == 1
