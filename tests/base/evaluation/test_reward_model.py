import numpy as np
import pytest

from rl_base.evaluation import BanditLog, cross_fit, fit_ridge
from rl_base.evaluation.reward_model import Predict, assign_folds
from tests.base.evaluation.ope_logs import make_bandit


def test_no_model_has_seen_the_cluster_that_it_predicts() -> None:
    log = make_bandit(90, clustered=True, features=np.arange(90.0)[:, None])
    seen_by: dict[int, set[int]] = {}

    def fit(features: np.ndarray, actions: np.ndarray, rewards: np.ndarray, num_actions: int) -> Predict:
        assert (rewards == log.rewards[features[:, 0].astype(int)]).all()
        training = {int(row) // 3 for row in features[:, 0]}

        def predict(new: np.ndarray) -> np.ndarray:
            for row in new[:, 0]:
                seen_by[int(row)] = training
            return np.tile(new, num_actions)

        return predict

    predictions = cross_fit(log, fit, folds=4)
    assert predictions.tolist() == np.tile(np.arange(90.0)[:, None], 3).tolist()  # each row got its own prediction
    assert sorted(seen_by) == list(range(90))
    assert all(row // 3 not in clusters and len(clusters) >= 22 for row, clusters in seen_by.items())


def test_out_of_fold_predictions_do_not_know_their_own_reward() -> None:
    """A model that remembers its rows would predict them; out of fold it knows the mean of the others only."""
    log = make_bandit(50)

    def remember(features: np.ndarray, actions: np.ndarray, rewards: np.ndarray, num_actions: int) -> Predict:
        known = {tuple(row): reward for row, reward in zip(features, rewards, strict=True)}
        return lambda new: np.array([[known.get(tuple(row), -1.0)] * num_actions for row in new])

    assert (cross_fit(log, remember) == -1).all()


def test_cross_fitting_does_not_hide_the_models_error() -> None:
    """With more features than rows per action, residuals of a model that has seen them vanish."""
    features = np.random.default_rng(0).normal(size=(120, 60))
    log = make_bandit(120, features=features)
    seen = fit_ridge(features, log.actions, log.rewards, 3, penalty=1e-6)(features)
    assert np.abs(log.rewards - log.taken(seen)).max() < 1e-4
    assert np.abs(log.rewards - log.taken(cross_fit(log))).mean() > 0.1


def test_folds_are_even_cover_everything_and_keep_clusters_together() -> None:
    clusters = np.repeat(np.arange(21), 2)
    folds = assign_folds(clusters, 4, seed=3)
    assert sorted(np.bincount(folds)) == [10, 10, 10, 12]
    assert (folds[::2] == folds[1::2]).all()
    assert folds.tolist() == assign_folds(clusters, 4, seed=3).tolist()
    assert folds.tolist() != assign_folds(clusters, 4, seed=4).tolist()


@pytest.mark.parametrize("folds", [1, 6])
def test_impossible_folds_are_refused(folds: int) -> None:
    with pytest.raises(ValueError, match=f"folds is {folds} where the log has 5 clusters: choose between 2 and"):
        assign_folds(np.arange(5), folds, seed=0)


def test_ridge_known_answer() -> None:
    """Centred x is -1 and 1, centred y is -2 and 2: slope 4 / (2 + penalty), through the mean (2, 5)."""
    predict = fit_ridge(np.array([[1.0], [3.0]]), np.array([1, 1]), np.array([3.0, 7.0]), 2, penalty=2.0)
    assert predict(np.array([[2.0], [4.0]])) == pytest.approx(np.array([[5.0, 5.0], [5.0, 7.0]]))


def test_ridge_recovers_a_linear_reward_per_action() -> None:
    rng = np.random.default_rng(0)
    features, actions = rng.normal(size=(200, 2)), rng.integers(3, size=200)
    slopes, intercepts = np.array([[1.0, -2.0, 0.5], [3.0, 0.0, 1.0]]), np.array([0.0, 10.0, -4.0])
    truth = features @ slopes + intercepts
    model = fit_ridge(features, actions, truth[np.arange(200), actions], 3, penalty=1e-9)
    assert model(features) == pytest.approx(truth, abs=1e-6)


def test_without_features_the_model_is_the_mean_per_action() -> None:
    log = BanditLog(
        actions=np.array([0, 0, 1, 0]),
        rewards=np.array([1.0, 3.0, 8.0, 5.0]),
        propensities=np.full((4, 3), 1 / 3),
        clusters=np.array([0, 0, 0, 1]),
    )
    predictions = cross_fit(log, folds=2)
    assert predictions[3] == pytest.approx([2.0, 8.0, 4.0])  # an action that was never taken: the mean of all
    assert predictions[:3] == pytest.approx(np.full((3, 3), 5.0))
