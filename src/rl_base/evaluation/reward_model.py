"""Reward models for the doubly robust estimator, fitted on other clusters than those they predict."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from rl_base.evaluation.logs import BanditLog
from rl_base.evaluation.within_cluster import expected_residuals, variance_components

Predict = Callable[[np.ndarray], np.ndarray]
"""Features [m, d] to the expected reward of every action [m, actions]."""
FitRewardModel = Callable[[np.ndarray, np.ndarray, np.ndarray, int], Predict]
"""Features [m, d], actions [m], rewards [m] and the number of actions to a fitted model."""


class Outcomes(NamedTuple):
    """The known rewards of a log, one per entry, each with its row, its action and a flag.

    The flag says that the reward was known whatever action was drawn.
    """

    rows: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    first: np.ndarray  # bool: known in the row whatever action was drawn

    def select(self, chosen: np.ndarray) -> Outcomes:
        return Outcomes(*(column[chosen] for column in self))


def outcomes_of(log: BanditLog, usable: np.ndarray) -> Outcomes:
    """Returns the rewards of drawn actions in rows of `usable` (bool [n]), and other known rewards of any row.

    A known reward whose action was also drawn counts once. Rows that were not sampled have none.
    """
    usable = usable if log.sampled is None else usable & log.sampled
    rows = np.flatnonzero(usable)
    if log.beside_actions is not None and log.beside_rewards is not None:
        return with_those_besides(log, rows, log.beside_actions, log.beside_rewards)
    if log.known_actions is None or log.known_rewards is None:
        return Outcomes(rows, log.actions[rows], log.rewards[rows], np.zeros(len(rows), bool))
    known = np.flatnonzero(log.known_actions >= 0)
    rows = np.flatnonzero(usable & (log.actions != log.known_actions))
    return Outcomes(
        rows=np.concatenate([known, rows]),
        actions=np.concatenate([log.known_actions[known], log.actions[rows]]),
        rewards=np.concatenate([log.known_rewards[known], log.rewards[rows]]),
        first=np.arange(len(known) + len(rows)) < len(known),
    )


def with_those_besides(
    log: BanditLog, rows: np.ndarray, beside_actions: np.ndarray, beside_rewards: np.ndarray
) -> Outcomes:
    """Returns the rewards of actions drawn in `rows` (numbers), and the known rewards of actions tried besides.

    `beside_actions` and `beside_rewards` are [n], -1 and NaN where there is none. An action that was sure to be drawn
    (propensity 1) is marked as known whatever was drawn, if `rows` are all rows: which rewards are missing might depend
    on what was tried besides.
    """
    others = np.flatnonzero((beside_actions >= 0) & ~np.isnan(beside_rewards))
    sure = log.taken(log.propensities) == 1
    first = sure[rows] & (len(rows) == len(log.actions))
    return Outcomes(
        rows=np.concatenate([rows, others]),
        actions=np.concatenate([log.actions[rows], beside_actions[others]]),
        rewards=np.concatenate([log.rewards[rows], beside_rewards[others]]),
        first=np.concatenate([first, np.zeros(len(others), bool)]),
    )


def cross_fit(
    log: BanditLog,
    fit: FitRewardModel | None = None,
    *,
    folds: int = 5,
    seed: int = 0,
    rows: np.ndarray | None = None,
    earlier_rows: bool = False,
) -> np.ndarray:
    """Returns [n, actions] predicted rewards, each row's from models that were fitted to other clusters than its own.

    A model that has seen the row would hide part of its own error, and the doubly robust interval would be too short.
    Only `rows` (bool [n]; None: all) are fitted to. With `earlier_rows`, rows of the same cluster that stand before the
    row in the log correct its prediction (`expected_residuals`): for logs in order of time, in which a row's reward
    does not depend on actions of later rows. Rewards that are known in a row are their own prediction.
    """
    fit = fit_ridge if fit is None else fit
    features = np.zeros((len(log.rewards), 0)) if log.features is None else log.features
    fold_of_row = assign_folds(log.cluster_index, folds, seed)
    outcomes = outcomes_of(log, np.ones(len(log.rewards), bool) if rows is None else rows)
    num_actions = log.propensities.shape[1]
    predictions = np.empty((len(log.rewards), num_actions))
    for fold in range(folds):
        held_out = fold_of_row == fold
        is_own = held_out[outcomes.rows]
        others = outcomes.select(~is_own)
        model = fit(features[others.rows], others.actions, others.rewards, num_actions)
        predictions[held_out] = model(features[held_out])
        if earlier_rows:
            fitted = others.rewards - taken(model(features[others.rows]), others.actions)
            components = variance_components(fitted, others.actions, log.cluster_index[others.rows], num_actions)
            own = outcomes.select(is_own)
            residuals = own.rewards - taken(predictions[own.rows], own.actions)
            place = (np.cumsum(held_out) - 1)[own.rows]
            clusters = log.cluster_index[held_out]
            columns = (residuals, own.actions, place, own.first, clusters)
            predictions[held_out] += expected_residuals(*columns, num_actions, components)
    sure = outcomes.select(outcomes.first)
    predictions[sure.rows, sure.actions] = sure.rewards
    return predictions


def taken(values: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """Returns [n] each row's entry of `values` [n, actions] for its action."""
    return values[np.arange(len(actions)), actions]


def assign_folds(clusters: np.ndarray, folds: int, seed: int) -> np.ndarray:
    """Returns [n] the number of each row's fold: whole `clusters` (numbers [n]), in random order, dealt out evenly.

    Raises ValueError unless `folds` is between 2 and the number of clusters.
    """
    num_clusters = int(clusters.max()) + 1
    if not 2 <= folds <= num_clusters:
        raise ValueError(
            f"folds is {folds} where the log has {num_clusters} clusters: choose between 2 and the number of clusters"
        )
    order = np.random.default_rng(seed).permutation(num_clusters)
    return (order % folds)[clusters]


def fit_ridge(
    features: np.ndarray, actions: np.ndarray, rewards: np.ndarray, num_actions: int, *, penalty: float = 1.0
) -> Predict:
    """Fits a ridge regression of rewards [m] on features [m, d] for each action; returns a function of features.

    It gives the predicted rewards [rows, actions]. The intercept is not penalised, so without features (d = 0)
    predictions are the mean per action. An action that was never taken gets the mean reward of all rows.
    """
    slopes = np.zeros((features.shape[1], num_actions))
    intercepts = np.full(num_actions, rewards.mean())
    for action in np.unique(actions):
        x, y = features[actions == action], rewards[actions == action]
        centre = x.mean(axis=0)
        gram = (x - centre).T @ (x - centre) + penalty * np.eye(x.shape[1])
        slopes[:, action] = np.linalg.solve(gram, (x - centre).T @ (y - y.mean()))
        intercepts[action] = y.mean() - centre @ slopes[:, action]
    return lambda new: new @ slopes + intercepts
