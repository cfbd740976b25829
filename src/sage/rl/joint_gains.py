"""Gains of all models in all cells together, shrunk, with the errors that they have in common."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sage.policies.gains import LEAST_VARIANCE, PRIOR_TASKS, GroupGains, between_variance, group_gains, pairs_of
from sage.rl.cell_posterior import deviation_of_spread, without_small

SHARED = 0.5  # correlation of two models' gains before any are seen: the incumbent's outcome is in both


class JointGains(NamedTuple):
    """Gains of the entries, which are the pairs of a cell and a model that enough is known of."""

    cell: np.ndarray  # int64 [entries]
    model: np.ndarray  # int64 [entries]
    gain: np.ndarray  # [entries] after shrinkage to the model's mean over cells
    error: np.ndarray  # [entries, entries] covariance of estimated less true gains
    noise: np.ndarray  # [entries, entries] covariance of the gains as measured, of tasks like these around true gains


def joint_gains(gain: np.ndarray, cell: np.ndarray, num_cells: int, tasks: np.ndarray) -> JointGains:
    """Returns the gains by cell and model of rows with gains [n, models] (NaN: not known), a cell and a task.

    Gains of different models in a cell are measured on the same tasks and over the same incumbent, so that their noise
    is correlated; the correlation is taken to be that over all cells. Noise of different cells is taken to be
    independent. Cells with hardly any tasks are left out.
    """
    found = without_small(group_gains(gain, cell, num_cells, tasks), cell, tasks)
    known = np.isfinite(found.mean) & np.isfinite(found.variance)
    of_cell, of_model = np.nonzero(known)
    deviation = np.sqrt(np.maximum(found.variance[known], LEAST_VARIANCE))
    same_cell = of_cell[:, None] == of_cell
    correlation = noise_correlation(gain, found.mean, cell, num_cells, tasks)[np.ix_(of_model, of_model)]
    noise = np.where(same_cell, correlation * deviation * deviation[:, None], 0.0)
    between, kept = shrinkage(found, known)
    mean = found.mean[known]
    away = kept - np.eye(len(mean))
    error = between * away @ away.T + kept @ noise @ kept.T
    return JointGains(of_cell, of_model, kept @ mean, error, noise)


def noise_correlation(
    gain: np.ndarray, mean: np.ndarray, cell: np.ndarray, num_cells: int, tasks: np.ndarray
) -> np.ndarray:
    """Returns [models, models]: how the noise of models' mean gains is correlated, over the tasks of all cells.

    `gain` is [n, models], `mean` [cells, models], `cell` int [n]. SHARED counts as PRIOR_TASKS further tasks.
    """
    num_models = gain.shape[1]
    cell_of_pair, pair = pairs_of(cell, tasks)
    rows = np.bincount(cell, minlength=num_cells)[cell_of_pair]
    away = np.nan_to_num(gain - mean[cell])
    by_task = np.stack([np.bincount(pair, column, len(cell_of_pair)) for column in away.T], axis=1) / rows[:, None]
    covariance = by_task.T @ by_task
    deviation = np.sqrt(np.maximum(np.diag(covariance), LEAST_VARIANCE))
    seen = covariance / deviation / deviation[:, None]
    usual = SHARED + (1 - SHARED) * np.eye(num_models)
    num_tasks = len(np.unique(tasks))
    return (num_tasks * seen + PRIOR_TASKS * usual) / (num_tasks + PRIOR_TASKS)


def shrinkage(found: GroupGains, known: np.ndarray) -> tuple[float, np.ndarray]:
    """Returns the variance of true gains between cells, and the matrix that turns measured gains into shrunk ones.

    The variance includes its own standard error: gains may differ more between cells than they happen to in the log.
    """
    variance = np.where(known, np.maximum(np.nan_to_num(found.variance, nan=1.0), LEAST_VARIANCE), np.inf)
    between = between_variance(np.where(known, found.mean, 0.0), variance, known)
    precision = 1 / (variance + between)  # 0 where nothing is known
    of_model = precision / np.maximum(precision.sum(axis=0), LEAST_VARIANCE)
    own = (between / (variance + between))[known]
    model = np.nonzero(known)[1]
    kept = np.where(model[:, None] == model, (1 - own)[:, None] * of_model[known], 0.0)
    kept[np.diag_indices(len(own))] += own
    freedom = int(known.sum() - known.any(axis=0).sum())
    return between + deviation_of_spread(variance[known], freedom), kept
