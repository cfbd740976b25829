"""The power of a log: the chance that the gate proves a gain, and how much of it the outcomes that nobody saw cost."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

from rl_base.evaluation import BanditLog, Interval, Report
from rl_base.evaluation.intervals import Method, anytime_quantile
from rl_base.evaluation.spending import spending_boundaries
from sage.proof.look_plan import LookPlan

LEVEL = 0.95  # two-sided; its low end is the one-sided 97.5 % bound
ANYTIME, ONE_LOOK = "anytime", "t"  # intervals for a log that is looked at again and again, and for a single look
SCALE = 0.05  # of the anytime interval, as `interval` has it
GAIN = 0.01  # one point, for which an evaluation states its power


@dataclass(frozen=True, kw_only=True)
class Power:
    """The chance that a policy with this gain is promoted, from the log's rows and if every outcome were known."""

    gain: float  # over the limit, where an objective has one
    rows: int  # of the look that it is about: the last one, where looks are planned
    now: float
    full: float  # with the outcomes of both policies' models in every row
    lost: float = 0.0  # of the gain, to outcomes and rows that are missing, at their worst
    limit: float = 0.0  # that the gain must be above: below zero for a margin of quality

    @property
    def share(self) -> float:
        """Returns the power as a share of what full information would have."""
        return self.now / self.full

    def __str__(self) -> str:
        what = f"a gain of {self.gain:g}"
        if self.limit:
            what = f"a quality {self.gain + self.limit:+g} from the static table's, {self.gain:g} above the limit,"
        lost = f"; what is missing, at its worst, takes {self.lost:.4f} of the gain" if self.lost else ""
        return (
            f"power for {what} at {self.rows:,} rows: {self.now:.2f}, which is {self.share:.0%} of what all models' "
            f"outcomes of these rows would allow ({self.full:.2f}){lost}"
        )


def chance(gain: float, error: float, method: Method = ONE_LOOK, looks: int = 1) -> float:
    """Returns the chance that the lower bound is above zero, for an estimate with this standard error."""
    return NormalDist().cdf(gain / error - quantile(error, method, looks))


def quantile(error: float, method: Method, looks: int = 1) -> float:
    """Returns the standard errors between estimate and bound; at one look of a few planned ones, those of the last."""
    tail = (1 - LEVEL) / 2
    if method == ANYTIME:
        return anytime_quantile(tail, SCALE / error)
    return spending_boundaries([look / looks for look in range(1, looks + 1)], tail)[-1]


def power_of(
    log: BanditLog,
    candidate: np.ndarray,
    incumbent: np.ndarray,
    predictions: np.ndarray,
    report: Report,
    *,
    method: Method,
    plan: LookPlan | None = None,
    worst: Interval | None = None,
    limit: float = 0.0,
) -> Power | None:
    """Returns the power for a gain of one point over `limit`; None where the report refuses, or its estimate has no error.

    All arrays are [n, models]: the probabilities of both policies, and predicted rewards. `worst` is the interval for
    whatever missing outcomes were, None if nothing is missing: its low end decides. Where looks are planned, the power
    is that at the last one, with as many rows for a task as now, and the same share of them missing.
    """
    errors = errors_of(log, candidate, incumbent, predictions, report)
    if errors is None:
        return None
    error, full = errors
    rows = len(log.actions)
    lost = 0.0 if worst is None or report.interval is None else max(report.interval.low - worst.low, 0.0)
    sides = ((GAIN - lost, error), (GAIN, full or error))
    if plan is None:
        now, known = (chance(gain, one, method) for gain, one in sides)
        return Power(gain=GAIN, rows=rows, now=now, full=known, lost=lost, limit=limit)
    last = max(rows, plan.final_rows)
    normal, boundary = NormalDist(), plan.last_boundary(rows, (1 - LEVEL) / 2)
    shrunk = math.sqrt(rows / last)
    now, known = (normal.cdf(gain / (one * shrunk) - boundary) for gain, one in sides)
    return Power(gain=GAIN, rows=last, now=now, full=known, lost=lost, limit=limit)


def errors_of(
    log: BanditLog, candidate: np.ndarray, incumbent: np.ndarray, predictions: np.ndarray, report: Report
) -> tuple[float, float] | None:
    """Returns the gain's standard error, and that which all models' outcomes would leave, from the tasks alone.

    None where the report refuses, or its estimate has no error.
    """
    errors = {row.estimator: row.standard_error for row in report.rows}
    error = errors.get(report.estimator, 0.0)
    if not error > 0:
        return None
    tasks = error**2 - noise_of_draws(log, candidate, incumbent, predictions)
    return error, math.sqrt(max(tasks, errors["direct method"] ** 2))


def over_next_tasks(found: Interval, value: float, errors: tuple[float, float]) -> Interval:
    """Returns an interval of the mean gain over as many other tasks, as likely to come as those of the log.

    The interval `found` around `value` is about all tasks that could come; `errors` are those of `errors_of`.
    """
    error, of_tasks = errors
    wider = math.hypot(error, of_tasks) / error
    return replace(found, low=value + wider * (found.low - value), high=value + wider * (found.high - value))


def noise_of_draws(log: BanditLog, candidate: np.ndarray, incumbent: np.ndarray, predictions: np.ndarray) -> float:
    """Returns the part of the gain's variance that comes from drawing the tried models, not from the tasks.

    All arrays are [n, models]. Each model's residual is taken by itself; that the residuals of one row go together is
    left out.
    """
    total = 0.0
    for tries in log.tries:
        probability, differ = tries.of(log.chances), tries.of(candidate - incumbent)
        residual = tries.rewards - tries.of(predictions)
        counted = tries.made & (probability > 0)
        weight = np.divide((1 - probability).clip(min=0), probability**2, out=np.zeros(len(differ)), where=counted)
        total += float((weight * np.where(counted, differ * residual, 0.0) ** 2).sum())
    return total / len(log.actions) ** 2
