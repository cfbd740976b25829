"""The cost-quality frontier of a log: policies from the highest quality to the lowest cost, with points between."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import pairwise

import numpy as np

from rl_base.evaluation import Estimate, interval
from sage.evidence.incumbent import incumbent_of
from sage.evidence.logged_rewards import bandit_log, predict_rewards, pseudo_rewards
from sage.evidence.objective import DEFAULT, Objective, points_worse, usd_per_task
from sage.evidence.routing_data import RoutingData
from sage.evidence.task_evidence import EvaluationError
from sage.policies.calibration import lower_bound_width
from sage.policies.cells import Cells
from sage.policies.policy import RoutingPolicy
from sage.proof.evaluation import FEWEST_TASKS, NOT_EVIDENCE
from sage.rl.dollar_worth import (
    LEVEL,
    ChoiceEstimator,
    SweptPolicy,
    cross_fitted_choices,
    sweep,
    with_quality_and_cost,
    within_limit,
)
from sage.rl.doubly_robust_learner import CONFIDENCE
from sage.rl.margin_learner import judge_shares


@dataclass(frozen=True, kw_only=True)
class FrontierPoint:
    """Estimated means of one policy per decision; each interval is that of the difference to the static table."""

    name: str
    quality: float
    quality_low: float
    quality_high: float
    cost_usd: float
    cost_low: float
    cost_high: float
    usd_per_task: float
    differs: float  # share of decisions for which another model than the static table's is chosen
    usd_worth: float | None = None  # quality that a dollar counts as, where that is what the policy was learned for


@dataclass(frozen=True, kw_only=True)
class Frontier:
    """The points of learned policies, single models and objectives, beside the static table's."""

    data_source: str
    num_rows: int
    num_tasks: int
    left_out_rows: int  # without a quality or a cost
    static: FrontierPoint
    curve: tuple[FrontierPoint, ...]  # from quality alone to cost alone
    models: tuple[FrontierPoint, ...]  # always the same one, where it may be chosen
    objectives: tuple[FrontierPoint, ...]

    @property
    def evidence(self) -> bool:
        return self.data_source != "synthetic"

    def to_json(self) -> dict:
        note = {} if self.evidence else {"note": NOT_EVIDENCE}
        return {"evidence": self.evidence, **note, "level": LEVEL, **asdict(self)}


def cost_quality_frontier(
    log: RoutingData, *, static: RoutingPolicy | None = None, objective: Objective = DEFAULT, seed: int = 0
) -> Frontier:
    """Learns policies as `sage train` does, and estimates them on tasks that they were not learned from.

    Raises EvaluationError if fewer than FEWEST_TASKS tasks have outcomes, and RewardError if no row has quality and
    cost.
    """
    data = with_quality_and_cost(log)
    tasks = len(np.unique(data.contexts.task_id))
    if tasks < FEWEST_TASKS:
        raise EvaluationError(f"the log has outcomes of {tasks} tasks, fewer than {FEWEST_TASKS}: log more tasks")
    cells, incumbent = Cells.of(data.contexts), incumbent_of(data, static)
    estimator, pessimism = ChoiceEstimator(data, cells, incumbent.choice, seed), lower_bound_width(CONFIDENCE)
    swept = sweep(data, cells, incumbent.choice, pessimism=pessimism, seed=seed)
    curve = [swept[0], *(one for before, one in pairwise(swept) if (one.choice != before.choice).any())]
    at_static = estimator.estimate(0.0, incumbent.choice)
    base = tuple(estimator.mean(v, incumbent.choice, less_incumbent=False).value for v in estimator.values)

    def point(name: str, found: SweptPolicy, *, worth: bool = True) -> FrontierPoint:
        return to_point(name, found, base, incumbent.choice, worth=worth)

    def for_weights(wanted: Objective) -> SweptPolicy:
        def values_of(rows: RoutingData) -> list[np.ndarray]:
            logged = bandit_log(rows, cells, wanted.weights, shadows=True)
            return [pseudo_rewards(logged, predict_rewards(logged, seed))]

        (choice,) = cross_fitted_choices(data, cells, incumbent.choice, values_of, pessimism=pessimism, seed=seed)
        return estimator.estimate(0.0, choice)

    wanted = {o.name: o for o in (objective, points_worse(1), usd_per_task(round_down(at_static.usd_per_task.value)))}

    def for_objective(wanted: Objective) -> SweptPolicy:
        if wanted.max_points_worse is not None:
            return judge_shares(data, cells, incumbent, wanted.margin, seed)
        return within_limit(swept, wanted) if wanted.constrained else for_weights(wanted)

    reached = {name: for_objective(one) for name, one in wanted.items()}
    singles = {model: always_choose(k, data, incumbent.choice) for k, model in enumerate(data.models)}
    return Frontier(
        data_source=data.source,
        num_rows=len(data),
        num_tasks=tasks,
        left_out_rows=len(log) - len(data),
        static=point(f"{incumbent.name} {incumbent.version}", at_static, worth=False),
        curve=tuple(point(f"a dollar counts as {one.usd_worth:.4g}", one) for one in curve),
        models=tuple(
            point(f"always {m}", estimator.estimate(0.0, choice), worth=False) for m, choice in singles.items()
        ),
        objectives=tuple(point(name, one, worth=wanted[name].constrained) for name, one in reached.items()),
    )


def to_point(
    name: str, found: SweptPolicy, base: tuple[float, ...], incumbent: np.ndarray, *, worth: bool = True
) -> FrontierPoint:
    quality, cost = base

    def ends(estimate: Estimate, *, skewed: bool) -> tuple[float, float]:
        bounds = interval(estimate, level=LEVEL, skewed=skewed)
        return bounds.low, bounds.high

    (worst, best), (least, most) = ends(found.quality, skewed=False), ends(found.cost, skewed=True)
    return FrontierPoint(
        name=name,
        quality=quality + found.quality.value,
        quality_low=max(quality + worst, 0.0),
        quality_high=min(quality + best, 1.0),
        cost_usd=cost + found.cost.value,
        cost_low=max(cost + least, 0.0),
        cost_high=cost + most,
        usd_per_task=found.usd_per_task.value,
        differs=share_elsewhere(found.choice, incumbent),
        usd_worth=found.usd_worth if worth else None,
    )


def share_elsewhere(choice: np.ndarray, incumbent: np.ndarray) -> float:
    """Returns the share of decisions for another model than the incumbent's (int [n]).

    `choice` are models (int [n]) or probabilities [n, models].
    """
    if choice.ndim == 1:
        return float((choice != incumbent).mean())
    return float(1 - choice[np.arange(len(choice)), incumbent].mean())


def always_choose(model: int, data: RoutingData, incumbent: np.ndarray) -> np.ndarray:
    """Returns int64 [n]: the given model wherever it could have been chosen, else the incumbent's."""
    return np.where(data.propensity[:, model] > 0, model, incumbent)


def round_down(usd: float) -> float:
    """Returns the amount rounded down to two digits, and never 0."""
    digits = 1 - int(np.floor(np.log10(usd))) if usd > 0 else 0
    return float(np.floor(usd * 10.0**digits) / 10.0**digits) or np.finfo(float).tiny
