"""Separate estimates of quality and cost on the same rows, for a policy compared with the incumbent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rl_base.evaluation import BanditLog, Estimate, interval
from rl_base.evaluation.intervals import Method
from rl_base.evaluation.missing import difference, fill_missing, worst_case_estimates
from sage.evidence.completeness import UNCHECKED, Completeness
from sage.evidence.logged_rewards import bandit_log, predict_rewards, sampling_of
from sage.evidence.objective import QUALITY, Objective
from sage.evidence.reward import RewardError
from sage.evidence.routing_data import RoutingData
from sage.evidence.shadows import unseen
from sage.evidence.task_evidence import predict_for_proof
from sage.policies.cells import Cells

COST_SCALE = 0.1  # of the mean logged cost: the difference that the anytime interval of costs is shortest for


@dataclass(frozen=True, kw_only=True)
class Amount:
    """An estimated mean, with an interval that holds whatever the missing outcomes were."""

    value: float
    low: float
    high: float
    missing: int  # rows in which nobody saw it


@dataclass(frozen=True, kw_only=True)
class QualityAndCost:
    """The differences in quality and cost per decision, candidate minus incumbent, and a task's cost with either."""

    quality: Amount
    cost_usd: Amount | None  # None where no row has a cost
    usd_per_task: Amount | None  # of the candidate
    incumbent_usd_per_task: float | None
    cost_ratio: Amount | None = None  # candidate's cost over the incumbent's; None where either is not known, or free


class Part(NamedTuple):
    """One side of the outcomes, quality or cost, as a bandit log with predictions."""

    log: BanditLog
    observed: np.ndarray  # bool [n]
    predictions: np.ndarray  # [n, models], from other tasks
    scale: float  # a difference worth finding
    skewed: bool

    @property
    def missing(self) -> int:
        """Returns the number of rows and shadows whose outcome was wanted and is not known."""
        return int((~self.observed & self.log.tries[0].made).sum()) + unseen(self.log)


def quality_part(data: RoutingData, cells: Cells, seed: int = 0, *, shadows: bool = False) -> Part:
    """Returns the qualities of the rows as a log with predictions; a time-out has quality 0."""
    log = bandit_log(data, cells, QUALITY, shadows=shadows)
    return Part(log, data.observed, predict_rewards(log, seed, data.observed), 0.05, skewed=False)


def cost_part(data: RoutingData, cells: Cells, seed: int = 0, *, shadows: bool = False) -> Part | None:
    """Returns the costs of the rows as a log with predictions; None if no row has a cost.

    A cost that nobody saw is taken to be at most the largest one that was seen.
    """
    observed = ~np.isnan(data.cost_usd)
    if not observed.any():
        return None
    seen, least = data.cost_usd[observed], np.finfo(float).tiny
    asked = data.shadows if shadows else None
    most = seen.max() if asked is None else max(seen.max(), np.nanmax(np.append(asked.cost_usd, 0.0)))
    log = BanditLog(
        actions=data.action,
        rewards=np.where(observed, data.cost_usd, 0.0),
        propensities=data.propensity,
        features=cells.index(data.contexts)[:, None],
        clusters=data.contexts.task_id,
        reward_range=(0.0, max(float(most), least)),
        **({} if asked is None else asked.beside(data.propensity, asked.cost_usd)),
        **(sampling_of(data) if shadows else {}),
    )
    scale = max(COST_SCALE * float(seen.mean()), least)
    return Part(log, observed, predict_rewards(log, seed, observed), scale, skewed=True)


def version_of(data: RoutingData, objective: Objective) -> str:
    """Returns the version of the reward that the rows give for the objective.

    Raises RewardError if the objective has a limit and no row has a cost.
    """
    if not objective.constrained:
        return data.measured(objective.weights).version
    if np.isnan(data.cost_usd).all():
        raise RewardError(f"no row has a cost, and the objective is {objective.name!r}: report cost_usd with outcomes")
    return objective.name


