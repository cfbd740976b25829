"""Values of every action, fitted from the last step of the logged episodes back to the first."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rl_base.evaluation.logs import EpisodeLog, checked_actions
from rl_base.evaluation.reward_model import FitRewardModel, Predict, assign_folds, fit_ridge

StateValue = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""Numbers of rows [m] and the values of their actions [m, actions] to what the states are worth [m]."""


def fit_values(
    log: EpisodeLog,
    features: np.ndarray,
    actions: np.ndarray,
    num_actions: int,
    state_value: StateValue,
    *,
    fit: FitRewardModel = fit_ridge,
    rows: np.ndarray | None = None,
) -> tuple[Predict, ...]:
    """Fits one model of action values for each step, from the last to the first; returns the models in order of steps.

    This is fitted Q with a finite horizon (Ernst et al., 2005). A model maps features [m, d] to values [m, actions]. It
    is fitted to the reward plus the discounted value of the next step, `state_value(row numbers [m], values)`. An
    expectation over a policy's probabilities gives its values, the maximum those of the best policy. Only `rows` (bool
    [n], whole episodes; None: all) are used; a step without rows has values 0.
    """
    times, continues = log.times, np.append(log.episodes[1:] == log.episodes[:-1], False)
    rows = np.ones(len(times), bool) if rows is None else rows
    value, models = np.zeros(len(times) + 1), []
    for time in reversed(range(int(times.max()) + 1)):
        here = np.flatnonzero(rows & (times == time))
        if not len(here):
            models.append(nothing_known(num_actions))
            continue
        goal = log.rewards[here] + log.gamma * np.where(continues[here], value[here + 1], 0.0)
        models.append(fit(features[here], actions[here], goal, num_actions))
        value[here] = state_value(here, models[-1](features[here]))
    return tuple(reversed(models))


def cross_fit_values(
    log: EpisodeLog,
    features: np.ndarray,
    actions: np.ndarray,
    target: np.ndarray,
    *,
    fit: FitRewardModel = fit_ridge,
    folds: int = 5,
    seed: int = 0,
    rows: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Returns a policy's Q of the actions taken and its V, [n] each, from models fitted without the row's cluster.

    `target` [n, actions] are the policy's probabilities; only `rows` (bool [n]; None: all) are fitted to. The result is
    what `sequential_doubly_robust` takes. Raises ValueError unless `folds` is between 2 and the number of clusters.
    """
    num_actions = target.shape[1]
    actions = checked_actions(actions, len(log.rewards), num_actions)
    times, fold_of_row = log.times, assign_folds(log.cluster_index, folds, seed)[log.episodes]
    action_values, state_values = np.zeros((2, len(actions)))

    def expected(asked: np.ndarray, values: np.ndarray) -> np.ndarray:
        return (target[asked] * values).sum(axis=1)

    for fold in range(folds):
        seen = fold_of_row != fold
        seen = seen if rows is None else seen & rows
        models = fit_values(log, features, actions, num_actions, expected, fit=fit, rows=seen)
        for time, model in enumerate(models):
            here = np.flatnonzero((fold_of_row == fold) & (times == time))
            if len(here):
                values = model(features[here])
                action_values[here] = values[np.arange(len(here)), actions[here]]
                state_values[here] = expected(here, values)
    return action_values, state_values


def nothing_known(num_actions: int) -> Predict:
    return lambda features: np.zeros((len(features), num_actions))
