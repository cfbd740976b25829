"""Predicted rewards for a proof: cell means, corrected by earlier decisions of the same task where that changes nothing but noise."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np

from rl_training.evaluation import BanditLog, Estimate, doubly_robust, paired_difference
from rl_training.evaluation.missing import fill_missing
from sage.evidence.logged_rewards import predict_rewards
from sage.evidence.missingness import UNUSUAL


class EvaluationError(ValueError):
    """A question that the log cannot be asked: the sentence names the reason and the fix."""


def predict_for_proof(
    log: BanditLog, candidate: np.ndarray, incumbent: np.ndarray, observed: np.ndarray, seed: int = 0
) -> np.ndarray:
    """[n, models] predictions that use the earlier rows of the row's task, unless these would move the estimate.

    They move it by chance alone if the outcome of a decision does not depend on later decisions of its task. Outcomes of whole
    tasks, reported for each of their decisions, do: if the two estimates differ at p < .01, cell means alone predict.
    """
    plain = predict_rewards(log, seed, observed)
    informed = predict_rewards(log, seed, observed, earlier_rows=True)
    return informed if agree(log, candidate, incumbent, observed, plain, informed) else plain


def agree(
    log: BanditLog,
    candidate: np.ndarray,
    incumbent: np.ndarray,
    observed: np.ndarray,
    plain: np.ndarray,
    informed: np.ndarray,
) -> bool:
    """Whether two arrays of predictions give the same estimate but for chance."""
    known = fill_missing(log, ~observed, plain)
    moved = paired_difference(
        *(gain_estimate(known, candidate, incumbent, predictions) for predictions in (informed, plain))
    )
    error = moved.standard_error
    return not error > 0 or 2 * NormalDist().cdf(-abs(moved.value) / error) >= UNUSUAL


def gain_estimate(log: BanditLog, candidate: np.ndarray, incumbent: np.ndarray, predictions: np.ndarray) -> Estimate:
    """The doubly robust paired difference."""
    return paired_difference(*(doubly_robust(log, target, predictions) for target in (candidate, incumbent)))
