"""Cascades learned from logged episodes by fitted Q, from the last step back, with shrunk values of histories."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rl_base.evaluation import EpisodeLog, fit_ridge, fit_values
from sage.evidence.cascades.cascade_data import CascadeData
from sage.evidence.tasks import task_hashes
from sage.policies.cascades.cascade_features import history_codes, summaries
from sage.policies.cascades.learned_cascade import LearnedCascade
from sage.policies.cells import Cells
from sage.policies.learned_policy import Training

PRIOR_ROWS = 10.0  # a history's own mean counts as much as what the linear model says once it has this many rows
FEWEST_TASKS = 5  # of an action in a history: with fewer it is not known, and never chosen
PESSIMISM = 2.0  # standard errors that an action's value is lowered by: the best of many estimates is too high


class HistoryModel(NamedTuple):
    """A ridge regression on state summaries for each action, plus a correction for every pair of history and action."""

    slopes: np.ndarray  # [width + 1, actions], the last row is the intercept
    codes: np.ndarray  # int64 [histories], rising
    corrections: np.ndarray  # [histories, actions]
    tasks: np.ndarray  # [histories, actions] effective number, where that is asked for
    fewest: float = 0.0  # tasks below which an action is worth minus infinity

    def __call__(self, features: np.ndarray) -> np.ndarray:
        code = features[:, -2].astype(np.int64)
        place = np.minimum(np.searchsorted(self.codes, code), len(self.codes) - 1)
        found = (self.codes[place] == code)[:, None]
        values = features[:, :-2] @ self.slopes[:-1] + self.slopes[-1] + np.where(found, self.corrections[place], 0.0)
        return np.where(np.where(found, self.tasks[place], 0.0) >= self.fewest, values, -np.inf)


def fit_histories(
    features: np.ndarray,
    actions: np.ndarray,
    goals: np.ndarray,
    num_actions: int,
    *,
    wide: bool = True,
    pessimism: float = 0.0,
    fewest: float = 0.0,
) -> HistoryModel:
    """Fits the values of actions to `goals` [n] and returns a model that predicts [n, actions].

    `features` are those of `state_features`. With `wide` the linear model sees the whole summary, otherwise only what
    was tried and said. Values are lowered by `pessimism` standard errors, and are minus infinity for actions with fewer
    than `fewest` effective tasks.
    """
    width = features.shape[1] - 2 if wide else 4 * (num_actions - 1)
    ridge = fit_ridge(features[:, :width], actions, goals, num_actions)
    zero = ridge(np.zeros((1, width)))
    unused = np.zeros((features.shape[1] - 2 - width, num_actions))
    slopes = np.vstack([ridge(np.eye(width)) - zero, unused, zero])
    rest = goals - ridge(features[:, :width])[np.arange(len(goals)), actions]
    codes, history = np.unique(features[:, -2].astype(np.int64), return_inverse=True)
    cell, size = history * num_actions + actions, len(codes) * num_actions
    count = np.bincount(cell, minlength=size)
    mean = ratio(np.bincount(cell, rest, size), count)
    squares = (rest - mean[cell]) ** 2
    variance = (np.bincount(cell, squares, size) + PRIOR_ROWS * squares.mean()) / (count + PRIOR_ROWS)
    error = np.sqrt(variance / np.maximum(count, 1))
    corrections = mean * count / (count + PRIOR_ROWS) - pessimism * error
    shape = (len(codes), num_actions)
    tasks = effective_tasks(cell, features[:, -1], size) if fewest else np.zeros(size)
    return HistoryModel(slopes, codes, corrections.reshape(shape), tasks.reshape(shape), fewest)


def effective_tasks(cell: np.ndarray, task: np.ndarray, num_cells: int) -> np.ndarray:
    """Returns [cells]: the number of tasks that a cell's rows are worth.

    `cell` and `task` are int [n]. The result is smaller than the number of a cell's tasks if a few of them have most of
    the rows.
    """
    number = np.unique(task, return_inverse=True)[1]
    pair, counts = np.unique(cell * (number.max() + 1) + number, return_counts=True)
    squares = np.bincount(pair // (number.max() + 1), counts.astype(float) ** 2, num_cells)
    return ratio(np.bincount(cell, minlength=num_cells) ** 2.0, squares)


def ratio(numerator: np.ndarray, denominator: np.ndarray) -> np.ndarray:
    """Returns the quotient elementwise; 0 where the denominator is 0."""
    return np.divide(numerator, denominator, out=np.zeros(len(numerator)), where=denominator > 0)


def state_features(data: CascadeData, cells: Cells, mean_cost: np.ndarray) -> np.ndarray:
    """Returns [n, width + 2]: each state's summary, the code of its history, and the number of its task."""
    _, task = np.unique(data.contexts.task_id, return_inverse=True)
    states = data.states
    return np.column_stack(
        [summaries(states, cells, mean_cost), history_codes(data.order, data.verdict), task[data.episode]]
    )


