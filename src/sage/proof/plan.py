"""Plans of a proof: the decisions and the exploration that it takes, and their cost, from the log's own variances."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from rl_base.evaluation.diagnostics import ROWS_PER_SQUARED_SKEWNESS, skewness
from rl_base.evaluation.intervals import Method
from rl_base.evaluation.within_cluster import Components, variance_components
from sage.evidence.incumbent import incumbent_of
from sage.evidence.logged_rewards import bandit_log, fit_cell_means, predict_rewards, pseudo_rewards
from sage.evidence.reward import REWARD_V1, RewardWeights
from sage.evidence.routing_data import RoutingData
from sage.policies.cells import Cells
from sage.policies.policy import RoutingPolicy
from sage.proof.evaluation import FEWEST_TASKS
from sage.proof.power import ONE_LOOK, chance, quantile
from sage.rl.cell_posterior import gains_over
from sage.rl.find_plausible import plausible_mask

HISTORIES = 4_000  # drawn, for what earlier rows of a task tell
SECONDS_A_DAY = 86_400.0
FARTHEST = 10**12  # decisions: whoever needs more cannot be helped


class PlanError(ValueError):
    """A question that cannot be planned for; the message names the field, the value and the fix."""


@dataclass(frozen=True, kw_only=True)
class LogVariances:
    """The variances of outcomes in a log, and the rhythm of its decisions."""

    components: Components  # of rewards around the means of their cells
    rows_per_task: float  # of the task of an average row
    earlier_rows: np.ndarray  # int [n]: rows of the same task before each row
    rows_a_day: float | None  # None where the log has no clock


@dataclass(frozen=True, kw_only=True)
class Scheme:
    """A share of exploration, with its cost compared with the static table."""

    exploration: float
    models: float  # among which it draws, the static table's counted: the mean over decisions with more than one
    reward_lost: float  # per decision
    usd_spent: float | None  # per decision, None where costs are not known

    @property
    def other(self) -> float:
        """Returns the probability of a model that is not the static table's."""
        return self.exploration / self.models

    @property
    def usual(self) -> float:
        """Returns the probability of the static table's model."""
        return 1 - self.exploration + self.other


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The decisions that a proof needs under one scheme of exploration, and the cost of exploring."""

    exploration: float
    models: float
    proof_rows: int | None  # decisions about tasks that were not learned from; None: no number is enough
    log_rows: int | None  # with those that the policy is learned from
    days: float | None  # at the log's rate
    half_width: float | None  # of the interval, at that number
    full_power: float | None  # at that number, with the outcomes of all models in every row
    power_share: float | None  # of it that the log has
    reward_lost: float  # per 1,000 decisions
    usd_spent: float | None  # per 1,000 decisions


def measure_log(data: RoutingData, weights: RewardWeights = REWARD_V1) -> LogVariances:
    """Returns the variance components of rewards around cell means, and the rows per task.

    Raises PlanError if fewer than FEWEST_TASKS tasks have outcomes.
    """
    known = data.select(data.observed)
    if (num_tasks := len(np.unique(known.contexts.task_id))) < FEWEST_TASKS:
        raise PlanError(f"the log has outcomes of {num_tasks} tasks, fewer than {FEWEST_TASKS}: log more tasks")
    log = bandit_log(known, Cells.of(known.contexts), weights)
    assert log.features is not None
    predicted = fit_cell_means(log.features, log.actions, log.rewards, len(known.models))(log.features)
    residuals = log.rewards - log.taken(predicted)
    task = np.unique(data.contexts.task_id, return_inverse=True)[1]
    sizes = np.bincount(task)
    span = float(np.ptp(data.time)) / SECONDS_A_DAY
    return LogVariances(
        components=variance_components(residuals, log.actions, log.cluster_index, len(known.models)),
        rows_per_task=float((sizes**2).sum() / sizes.sum()),
        earlier_rows=rows_before(task),
        rows_a_day=len(data) / span if data.source == "real" and span > 0 else None,
    )


def rows_before(task: np.ndarray) -> np.ndarray:
    """Returns int64 [n]: the number of earlier rows of the same task, for each row; `task` [n] numbers tasks from 0."""
    sizes = np.bincount(task)
    before = np.empty(len(task), np.int64)
    before[np.argsort(task, kind="stable")] = np.arange(len(task)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return before


def measure_scheme(
    data: RoutingData,
    exploration: float,
    *,
    most: int | None = None,
    static: RoutingPolicy | None = None,
    weights: RewardWeights = REWARD_V1,
    seed: int = 0,
) -> Scheme:
    """Returns the cost that a share of exploration would have had on the log.

    Exploration draws among all eligible models, or among the `most` plausible ones. Raises PlanError if there is
    nothing to explore.
    """
    known = data.select(data.observed)
    cells = Cells.of(known.contexts)
    cell, choice = cells.index(known.contexts), incumbent_of(known, static).choice
    log = bandit_log(known, cells, weights)
    values = pseudo_rewards(log, predict_rewards(log, seed))
    explored = known.eligible
    if most is not None:
        kept = plausible_mask(values, cell, len(cells), choice, known.contexts.task_id, most)
        explored = explored & kept[cell]
    width = explored.sum(axis=1)
    if not (width > 1).any():
        raise PlanError("no model but the static table's can be explored: add models, or plan with a larger --among")
    gain = np.where(explored, np.nan_to_num(gains_over(values, choice)), 0.0).sum(axis=1) / width
    spent = None
    if not np.isnan(known.cost_usd).all():
        paid = ~np.isnan(known.cost_usd)
        table = fit_cell_means(cell[paid][:, None], known.action[paid], known.cost_usd[paid], len(known.models))
        more = gains_over(table(cell[:, None]), choice)
        spent = exploration * float((np.where(explored, more, 0.0).sum(axis=1) / width).mean())
    return Scheme(
        exploration=exploration,
        models=float(width[width > 1].mean()),
        reward_lost=-exploration * float(gain.mean()),
        usd_spent=spent,
    )


def row_variance(found: LogVariances, scheme: Scheme, *, gain: float, acting: float, seed: int = 0) -> float:
    """Returns n times the variance of the gate's estimate from n decisions.

    The policy acts in the share `acting` of decisions and gains `gain` on average. Between tasks: where the policy
    acts, gains vary by the effects of task and model, over all rows of the task together. Within tasks: every row adds
    the doubly robust correction, whose predictions know the earlier rows of the task.
    """
    error, incumbent_error, both = prediction_errors(found, scheme, seed)
    correction = error / scheme.other + incumbent_error / scheme.usual - (error + incumbent_error - 2 * both)
    return full_variance(found, gain=gain, acting=acting) + acting * correction


def full_variance(found: LogVariances, *, gain: float, acting: float) -> float:
    """Returns n times the variance of the gain's mean over n decisions with the outcomes of all models."""
    _, of_action, rest = found.components
    between = acting * (2 * of_action + (gain / acting) ** 2) - gain**2
    return found.rows_per_task * between + 2 * acting * rest


