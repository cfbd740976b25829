import math

import numpy as np
import pytest

from rl_base.evaluation import (
    BanditLog,
    direct_method,
    doubly_robust,
    inverse_propensity,
    self_normalized,
    switch_doubly_robust,
)
from rl_base.evaluation.bandit import importance_ratios, thresholds
from tests.base.evaluation.ope_logs import make_bandit, make_target

# Weights of the actions taken: 0.9 / 0.5, 0.4 / 0.8, 0.2 / 0.4.
LOG = BanditLog(
    actions=np.array([0, 1, 1]),
    rewards=np.array([1.0, 2.0, 4.0]),
    propensities=np.array([[0.5, 0.5], [0.2, 0.8], [0.6, 0.4]]),
)
TARGET = np.array([[0.9, 0.1], [0.6, 0.4], [0.8, 0.2]])
PREDICTIONS = np.array([[1.0, 3.0], [2.0, 1.0], [0.0, 5.0]])
MODEL = (0.9 + 0.3, 1.2 + 0.4, 1.0)
RESIDUALS = (1.8 * 0.0, 0.5 * 1.0, 0.5 * -1.0)


def test_known_answers() -> None:
    assert inverse_propensity(LOG, TARGET).value == pytest.approx((1.8 + 1.0 + 2.0) / 3)
    assert self_normalized(LOG, TARGET).value == pytest.approx((1.8 + 1.0 + 2.0) / 2.8)
    assert direct_method(LOG, TARGET, PREDICTIONS).value == pytest.approx(sum(MODEL) / 3)
    assert doubly_robust(LOG, TARGET, PREDICTIONS).value == pytest.approx((sum(MODEL) + sum(RESIDUALS)) / 3)


def test_known_influence() -> None:
    mean = 4.8 / 3
    assert inverse_propensity(LOG, TARGET).influence == pytest.approx([1.8 - mean, 1.0 - mean, 2.0 - mean])
    value = 4.8 / 2.8
    expected = [w * (r - value) / (2.8 / 3) for w, r in ((1.8, 1.0), (0.5, 2.0), (0.5, 4.0))]
    assert self_normalized(LOG, TARGET).influence == pytest.approx(expected)


def test_switch_leaves_large_ratios_to_the_model() -> None:
    # Ratios: 1.8 and 0.2; 3 and 0.5; 1.33 and 0.5. At 1 the first action of every row is the model's.
    estimate = switch_doubly_robust(LOG, TARGET, PREDICTIONS, threshold=1.0)
    assert estimate.value == pytest.approx((sum(MODEL) + RESIDUALS[1] + RESIDUALS[2]) / 3)
    assert estimate.bias_bound == pytest.approx((0.9 + 0.6 + 0.8) / 3 * (4.0 - 1.0))


def test_switch_is_the_direct_method_at_0_and_doubly_robust_at_infinity() -> None:
    log = make_bandit()
    target, predictions = make_target(log), np.zeros((300, 3))
    ends = {0.0: direct_method, math.inf: doubly_robust}
    for threshold, estimator in ends.items():
        at_end = switch_doubly_robust(log, target, predictions, threshold=threshold)
        assert at_end.value == estimator(log, target, predictions).value
        assert at_end.bias_bound == estimator(log, target, predictions).bias_bound
    assert doubly_robust(log, target, predictions).bias_bound == 0


def test_the_chosen_threshold_has_the_least_variance_plus_squared_bias_bound() -> None:
    log = make_bandit(100, reward_range=(0.0, 1.0))
    target = np.where(log.propensities == log.propensities.min(axis=1, keepdims=True), 0.98, 0.01)
    predictions = np.full((100, 3), 0.5)

    def risk(threshold: float | None) -> float:
        estimate = switch_doubly_robust(log, target, predictions, threshold=threshold)
        return estimate.standard_error**2 + estimate.bias_bound**2

    assert risk(None) == min(risk(tau) for tau in thresholds(log, target))
    assert len(thresholds(log, target)) == 22


def test_the_threshold_follows_the_data() -> None:
    """A ratio of 100 that was hit once costs more variance than its little mass can cost bias."""
    num_rows = 400
    propensities = np.tile([0.9999, 0.0001], (num_rows, 1))
    actions = np.zeros(num_rows, dtype=int)
    actions[7] = 1
    log = BanditLog(actions=actions, rewards=np.ones(num_rows), propensities=propensities, reward_range=(0.0, 1.0))
    target = np.tile([0.99, 0.01], (num_rows, 1))
    predictions = np.full((num_rows, 2), 0.9)
    chosen, plain = switch_doubly_robust(log, target, predictions), doubly_robust(log, target, predictions)
    assert 0 < chosen.bias_bound < 0.02
    assert chosen.standard_error < plain.standard_error / 10


def test_the_logging_policy_itself_has_the_mean_reward_exactly() -> None:
    log = make_bandit()
    assert inverse_propensity(log, log.propensities).value == log.rewards.mean()
    assert self_normalized(log, log.propensities).value == log.rewards.mean()


def exact_expectation(estimator: str, propensities: np.ndarray, predictions: np.ndarray, logged: np.ndarray) -> float:
    """Over the actions of one context, with rewards 1, 3, 7."""
    rewards, target = np.array([1.0, 3.0, 7.0]), np.array([0.2, 0.5, 0.3])
    total = 0.0
    for action in range(3):
        log = BanditLog(actions=np.array([action]), rewards=rewards[[action]], propensities=logged[None])
        arguments = (log, target[None], predictions[None])
        value = doubly_robust(*arguments) if estimator == "dr" else inverse_propensity(*arguments[:2])
        total += propensities[action] * value.value
    return total


