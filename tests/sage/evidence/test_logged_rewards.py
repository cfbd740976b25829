from dataclasses import replace

import numpy as np
import pytest

from sage.evidence.logged_rewards import PRIOR_ROWS, bandit_log, fit_cell_means, predict_rewards, pseudo_rewards
from sage.policies.cells import Cells
from tests.sage.rl.made_logs import TRUTH, made_log


def test_pseudo_rewards_are_unbiased_whatever_is_predicted():
    log = made_log(1)
    truth, wrong = np.array([0.3, 0.9, 0.6]), np.array([[0.7, 0.1, 0.2]])
    expected = np.zeros(3)
    for action, chance in enumerate(log.propensity[0]):
        row = replace(log, action=np.array([action]), quality=np.array([truth[action]]))
        expected += chance * pseudo_rewards(bandit_log(row, Cells.of(row.contexts)), wrong)[0]
    np.testing.assert_allclose(expected, truth, atol=1e-12)


def test_a_model_without_a_chance_has_no_pseudo_reward():
    log = made_log(1)
    row = replace(log, action=np.array([0]), propensity=np.array([[0.5, 0.5, 0.0]]))
    values = pseudo_rewards(bandit_log(row, Cells.of(row.contexts)), np.zeros((1, 3)))
    assert np.isnan(values[0, 2])
    assert np.isfinite(values[0, :2]).all()


def test_cell_means_are_drawn_to_model_and_cell():
    features, actions = np.zeros((30, 1)), np.zeros(30, np.int64)
    predict = fit_cell_means(features, actions, np.ones(30), 2)
    assert predict(np.zeros((1, 1)))[0, 0] == pytest.approx(1.0)
    rewards = np.repeat([1.0, 0.0], 15)
    cells = np.repeat([[0.0], [1.0]], 15, axis=0)
    predict = fit_cell_means(cells, actions, rewards, 1)
    of_cell = 15 * 0.5 / (15 + PRIOR_ROWS)
    expected = (15 * 1.0 + PRIOR_ROWS * (0.5 + of_cell)) / (15 + PRIOR_ROWS)
    assert predict(np.array([[0.0]]))[0, 0] == pytest.approx(expected)
    assert predict(np.array([[7.0]]))[0, 0] == pytest.approx(0.5)  # a cell never seen: the model's mean


def test_predictions_do_not_know_the_task_they_are_for():
    data = made_log(300, rows_per_task=3)
    cells = Cells.of(data.contexts)
    task = data.contexts.task_id == data.contexts.task_id[0]
    before = predict_rewards(bandit_log(data, cells))
    changed = replace(data, quality=np.where(task, 1 - data.quality, data.quality))
    after = predict_rewards(bandit_log(changed, cells))
    np.testing.assert_array_equal(before[task], after[task])
    assert not np.array_equal(before, after)


def test_predictions_come_near_the_truth():
    data = made_log(6_000)
    predicted = predict_rewards(bandit_log(data, Cells.of(data.contexts)))
    expected = np.array([TRUTH[c] for c in data.contexts.category])
    assert np.abs(predicted - expected).mean() < 0.06


def test_a_single_task_is_refused():
    data = made_log(5, rows_per_task=5)
    with pytest.raises(ValueError, match="one task"):
        predict_rewards(bandit_log(data, Cells.of(data.contexts)))