def prediction_errors(found: LogVariances, scheme: Scheme, seed: int = 0) -> tuple[float, float, float]:
    """Returns the mean squared errors of two predicted rewards, and the mean product of their errors.

    The rewards are those of the policy's and of the static table's model. Means are over random histories of tasks
    under the scheme, with as many earlier rows as decisions of the log had.
    """
    shared, of_action, rest = found.components
    rng = np.random.default_rng(seed)
    models = max(round(scheme.models), 2)
    earlier = rng.choice(found.earlier_rows, HISTORIES)
    chances = np.full(models, scheme.exploration / models)
    chances[0] += 1 - scheme.exploration
    counts = rng.multinomial(earlier, chances)  # of the static table's model, the policy's, and the others
    noise = of_action + rest / np.maximum(counts, 1)
    precision = np.where((counts > 0) & (noise > 0), 1 / np.maximum(noise, 1e-12), 0.0)
    left = 1 - of_action * precision[:, :2]  # of what a task and a model have in common
    of_task = shared / (1 + shared * precision.sum(axis=1))
    errors = left**2 * of_task[:, None] + of_action * left + rest
    return float(errors[:, 1].mean()), float(errors[:, 0].mean()), float((left.prod(axis=1) * of_task).mean())


def power_at(rows: float, variance: float, gain: float, method: Method = ONE_LOOK, looks: int = 1) -> float:
    """Returns the chance that the lower bound is above zero after this number of decisions."""
    return chance(gain, math.sqrt(variance / rows), method, looks)


