"""The worth of a dollar in quality at which a policy keeps to a limit, found on tasks held out of learning."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from rl_base.evaluation import BanditLog, Estimate, interval
from rl_base.evaluation.estimate import ratio_estimate
from rl_base.evaluation.reward_model import assign_folds
from sage.evidence.logged_rewards import FOLDS, pseudo_rewards
from sage.evidence.objective import Objective
from sage.evidence.quality_and_cost import Part, cost_part, per_task, quality_part
from sage.evidence.reward import RewardError
from sage.evidence.routing_data import RoutingData
from sage.evidence.shadows import chances_of
from sage.policies.cell_policy import lower_scores
from sage.policies.cells import Cells
from sage.rl.cell_posterior import cell_posterior

LEVEL = 0.95
WORTHS = (0.0, *np.geomspace(0.003, 3.0, 25).tolist())  # of the log's mean cost, in quality


class QualityAndCostValues(NamedTuple):
    """The doubly robust quality and cost [n, models] of every model in every row."""

    quality: np.ndarray
    cost: np.ndarray

    def worth(self, usd_worth: float) -> np.ndarray:
        return self.quality - usd_worth * self.cost


class SweptPolicy(NamedTuple):
    """The estimated results of policies for one worth of a dollar, on tasks that they were not learned from."""

    usd_worth: float  # quality that a dollar counts as
    choice: np.ndarray  # int64 [n], or probabilities [n, models]
    quality: Estimate  # per decision, less the incumbent's
    cost: Estimate  # USD per decision, less the incumbent's
    usd_per_task: Estimate


class ChoiceEstimator:
    """Doubly robust estimates of choices [n] on the rows of a log, compared with the incumbent's."""

    def __init__(self, data: RoutingData, cells: Cells, incumbent: np.ndarray, seed: int = 0) -> None:
        parts = parts_of(data, cells, seed)
        self.values = QualityAndCostValues(*(known_or_predicted(part) for part in parts))
        self.log: BanditLog = parts[0].log
        self.incumbent = incumbent

    def mean(self, values: np.ndarray, choice: np.ndarray, *, less_incumbent: bool = True) -> Estimate:
        """Returns the mean of `values` [n, models] at the choices (int [n], or probabilities [n, models]), per decision.

        The mean of the incumbent's choices is subtracted unless `less_incumbent` is False.
        """
        rows = np.arange(len(choice))
        score = values[rows, choice] if choice.ndim == 1 else (choice * values).sum(axis=1)
        score = score - (values[rows, self.incumbent] if less_incumbent else 0.0)
        return ratio_estimate("doubly robust", score, np.ones_like(score), self.log.cluster_index)

    def estimate(self, usd_worth: float, choice: np.ndarray) -> SweptPolicy:
        """Returns the quality and cost of the choices that were made for this worth of a dollar.

        They are models (int [n]), or probabilities [n, models].
        """
        quality, cost = self.values
        per_decision = self.mean(cost, choice, less_incumbent=False)
        return SweptPolicy(
            usd_worth,
            choice,
            self.mean(quality, choice),
            self.mean(cost, choice),
            per_task(per_decision, self.log),
        )


def with_quality_and_cost(data: RoutingData) -> RoutingData:
    """Returns the rows whose quality and cost are known.

    Raises RewardError if there are none.
    """
    known = data.observed & ~np.isnan(data.cost_usd)
    if not known.any():
        raise RewardError("no row has both a quality and a cost: report cost_usd with the outcomes")
    return data.select(known)


def parts_of(data: RoutingData, cells: Cells, seed: int) -> tuple[Part, Part]:
    cost = cost_part(data, cells, seed, shadows=True)
    assert cost is not None, "no row has a cost: select them with `with_quality_and_cost`"
    return quality_part(data, cells, seed, shadows=True), cost


def quality_and_cost_values(data: RoutingData, cells: Cells, seed: int = 0) -> QualityAndCostValues:
    """Returns the doubly robust quality and cost of every model in every row; NaN where it could not be chosen."""
    return QualityAndCostValues(*(pseudo_rewards(part.log, part.predictions) for part in parts_of(data, cells, seed)))