def episode_log(data: CascadeData, price: float) -> EpisodeLog:
    """Returns the episodes as a log for estimators, with tasks as clusters; unreported rewards are 0."""
    return EpisodeLog(
        episodes=data.episode,
        rewards=np.nan_to_num(data.rewards(price)),
        propensities=data.taken_propensity,
        clusters=data.contexts.task_id[data.episode],
    )


def mean_costs(data: CascadeData) -> np.ndarray:
    """Returns [models]: the mean cost of an attempt in USD; the mean of all attempts for a model never tried."""
    known = (data.action < data.stop) & ~np.isnan(data.cost_usd)
    counts = np.bincount(data.action[known], minlength=len(data.models))
    sums = np.bincount(data.action[known], data.cost_usd[known], len(data.models))
    return np.where(counts > 0, ratio(sums, counts), sums.sum() / max(counts.sum(), 1))


def learn_fitted_q(data: CascadeData, price: float, *, wide: bool = False, seed: int = 0) -> LearnedCascade:
    """Learns the cascade with the highest value by the logged episodes; `price` is quality per dollar.

    With `wide`, the cell and the money spent so far count too.
    """
    seen = data.select(data.observed)
    cells, costs = Cells.of(seen.contexts), mean_costs(seen)
    features, num_actions = state_features(seen, cells, costs), len(seen.models) + 1

    models: list[HistoryModel] = []  # from the last step back

    def fit(inputs: np.ndarray, actions: np.ndarray, goals: np.ndarray, size: int) -> HistoryModel:
        models.append(fit_histories(inputs, actions, goals, size, wide=wide, pessimism=PESSIMISM, fewest=FEWEST_TASKS))
        return models[-1]

    def best(rows: np.ndarray, values: np.ndarray) -> np.ndarray:
        highest = np.where(seen.eligible[rows], values, -np.inf).max(axis=1)
        return np.where(np.isfinite(highest), highest, 0.0)

    fit_values(episode_log(seen, price), features, seen.action, num_actions, best, fit=fit)
    codes = np.concatenate([model.codes for model in models])
    values = np.concatenate([np.where(m.tasks >= FEWEST_TASKS, m.corrections, -np.inf) for m in models])
    order = np.argsort(codes)
    name = "fitted_q_wide" if wide else "fitted_q"
    return LearnedCascade(
        name=name,
        models=seen.models,
        training=training_of(data, name, price, seed),
        cells=cells,
        price=price,
        codes=codes[order],
        values=values[order],
        weights=np.stack([model.slopes for model in reversed(models)]),
        mean_cost=costs,
    )


def training_of(data: CascadeData, learner: str, price: float, seed: int, **settings: float | int | str) -> Training:
    """Returns the record of a cascade's training; every task of the data counts as seen."""
    return Training(
        learner=learner,
        data_sha256=data.sha256,
        data_source=data.data_source,
        reward_version=reward_version(price),
        features_version=0,
        num_rows=len(data),
        seed=seed,
        against="the logged cascade",
        settings=settings,
        task_hashes=task_hashes(data.contexts.task_id, data.tasks),
    )


def reward_version(price: float) -> str:
    return f"quality - {price:g}/USD"