def estimate_both(
    data: RoutingData, candidate: np.ndarray, incumbent: np.ndarray, *, level: float, method: Method, seed: int = 0
) -> QualityAndCost:
    """Estimates quality and cost of a candidate compared with the incumbent, doubly robustly.

    Both policies are given by their probabilities [n, models]; `level` and `method` are those of the intervals.
    """
    cells = Cells.of(data.contexts)
    how = {"level": level, "method": method, "completeness": data.completeness}
    quality = quality_part(data, cells, seed, shadows=True)
    cost = cost_part(data, cells, seed, shadows=True)

    def for_proof(part: Part) -> Part:
        return part._replace(predictions=predict_for_proof(part.log, candidate, incumbent, part.observed, seed))

    better = bounded_mean(for_proof(quality), candidate, incumbent, **how)
    if cost is None:
        return QualityAndCost(quality=better, cost_usd=None, usd_per_task=None, incumbent_usd_per_task=None)
    known = for_proof(cost)
    change = bounded_mean(known, candidate, incumbent, **how)
    own, other = (
        difference(fill_with_predictions(known), policy, None, known.predictions) for policy in (candidate, incumbent)
    )
    return QualityAndCost(
        quality=better,
        cost_usd=change,
        usd_per_task=bounded_mean(cost, candidate, None, **how),
        incumbent_usd_per_task=bounded_mean(cost, incumbent, None, **how).value,
        cost_ratio=ratio_of(own, other, change, level=level, method=method),
    )


def ratio_of(own: Estimate, other: Estimate, change: Amount, *, level: float, method: Method) -> Amount | None:
    """Returns one mean cost over another, by the delta method; None unless both are above 0.

    `change` is their difference; if costs are missing, its interval widens that of the ratio.
    """
    if not (own.value > 0 and other.value > 0):
        return None
    ratio = own.value / other.value
    linear = Estimate("ratio", ratio, (own.influence - ratio * other.influence) / other.value)
    around = interval(linear, method=method, level=level, scale=COST_SCALE, skewed=True)
    low, high = around.low, around.high
    if change.missing:
        low, high = min(low, 1 + change.low / other.value), max(high, 1 + change.high / other.value)
    return Amount(value=ratio, low=max(low, 0.0), high=high, missing=change.missing)


def bounded_mean(
    part: Part,
    candidate: np.ndarray,
    incumbent: np.ndarray | None,
    *,
    level: float,
    method: Method,
    completeness: Completeness = UNCHECKED,
) -> Amount:
    """Returns the mean per decision of candidate minus incumbent, with its interval.

    Both are probabilities [n, models]. Without an incumbent it is the candidate's own mean per task. Rows that
    `completeness` lacks count as missing.
    """
    absent = completeness.weights(part.log)
    value = difference(fill_with_predictions(part), candidate, incumbent, part.predictions)
    ends = (value, value)
    if part.missing or absent is not None:
        ends = worst_case_estimates(part.log, candidate, incumbent, part.predictions, ~part.observed, absent)
    scale = part.scale
    if incumbent is None:
        scale *= len(part.log.actions) / len(value.influence)
        value, *ends = (per_task(found, part.log) for found in (value, *ends))
    low, high = (interval(end, method=method, level=level, scale=scale, skewed=part.skewed) for end in ends)
    return Amount(value=value.value, low=low.low, high=high.high, missing=part.missing + completeness.absent)


def per_task(estimate: Estimate, log: BanditLog) -> Estimate:
    """Returns a mean over decisions as the sum over all decisions of a task.

    The number of decisions is a property of the task, and taken to be the same with any policy.
    """
    sizes = np.bincount(log.cluster_index)
    absent = len(estimate.influence) - len(sizes)  # rows of any of these tasks, in clusters of their own
    sizes = np.concatenate([sizes, np.ones(absent, np.int64)])
    mean = float(sizes.sum()) / (len(sizes) - absent)
    influence = estimate.influence * mean + estimate.value * (sizes - mean)
    unseen = None if estimate.unseen is None else estimate.unseen.times(mean)
    return Estimate(estimate.name, estimate.value * mean, influence, estimate.bias_bound * mean, unseen=unseen)


def fill_with_predictions(part: Part) -> BanditLog:
    """Returns the log with predictions in place of the values that nobody saw."""
    return fill_missing(part.log, ~part.observed, part.predictions)
