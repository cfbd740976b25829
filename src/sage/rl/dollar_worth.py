"""What a dollar must be worth in quality for a policy to keep within a limit, found on tasks left out of learning."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from rl_training.evaluation import BanditLog, Estimate, interval
from rl_training.evaluation.estimate import ratio_estimate
from rl_training.evaluation.reward_model import assign_folds
from sage.evidence.logged_rewards import FOLDS, pseudo_rewards
from sage.evidence.objective import Objective
from sage.evidence.quality_and_cost import Part, cost_part, per_task, quality_part
from sage.evidence.reward import RewardError
from sage.evidence.routing_data import RoutingData
from sage.policies.cell_policy import lower_scores
from sage.policies.cells import Cells
from sage.rl.cell_posterior import cell_posterior

LEVEL = 0.95
WORTHS = (0.0, *np.geomspace(0.003, 3.0, 25).tolist())  # of the log's mean cost, in quality


class QualityAndCostValues(NamedTuple):
    """Doubly robust quality and cost [n, models] of every model in every row."""

    quality: np.ndarray
    cost: np.ndarray

    def worth(self, usd_worth: float) -> np.ndarray:
        return self.quality - usd_worth * self.cost


class SweptPolicy(NamedTuple):
    """Policies learned for one worth of a dollar, each judged on the tasks that it was not learned from."""

    usd_worth: float  # quality that a dollar counts as
    choice: np.ndarray  # int64 [n]
    quality: Estimate  # per decision, less the incumbent's
    cost: Estimate  # USD per decision, less the incumbent's
    usd_per_task: Estimate


class ChoiceEstimator:
    """Estimates of choices [n] on the rows of a log, compared with the incumbent's."""

    def __init__(self, data: RoutingData, cells: Cells, incumbent: np.ndarray, seed: int = 0) -> None:
        parts = parts_of(data, cells, seed)
        self.values = QualityAndCostValues(*(known_or_predicted(part) for part in parts))
        self.log: BanditLog = parts[0].log
        self.incumbent = incumbent

    def mean(self, values: np.ndarray, choice: np.ndarray, *, less_incumbent: bool = True) -> Estimate:
        """The mean per decision."""
        rows = np.arange(len(choice))
        score = values[rows, choice] - (values[rows, self.incumbent] if less_incumbent else 0.0)
        return ratio_estimate("doubly robust", score, np.ones_like(score), self.log.cluster_index)

    def estimate(self, usd_worth: float, choice: np.ndarray) -> SweptPolicy:
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
    """The rows of which quality and cost are known."""
    known = data.observed & ~np.isnan(data.cost_usd)
    if not known.any():
        raise RewardError("no row has both a quality and a cost: report cost_usd with the outcomes")
    return data.select(known)


def parts_of(data: RoutingData, cells: Cells, seed: int) -> tuple[Part, Part]:
    cost = cost_part(data, cells, seed)
    assert cost is not None, "no row has a cost: select them with `with_quality_and_cost`"
    return quality_part(data, cells, seed), cost


def quality_and_cost_values(data: RoutingData, cells: Cells, seed: int = 0) -> QualityAndCostValues:
    """NaN where a model could not have been chosen."""
    return QualityAndCostValues(*(pseudo_rewards(part.log, part.predictions) for part in parts_of(data, cells, seed)))


def known_or_predicted(part: Part) -> np.ndarray:
    values = pseudo_rewards(part.log, part.predictions)
    return np.where(np.isnan(values), part.predictions, values)


def sweep(
    data: RoutingData, cells: Cells, incumbent: np.ndarray, *, pessimism: float, seed: int = 0
) -> list[SweptPolicy]:
    """For every worth of a dollar, policies that were learned on the other folds of tasks."""
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
    """For each of the values that `values_of` gives [rows, models]: the choices [n] of tables learned on other folds of tasks.

    The folds are those of a `ChoiceEstimator` with this seed, so that neither choice nor judgement has seen the row's task.
    """
    cell, task = cells.index(data.contexts), np.unique(data.contexts.task_id, return_inverse=True)[1]
    folds = min(FOLDS, int(task.max()) + 1)
    fold_of_row, supported = assign_folds(task, folds, seed), data.propensity > 0
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
    """int64 [n] the best of the models that could have been chosen; the incumbent where nothing is known."""
    rows = np.arange(len(scores))
    scores = np.where(supported & supported[rows, incumbent][:, None], scores, -np.inf)
    choice = scores.argmax(axis=1)
    return np.where(np.isinf(scores[rows, choice]), incumbent, choice)


def within_limit(points: list[SweptPolicy], objective: Objective) -> SweptPolicy:
    """The cheapest whose lower bound of quality keeps to the margin; or the best whose upper bound of cost keeps to the budget.

    If none does: the one that is most careful about quality, or about cost.
    """
    if objective.max_usd_per_task is None:
        kept = [p for p in points if interval(p.quality, level=LEVEL).low >= -objective.margin]
        return min(kept, key=lambda point: point.cost.value) if kept else points[0]
    limit = objective.max_usd_per_task
    kept = [p for p in points if interval(p.usd_per_task, level=LEVEL, skewed=True).high <= limit]
    return max(kept, key=lambda point: point.quality.value) if kept else points[-1]