def test_unbiased_with_exact_propensities_for_any_model() -> None:
    propensities, truth = np.array([0.5, 0.1, 0.4]), 0.2 * 1 + 0.5 * 3 + 0.3 * 7
    wrong = np.array([-4.0, 10.0, 0.3])
    assert exact_expectation("ips", propensities, wrong, propensities) == pytest.approx(truth)
    assert exact_expectation("dr", propensities, wrong, propensities) == pytest.approx(truth)


def test_doubly_robust_is_exact_with_an_exact_model_for_any_propensities() -> None:
    propensities, truth = np.array([0.5, 0.1, 0.4]), 0.2 * 1 + 0.5 * 3 + 0.3 * 7
    logged, model = np.array([0.05, 0.9, 0.05]), np.array([1.0, 3.0, 7.0])
    assert exact_expectation("dr", propensities, model, logged) == pytest.approx(truth)
    assert exact_expectation("ips", propensities, model, logged) != pytest.approx(truth, rel=0.1)


def test_self_normalised_stays_within_the_rewards_and_follows_a_constant() -> None:
    log = make_bandit(40)
    shifted = make_bandit(40, rewards=log.rewards + 100)
    target = make_target(log)
    value = self_normalized(log, target).value
    assert log.rewards.min() <= value <= log.rewards.max()
    assert self_normalized(shifted, target).value == pytest.approx(value + 100)


def test_duplicated_rows_of_a_cluster_do_not_shrink_the_error() -> None:
    log = make_bandit(200)
    target, predictions = make_target(log), np.full((200, 3), 0.4)

    def repeat(values: np.ndarray) -> np.ndarray:
        return np.repeat(values, 5, axis=0)

    fields = {name: repeat(getattr(log, name)) for name in ("actions", "rewards", "propensities")}
    apart = BanditLog(**fields)
    together = BanditLog(**fields, clusters=repeat(np.arange(200)))
    pairs = [
        *((estimator(log, target), estimator) for estimator in (inverse_propensity, self_normalized)),
        (doubly_robust(log, target, predictions), lambda *logged: doubly_robust(*logged, repeat(predictions))),
    ]
    for once, estimator in pairs:
        clustered, naive = estimator(together, repeat(target)), estimator(apart, repeat(target))
        assert (clustered.value, clustered.standard_error) == pytest.approx((once.value, once.standard_error))
        assert naive.standard_error == pytest.approx(once.standard_error / 5**0.5, rel=0.01)


def test_mass_without_support_is_the_models_and_widens() -> None:
    propensities = np.tile([0.5, 0.5, 0.0], (4, 1))
    propensities[3] = [0.5, 0.3, math.nan]
    log = BanditLog(actions=np.array([0, 1, 0, 1]), rewards=np.array([0.0, 2.0, 1.0, 1.0]), propensities=propensities)
    target = np.tile([0.4, 0.4, 0.2], (4, 1))
    assert np.isinf(importance_ratios(log, target)[:, 2]).all()
    model = np.tile([0.0, 0.0, 9.0], (4, 1))
    assert direct_method(log, target, model).value == pytest.approx(1.8)
    assert inverse_propensity(log, target).bias_bound == pytest.approx(0.2 * 2)
    assert self_normalized(log, target).bias_bound == pytest.approx(0.2 * 2)
    assert doubly_robust(log, target, model).bias_bound == pytest.approx(0.2 * 2)


def test_spans_hold_for_every_term() -> None:
    log = make_bandit(500, reward_range=(0.0, 1.0))
    target, predictions = make_target(log), np.random.default_rng(5).uniform(-1, 2, size=(500, 3))
    for estimate in (
        inverse_propensity(log, target),
        doubly_robust(log, target, predictions),
        switch_doubly_robust(log, target, predictions, threshold=1.5),
    ):
        assert estimate.span is not None
        assert np.ptp(estimate.influence) <= estimate.span
    largest = importance_ratios(log, target).max()
    assert inverse_propensity(log, target).span == pytest.approx(largest)
    assert switch_doubly_robust(log, target, predictions, threshold=1.5).span == pytest.approx(4.0)
    assert self_normalized(log, target).span is None
    assert inverse_propensity(make_bandit(), make_target(make_bandit())).span is None


def test_predictions_are_cut_to_the_stated_range_only() -> None:
    target = make_target(make_bandit(10))
    stated, open_ended = make_bandit(10, reward_range=(0.0, 1.0)), make_bandit(10)
    high = np.full((10, 3), 7.0)
    assert direct_method(stated, target, high).value == pytest.approx(1.0)
    assert direct_method(open_ended, target, high).value == pytest.approx(7.0)


@pytest.mark.parametrize(
    ("predictions", "message"),
    [
        (
            np.zeros((3, 3)),
            r"predictions has shape \(3, 3\) where propensities has \(3, 2\): predict the reward of every",
        ),
        (np.array([[0, 0], [0, math.nan], [0, 0]]), r"predictions\[1, 1\] is nan: the reward model must give finite"),
    ],
)
def test_unusable_predictions_are_refused(predictions: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        doubly_robust(LOG, TARGET, predictions)


def test_a_weight_at_the_threshold_counts() -> None:
    without_model = np.zeros((3, 2))
    assert switch_doubly_robust(LOG, TARGET, without_model, threshold=0.5).value == pytest.approx(
        (0.5 * 2 + 0.5 * 4) / 3
    )


def test_thresholds_span_the_middle_nine_tenths_of_the_weights() -> None:
    log = make_bandit()
    target = make_target(log)
    weights = log.taken(target) / log.taken(log.propensities)
    found = thresholds(log, target)
    assert (found[0], found[20]) == pytest.approx(tuple(np.quantile(weights, [0.05, 0.95])))
    assert found[10] == pytest.approx(math.sqrt(found[0] * found[20]))
    assert found[21] == math.inf
