import math

import numpy as np
import pytest

from rl_base.evaluation import BanditLog, EpisodeLog, diagnose_bandit, diagnose_episodes, ratio_moments
from rl_base.evaluation.diagnostics import diagnose_weights, weight_moments
from tests.base.evaluation.ope_logs import make_bandit, make_episodes, make_target


def test_known_answers() -> None:
    found = diagnose_weights(np.array([3.0, 1.0, 0.0, 0.0]), np.arange(4))
    assert found.effective_sample_size == pytest.approx(16 / 10)
    assert found.largest_weight_share == pytest.approx(0.75)
    assert found.mean_weight == pytest.approx(1.0)
    assert found.mean_weight_error == pytest.approx(math.sqrt(6 / 3 / 4))
    assert found.mean_weight_p_value == pytest.approx(1.0)


def test_the_effective_size_counts_clusters_not_rows() -> None:
    weights = np.repeat([3.0, 1.0, 0.0, 0.0], 10)
    found = diagnose_weights(weights, np.repeat(np.arange(4), 10))
    assert (found.num_rows, found.num_clusters) == (40, 4)
    assert found.effective_sample_size == pytest.approx(1.6)
    assert found.largest_weight_share == pytest.approx(0.75)


def test_the_logging_policy_itself_loses_nothing() -> None:
    log = make_bandit(200)
    found = diagnose_bandit(log, log.propensities)
    assert found.effective_sample_size == pytest.approx(200)
    assert found.expected_effective_sample_size == pytest.approx(200)
    assert (found.unsupported_mass, found.mean_weight_p_value, found.warnings) == (0.0, 1.0, ())
    episodes, _ = make_episodes(80)
    assert diagnose_episodes(episodes, episodes.propensities).effective_sample_size == pytest.approx(80)


def test_the_expected_size_knows_of_actions_that_were_not_drawn() -> None:
    """The target always takes an action of probability 1 / 100: of 1,000 rows ten count, however lucky the draw."""
    log = BanditLog(
        actions=np.zeros(1000, dtype=int), rewards=np.zeros(1000), propensities=np.tile([0.99, 0.01], (1000, 1))
    )
    target = np.tile([0.5, 0.5], (1000, 1))
    found = diagnose_bandit(log, target)
    assert found.effective_sample_size == pytest.approx(1000)
    assert found.expected_effective_sample_size == pytest.approx(1000 / (0.25 / 0.99 + 0.25 / 0.01))
    assert found.refusal is not None
    assert "effective sample size is 39.6" in found.refusal


def test_too_small_a_sample_is_refused_with_its_numbers_and_a_way_out() -> None:
    weights = np.full(49, 1.0)
    text = diagnose_weights(weights, np.arange(49)).refusal
    assert text is not None
    for part in ("is 49.0", "49 rows in 49 clusters", "share 2%", "below 50", "log more", "explore more", "closer"):
        assert part in text
    assert diagnose_weights(np.full(50, 1.0), np.arange(50)).refusal is None


def test_skewness_known_answers() -> None:
    """Of a coin with chance p the skewness is (1 - 2p) / root(p (1 - p))."""
    coin = diagnose_weights(np.array([0.0, 0.0, 0.0, 4.0]), np.arange(4))
    assert coin.weight_skewness == pytest.approx(0.5 / math.sqrt(0.25 * 0.75))
    assert coin.required_rows == pytest.approx(25 * 0.25 / (0.25 * 0.75))
    log = BanditLog(actions=np.zeros(8, dtype=int), rewards=np.zeros(8), propensities=np.tile([0.9, 0.1], (8, 1)))
    found = diagnose_bandit(log, np.tile([0.0, 1.0], (8, 1)))  # weight 10 with chance 0.1, though it was never drawn
    assert found.weight_skewness == pytest.approx(0.8 / 0.3)
    assert diagnose_weights(np.ones(9), np.arange(9)).weight_skewness == 0


def test_rare_large_weights_are_refused_though_the_effective_size_suffices() -> None:
    """A tenth of the target's mass is where one row in a thousand is: most logs hold no such row, or one."""
    num_rows = 2000
    propensities, target = np.tile([0.999, 0.001], (num_rows, 1)), np.tile([0.9, 0.1], (num_rows, 1))
    log = BanditLog(actions=np.zeros(num_rows, dtype=int), rewards=np.ones(num_rows), propensities=propensities)
    found = diagnose_bandit(log, target)
    assert found.expected_effective_sample_size is not None
    assert found.expected_effective_sample_size > 150
    assert found.refusal is not None
    for part in ("skewness of 31.6", "24,9", "there are 2000", "explore more"):
        assert part in found.refusal


