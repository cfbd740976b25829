"""Predicted rewards for a proof: cell means, improved by earlier decisions of the same task where that is unbiased."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np

from rl_base.evaluation import BanditLog, Estimate, doubly_robust, paired_difference
from rl_base.evaluation.missing import fill_missing
from sage.evidence.logged_rewards import predict_rewards
from sage.evidence.missingness import UNUSUAL


class EvaluationError(ValueError):
    """A question that the log cannot answer; the message names the reason and the fix."""


def predict_for_proof(
    log: BanditLog, candidate: np.ndarray, incumbent: np.ndarray, observed: np.ndarray, seed: int = 0
) -> np.ndarray:
    """Returns [n, models]: predictions that use earlier rows of the row's task, unless these would move the estimate.

    `candidate` and `incumbent` are probabilities [n, models], `observed` is bool [n]. Earlier rows move the estimate by
    chance alone if the outcome of a decision does not depend on later decisions of its task. Outcomes of whole tasks
    that are reported for each of their decisions do depend on them: if the two estimates differ at p < .01, the result
    is predicted by cell means alone.
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
    """Returns True if two arrays of predictions give the same estimate of candidate minus incumbent, up to chance.

    All arrays are [n, models], but `observed` is bool [n]. Up to chance means at p of .01 or more.
    """
    known = fill_missing(log, ~observed, plain)
    moved = paired_difference(
        *(gain_estimate(known, candidate, incumbent, predictions) for predictions in (informed, plain))
    )
    error = moved.standard_error
    return not error > 0 or 2 * NormalDist().cdf(-abs(moved.value) / error) >= UNUSUAL


def gain_estimate(log: BanditLog, candidate: np.ndarray, incumbent: np.ndarray, predictions: np.ndarray) -> Estimate:
    """Returns the doubly robust estimate of the candidate's mean reward minus the incumbent's.

    `candidate` and `incumbent` are probabilities, `predictions` rewards; all are [n, models].
    """
    return paired_difference(*(doubly_robust(log, target, predictions) for target in (candidate, incumbent)))
