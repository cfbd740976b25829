"""Numeric descriptions of a cascade's state for learners: a code for the whole history, and a summary of its parts."""

from __future__ import annotations

import numpy as np

from sage.policies.cascades.cascade_policy import ACCEPTED, REJECTED, CascadeStates, taken_column
from sage.policies.cells import Cells

MOST_MODELS = 24  # whose histories fit into the digits of a float


def history_codes(order: np.ndarray, verdict: np.ndarray) -> np.ndarray:
    """Returns int64 [n]: one number for the tried models, the verdict on each, and the model whose answer is taken.

    The order of attempts plays no other part, because for a given task it does not change later outcomes. Raises
    ValueError for more than MOST_MODELS models.
    """
    num_models = order.shape[1]
    if num_models > MOST_MODELS:
        raise ValueError(f"a cascade of {num_models} models is too long: learn one of at most {MOST_MODELS}")
    digit = np.where(order > 0, verdict + 2, 0)  # 0 not tried, 1 rejected, 2 not verified, 3 accepted
    tried = digit @ 4 ** np.arange(num_models, dtype=np.int64)
    return tried * (num_models + 1) + taken_column(order, verdict) + 1


def summaries(states: CascadeStates, cells: Cells, mean_cost: np.ndarray) -> np.ndarray:
    """Returns float64 [n, width]: the parts of the history, the cost surprise, and the cell as one-hot.

    For each model there is accepted, rejected, tried without a verdict, and taken; then the number of accepted answers,
    if there is any, and the log of the money spent over its usual amount (`mean_cost` [models], USD).
    """
    order, verdict = states.order, states.verdict
    tried = order > 0
    accepted, rejected = tried & (verdict == ACCEPTED), tried & (verdict == REJECTED)
    taken = np.eye(order.shape[1] + 1)[taken_column(order, verdict)][:, :-1]
    usual = tried @ mean_cost
    ratio = np.divide(states.spent_usd, usual, out=np.ones(len(usual)), where=usual > 0)
    surprise = np.log(np.clip(ratio, 0.1, 10.0))
    one_hot = cells.index(states.contexts)[:, None] == np.arange(len(cells))
    counts = [accepted.sum(axis=1), accepted.any(axis=1), surprise]
    return np.column_stack([accepted, rejected, tried & ~accepted & ~rejected, taken, *counts, one_hot]).astype(float)
