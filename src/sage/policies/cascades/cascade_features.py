"""What a cascade's state looks like to those who learn: a number for the whole history, and a few for its parts."""

from __future__ import annotations

import numpy as np

from sage.policies.cascades.cascade_policy import ACCEPTED, REJECTED, CascadeStates, taken_column
from sage.policies.cells import Cells

MOST_MODELS = 24  # whose histories fit into the digits of a float


def history_codes(order: np.ndarray, verdict: np.ndarray) -> np.ndarray:
    """int64 [n]: which models were tried, what was said of each, and whose answer would be taken.

    The order of the attempts plays no other part: given the task it changes nothing in what is still to come.
    """
    num_models = order.shape[1]
    if num_models > MOST_MODELS:
        raise ValueError(f"a cascade of {num_models} models is too long: learn one of at most {MOST_MODELS}")
    digit = np.where(order > 0, verdict + 2, 0)  # 0 not tried, 1 rejected, 2 not verified, 3 accepted
    tried = digit @ 4 ** np.arange(num_models, dtype=np.int64)
    return tried * (num_models + 1) + taken_column(order, verdict) + 1


def summaries(states: CascadeStates, cells: Cells, mean_cost: np.ndarray) -> np.ndarray:
    """float64 [n, width]: the parts of the history, how dear the attempts were for these models, and the cell."""
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
