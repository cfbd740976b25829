"""Logged decisions in the form of off-policy estimators: rewards with propensities, and a model of the rewards."""

from __future__ import annotations

import numpy as np

from rl_base.evaluation import BanditLog, cross_fit
from rl_base.evaluation.reward_model import Predict
from sage.evidence.reward import REWARD_V1, RewardWeights
from sage.evidence.routing_data import RoutingData
from sage.policies.cells import Cells

FOLDS = 5
PRIOR_ROWS = 10.0  # a cell's own mean counts as much as what all cells say once it has this many rows


def bandit_log(
    data: RoutingData,
    cells: Cells,
    weights: RewardWeights = REWARD_V1,
    *,
    shadows: bool = False,
    sampled: bool | None = None,
) -> BanditLog:
    """Returns the rows as a bandit log with one cluster per task and the number of the cell as the only feature.

    A reward that nobody saw is entered as the lowest possible one. With `shadows`, outcomes of second models count too;
    those that nobody saw are NaN. With `sampled` (None: as `shadows`), rows whose outcome was not drawn to be reported
    have no try; without it they look like others that nobody saw.
    """
    used = data.measured(weights)
    asked = data.shadows if shadows else None
    return BanditLog(
        actions=data.action,
        rewards=np.where(data.observed, data.reward(weights), used.bounds[0]),
        propensities=data.propensity,
        features=cells.index(data.contexts)[:, None],
        clusters=data.contexts.task_id,
        reward_range=used.bounds,
        **({} if asked is None else asked.beside(data.propensity, asked.reward(used))),
        **(sampling_of(data) if sampled or (sampled is None and shadows) else {}),
    )


def sampling_of(data: RoutingData) -> dict[str, np.ndarray]:
    """Returns the fields of a `BanditLog` that say which outcomes were drawn to be reported; {} if every one is wanted."""
    if data.sampled is None or data.sampling_rates is None:
        return {}
    return {"sampled": data.sampled, "sampling_rates": data.sampling_rates}


def predict_rewards(
    log: BanditLog, seed: int = 0, observed: np.ndarray | None = None, *, earlier_rows: bool = False
) -> np.ndarray:
    """Returns [n, models]: the rewards that cell means predict from other tasks than the row's.

    Only rows that are True in `observed` (None: all) are learned from; with `earlier_rows`, earlier rows of the same
    task count too. Raises ValueError if all rows are of one task.
    """
    num_tasks = int(log.cluster_index.max()) + 1
    if num_tasks < 2:
        raise ValueError(
            "all rows are of one task: nothing can be learned or proved from a single task; log more tasks, with a "
            "task_id each and with their own first words"
        )
    folds = min(FOLDS, num_tasks)
    return cross_fit(log, fit_cell_means, folds=folds, seed=seed, rows=observed, earlier_rows=earlier_rows)


def fit_cell_means(features: np.ndarray, actions: np.ndarray, rewards: np.ndarray, num_actions: int) -> Predict:
    """Fits the mean reward of every model in every cell, shrunk to the effects of model and cell.

    `features` [n, 1] holds the number of the cell, `actions` [n] the model. Returns the function that predicts [n,
    models] for other rows; it predicts 0 if there are no rewards.
    """
    if not len(rewards):  # nobody saw a reward in the other folds
        return lambda new: np.zeros((len(new), num_actions))
    cell = features[:, 0].astype(np.int64) + 1  # -1 is a role never seen
    num_cells = int(cell.max()) + 1
    overall = rewards.mean()
    of_model = shrunk_mean(rewards, actions, num_actions, np.full(num_actions, overall))
    of_cell = shrunk_mean(rewards - of_model[actions], cell, num_cells, np.zeros(num_cells))
    expected = of_model[None, :] + of_cell[:, None]
    pair = cell * num_actions + actions
    table = shrunk_mean(rewards, pair, expected.size, expected.ravel()).reshape(expected.shape)

    def predict(new: np.ndarray) -> np.ndarray:
        asked = new[:, 0].astype(np.int64) + 1
        return np.where((asked < num_cells)[:, None], table[np.minimum(asked, num_cells - 1)], of_model)

    return predict


def shrunk_mean(values: np.ndarray, group: np.ndarray, num_groups: int, prior: np.ndarray) -> np.ndarray:
    """Returns [groups]: means of `values` [n] by `group` (int [n]); `prior` [groups] counts as PRIOR_ROWS rows."""
    sums, counts = np.bincount(group, values, num_groups), np.bincount(group, minlength=num_groups)
    return (sums + PRIOR_ROWS * prior) / (counts + PRIOR_ROWS)


def pseudo_rewards(log: BanditLog, predictions: np.ndarray) -> np.ndarray:
    """Returns [n, models]: every model's doubly robust reward in every row; NaN where it could not be seen.

    `predictions` [n, models] are predicted rewards from other tasks. A shadow's reward that nobody saw counts as it was
    predicted.
    """
    values, possible = predictions.copy(), log.chances > 0
    for tries in log.tries:
        rows = np.flatnonzero(tries.made)
        at = rows, tries.actions[rows]
        values[at] += np.nan_to_num(tries.rewards[rows] - predictions[at]) / log.chances[at]
    return np.where(possible, values, np.nan)