def known_or_predicted(part: Part) -> np.ndarray:
    values = pseudo_rewards(part.log, part.predictions)
    return np.where(np.isnan(values), part.predictions, values)


def sweep(
    data: RoutingData, cells: Cells, incumbent: np.ndarray, *, pessimism: float, seed: int = 0
) -> list[SweptPolicy]:
    """Learns policies for every worth of a dollar in WORTHS on the other folds of tasks; returns their estimates.

    `incumbent` (int [n]) are the choices of today, `pessimism` is the number of deviations subtracted from gains.
    """
    estimator = ChoiceEstimator(data, cells, incumbent, seed)
    worths = [worth / max(float(data.cost_usd.mean()), np.finfo(float).tiny) for worth in WORTHS]

    def values_of(rows: RoutingData) -> list[np.ndarray]:
        both = quality_and_cost_values(rows, cells, seed)
        return [both.worth(worth) for worth in worths]

    choices = cross_fitted_choices(data, cells, incumbent, values_of, pessimism=pessimism, seed=seed)
    return [estimator.estimate(worth, choice) for worth, choice in zip(worths, choices, strict=True)]


def cross_fitted_choices(
    data: RoutingData,
    cells: Cells,
    incumbent: np.ndarray,
    values_of: Callable[[RoutingData], list[np.ndarray]],
    *,
    pessimism: float,
    seed: int = 0,
) -> list[np.ndarray]:
    """Returns the choices [n] of tables learned on other folds of tasks, for each array that `values_of` gives.

    `values_of` gets the rows of the other folds and returns arrays of values [rows, models]. The folds are those of a
    `ChoiceEstimator` with this seed, so that neither the choice nor its estimate has seen the row's task.
    """
    cell, task = cells.index(data.contexts), np.unique(data.contexts.task_id, return_inverse=True)[1]
    folds = min(FOLDS, int(task.max()) + 1)
    fold_of_row, supported = assign_folds(task, folds, seed), chances_of(data.propensity, data.shadows) > 0
    found: list[list[np.ndarray]] = []
    for fold in range(folds):
        held_out = fold_of_row == fold
        seen = np.flatnonzero(~held_out)
        found.append([])
        for values in values_of(data.select(seen)):
            posterior = cell_posterior(values, cells, cell[seen], incumbent[seen], task[seen], sweeps=0)
            scores = lower_scores(*posterior, pessimism)[cell[held_out]]
            found[-1].append(best_of(scores, supported[held_out], incumbent[held_out]))
    order = np.argsort(fold_of_row, kind="stable").argsort()
    return [np.concatenate(parts)[order] for parts in zip(*found, strict=True)]


def best_of(scores: np.ndarray, supported: np.ndarray, incumbent: np.ndarray) -> np.ndarray:
    """Returns int64 [n]: the model with the highest score among those that are True in `supported` [n, models].

    It is the incumbent where no score is known, or where the incumbent itself is not supported.
    """
    rows = np.arange(len(scores))
    scores = np.where(supported & supported[rows, incumbent][:, None], scores, -np.inf)
    choice = scores.argmax(axis=1)
    return np.where(np.isinf(scores[rows, choice]), incumbent, choice)


def within_limit(points: list[SweptPolicy], objective: Objective) -> SweptPolicy:
    """Returns the cheapest point whose lower bound of quality keeps to the margin of the objective.

    Under a limit on cost, returns the best point whose upper bound of cost per task keeps to the budget. If none does,
    returns the point for the lowest worth of a dollar (limit on quality) or for the highest (limit on cost).
    """
    if objective.max_usd_per_task is None:
        kept = [p for p in points if interval(p.quality, level=LEVEL).low >= -objective.margin]
        return min(kept, key=lambda point: point.cost.value) if kept else points[0]
    limit = objective.max_usd_per_task
    kept = [p for p in points if interval(p.usd_per_task, level=LEVEL, skewed=True).high <= limit]
    return max(kept, key=lambda point: point.quality.value) if kept else points[-1]