def two_steps(drawn: dict[tuple[int, ...], int]) -> tuple[EpisodeLog, np.ndarray, np.ndarray]:
    """Action 1 ends an episode, and so does the second step; the target never ends it at once, and always at the second step."""
    actions = [path for path, times in drawn.items() for _ in range(times)]
    first_or_second = np.array([step for path in actions for step in range(len(path))])
    action = np.array([a for path in actions for a in path])
    behaviour = np.array([[0.5, 0.5], [0.75, 0.25]])[first_or_second]
    target = np.array([[1.0, 0.0], [0.0, 1.0]])[first_or_second]
    log = EpisodeLog(
        episodes=np.repeat(np.arange(len(actions)), [len(path) for path in actions]),
        rewards=np.zeros(len(action)),
        propensities=behaviour[np.arange(len(action)), action],
    )
    return log, target[np.arange(len(action)), action], ratio_moments(target, behaviour)


def test_moments_of_episodes_are_exact_on_all_draws_by_their_probability() -> None:
    """The weight is 8 with chance 1 / 8, else 0."""
    log, taken, moments = two_steps({(1,): 4, (0, 0): 3, (0, 1): 1})
    assert weight_moments(log, taken, moments) == pytest.approx((1.0, 8.0, 64.0))
    found = diagnose_episodes(log, taken, moments)
    assert found.expected_effective_sample_size == pytest.approx(8 / 8)
    assert found.weight_skewness == pytest.approx(diagnose_episodes(log, taken).weight_skewness)


def test_large_weights_that_no_episode_drew_are_known_of() -> None:
    log, taken, moments = two_steps({(1,): 50, (0, 0): 50})
    assert weight_moments(log, taken, moments) == pytest.approx((1.0, 8.0, 64.0))
    assert diagnose_episodes(log, taken).weight_skewness == 0
    assert diagnose_episodes(log, taken, moments).weight_skewness == pytest.approx(0.75 / math.sqrt(1 / 8 * 7 / 8))


def test_no_weight_at_all_is_refused() -> None:
    found = diagnose_weights(np.zeros(100), np.arange(100))
    assert (found.effective_sample_size, found.largest_weight_share) == (0.0, 1.0)
    assert found.refusal is not None


def test_wrong_propensities_fail_the_mean_weight_test() -> None:
    log = make_bandit(2000)
    target = make_target(log)
    assert diagnose_bandit(log, target).mean_weight_p_value > 0.01
    wrong = make_bandit(2000, propensities=np.full((2000, 3), 1 / 3), actions=np.argmax(target, axis=1))
    found = diagnose_bandit(wrong, target)
    assert found.mean_weight_p_value < 1e-6
    assert "not 1: propensities are wrong, or actions lack support" in found.warnings[0]


def test_the_mean_weight_test_has_the_size_it_states() -> None:
    rejected = 0
    for seed in range(400):
        log = make_bandit(200, seed=seed)
        rejected += diagnose_bandit(log, make_target(log, seed + 1000)).mean_weight_p_value < 0.05
    assert 6 <= rejected <= 36  # 20 expected; four standard errors


def test_mass_without_support_is_counted_and_named() -> None:
    propensities = np.tile([0.5, 0.5, 0.0], (4, 1))
    propensities[3] = [0.5, 0.3, math.nan]
    log = BanditLog(actions=np.array([0, 1, 0, 1]), rewards=np.zeros(4), propensities=propensities)
    target = np.tile([0.4, 0.4, 0.2], (4, 1))
    target[0] = [1.0, 0.0, 0.0]
    found = diagnose_bandit(log, target)
    assert found.unsupported_mass == pytest.approx(0.15)
    assert any("15.0% of the target's probability is on actions" in text for text in found.warnings)


def test_one_heavy_cluster_is_named() -> None:
    weights = np.append(np.full(100, 0.5), 50.0)
    assert any(
        "one cluster carries 50% of all weight" in text for text in diagnose_weights(weights, np.arange(101)).warnings
    )