def rows_for(variance: float, gain: float, power: float, method: Method = ONE_LOOK, looks: int = 1) -> int | None:
    """Returns the fewest decisions with at least this power; None if 10^12 are too few."""
    if power_at(FARTHEST, variance, gain, method, looks) < power:
        return None
    low, high = 0, FARTHEST
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if power_at(middle, variance, gain, method, looks) >= power else (middle, high)
    return high


def fewest_rows(scheme: Scheme, acting: float) -> int:
    """Returns the number of decisions below which the gate refuses, because the weights are too skewed."""
    second = acting / scheme.other + (1 - acting) / scheme.usual
    third = acting / scheme.other**2 + (1 - acting) / scheme.usual**2
    return math.ceil(ROWS_PER_SQUARED_SKEWNESS * skewness(1.0, second, third) ** 2)


def make_plan(
    found: LogVariances,
    scheme: Scheme,
    *,
    gain: float,
    power: float = 0.8,
    acting: float = 0.3,
    holdout: float = 0.4,
    method: Method = ONE_LOOK,
    looks: int = 1,
) -> Plan:
    """Returns the decisions that one scheme needs to prove a gain, and what its exploration costs.

    `looks` are planned ones, evenly spaced up to that number, unless the method is the anytime interval.
    Raises PlanError for a number out of range.
    """
    check_range("gain", gain, 1.0, "the reward per decision that the policy is better by, as 0.01")
    check_range("power", power, 1.0, "the chance that the gate promotes it, as 0.8")
    check_range("acting", acting, 1.0, "the share of decisions that the policy takes, as 0.3", whole=True)
    check_range("holdout", holdout, 1.0, "the share of tasks that the gate judges on, as 0.4", whole=True)
    check_range("exploration", scheme.exploration, 1.0, "the share of calls that explore, as 0.3", whole=True)
    if looks < 1:
        raise PlanError(f"looks={looks} must be at least 1: it is the number of planned looks")
    if gain >= acting:
        raise PlanError(f"gain={gain:g} needs acting above it: a policy gains at most 1 where it decides")
    variance = row_variance(found, scheme, gain=gain, acting=acting)
    enough = rows_for(variance, gain, power, method, looks)
    rows = None if enough is None else max(enough, fewest_rows(scheme, acting))
    log_rows = None if rows is None else math.ceil(rows / holdout)
    error = None if rows is None else math.sqrt(variance / rows)
    full = None
    if rows is not None:
        full = power_at(rows, full_variance(found, gain=gain, acting=acting), gain, method, looks)
    return Plan(
        exploration=scheme.exploration,
        models=scheme.models,
        proof_rows=rows,
        log_rows=log_rows,
        days=None if log_rows is None or found.rows_a_day is None else log_rows / found.rows_a_day,
        half_width=None if error is None else quantile(error, method, looks) * error,
        full_power=full,
        power_share=None if full is None or rows is None else power_at(rows, variance, gain, method, looks) / full,
        reward_lost=1_000 * scheme.reward_lost,
        usd_spent=None if scheme.usd_spent is None else 1_000 * scheme.usd_spent,
    )


def check_range(name: str, value: float, most: float, meaning: str, *, whole: bool = False) -> None:
    """Raises PlanError unless `value` is above 0 and below `most`; with `whole`, `most` itself is allowed."""
    if not (0 < value <= most if whole else 0 < value < most):
        limit = "at most" if whole else "below"
        raise PlanError(f"{name}={value:g} must be above 0 and {limit} {most:g}: it is {meaning}")
