"""The trend of a log: whether outcomes of the models between which two policies differ are still what they were."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple, Self

import numpy as np

from rl_base.evaluation import BanditLog
from rl_base.evaluation.intervals import degrees_of_freedom, t_quantile

CHANCE = 0.002  # of finding a fall where nothing has changed, in all divisions of a log together
SHARED = 0.5  # of a fall: where other models fell by this part of it or more, tasks became harder
NEWER = (1 / 32, 1 / 16, 1 / 8, 1 / 4, 3 / 8, 1 / 2, 5 / 8, 3 / 4, 7 / 8)  # shares of the policy's outcomes
FEWEST_OUTCOMES, FEWEST_TASKS = 30, 10  # of the policy's models, before and after


class Outcomes(NamedTuple):
    """Outcomes of some models in some rows, in order of time."""

    row: np.ndarray  # int [m]: number of the row, by time
    value: np.ndarray  # [m]
    weight: np.ndarray  # [m]
    stratum: np.ndarray  # int [m]: the cell and the model
    task: np.ndarray  # int [m]

    @classmethod
    def of(cls, log: BanditLog, observed: np.ndarray, weights: np.ndarray, order: np.ndarray) -> Self:
        """Returns those with a weight above 0, in a log whose feature is the cell.

        `weights` is [n, models], `observed` bool [n], and `order` [n] has the place of each row in time.
        """
        assert log.features is not None
        cell, parts = log.features[:, 0].astype(np.int64), []
        for number, tries in enumerate(log.tries):
            weight = tries.of(weights)
            seen = observed if number == 0 else ~np.isnan(tries.rewards)
            mine = np.flatnonzero(tries.made & seen & (weight > 0))
            stratum = cell[mine] * weights.shape[1] + tries.actions[mine]
            parts.append((order[mine], tries.rewards[mine], weight[mine], stratum, log.cluster_index[mine]))
        columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
        by_time = np.argsort(columns[0], kind="stable")
        return cls(*(column[by_time] for column in columns))


class Shift(NamedTuple):
    """The mean of newer outcomes less that of older ones of the same cell and model, and its error."""

    value: float
    influence: np.ndarray  # [tasks]
    noise: float  # the variance, if newer and older outcomes vary alike and independently
    tasks: int  # with newer, or with older outcomes, whichever are fewer

    @classmethod
    def of(cls, outcomes: Outcomes, first: int, num_tasks: int) -> Self | None:
        """Compares the outcomes from row `first` on with those before; None where no cell and model has both."""
        newer = (outcomes.row >= first).astype(np.int64)
        size = int(outcomes.stratum.max(initial=-1)) + 1
        key = 2 * outcomes.stratum + newer

        def sums(values: np.ndarray) -> np.ndarray:
            return np.bincount(key, values, 2 * size).reshape(size, 2)

        count, weight = sums(np.ones(len(key))), sums(outcomes.weight)
        total, squares = sums(outcomes.weight * outcomes.value), sums(outcomes.value**2)
        both = (count >= 2).all(axis=1)
        if not both.any():
            return None
        share = np.where(both, weight.prod(axis=1) / np.maximum(weight.sum(axis=1), 1e-300), 0.0)
        share /= share.sum()
        mean = total / np.maximum(weight, 1e-300)
        number, middle = count.sum(axis=1), sums(outcomes.value).sum(axis=1)
        pairs = np.unique(key * num_tasks + outcomes.task)
        tasks = np.bincount(pairs // num_tasks, minlength=2 * size)
        spread = (squares.sum(axis=1) - middle**2 / np.maximum(number, 1)) / np.maximum(number - 1, 1)
        factor = share[outcomes.stratum] * outcomes.weight / np.maximum(weight, 1e-300).ravel()[key]
        small = np.sqrt(tasks / np.maximum(tasks - 1, 1))[key]
        terms = (2 * newer - 1) * factor * small * (outcomes.value - mean.ravel()[key])
        return cls(
            value=float(share @ (mean[:, 1] - mean[:, 0])),
            influence=np.bincount(outcomes.task, terms, num_tasks),
            noise=float((factor**2) @ spread.clip(min=0)[outcomes.stratum]),
            tasks=min(len(np.unique(outcomes.task[newer == side])) for side in (0, 1)),
        )

    def less(self, other: Shift) -> Shift:
        """Returns the shift of a difference."""
        influence, tasks = self.influence - other.influence, min(self.tasks, other.tasks)
        return Shift(self.value - other.value, influence, self.noise + other.noise, tasks)

    def reach(self, tail: float) -> float:
        """Returns the distance from the value to a bound that errs with the chance `tail`.

        The standard error is the larger of two. That between tasks also grows with every new failure of a model that
        hardly failed before. That of all outcomes together is not zero where the few older ones were all alike.
        """
        error = math.sqrt(max(float((self.influence**2).sum()), self.noise))
        freedom = max(min(degrees_of_freedom(self.influence), self.tasks - 1), 1)
        return t_quantile(1 - tail, freedom) * error if error > 0 else 0.0


@dataclass(frozen=True, kw_only=True)
class Change:
    """A change of mean reward, with an interval that holds for all divisions of the log together."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, shift: Shift, tail: float) -> Self:
        reach = shift.reach(tail)
        return cls(value=shift.value, low=shift.value - reach, high=shift.value + reach)

    def __str__(self) -> str:
        return f"{self.value:+.4f} ({self.low:+.4f} to {self.high:+.4f})"


@dataclass(frozen=True, kw_only=True)
class Trend:
    """The division of a log into older and newer rows at which the policy's models fell the most.

    Outcomes are compared within a cell and model, in rows in which the policies differ.
    """

    since: float  # the time of the first newer row
    clock: bool  # whether times are those of a clock
    newer_rows: int
    rows: int
    policy: Change  # of the models that the policy chooses more often than the static table
    others: Change | None  # of the other models; None where no cell and model of them has newer and older outcomes
    fell: bool  # more than by chance, and not with the other models

    @property
    def when(self) -> str:
        """Returns the first newer row as a text, by its time if there is a clock."""
        number = f"row {self.rows - self.newer_rows + 1:,} of {self.rows:,}"
        if not self.clock:
            return number
        return f"{datetime.fromtimestamp(self.since, UTC).isoformat(timespec='seconds')} ({number})"

    def __str__(self) -> str:
        others = "unknown" if self.others is None else str(self.others)
        state = "a fall" if self.fell else "no fall beyond chance"
        return (
            f"trend: from {self.when} on, outcomes of the policy's models changed by {self.policy}, those of other models in "
            f"the same cells by {others}: {state}"
        )


def find_trend(
    log: BanditLog,
    candidate: np.ndarray,
    incumbent: np.ndarray,
    *,
    observed: np.ndarray,
    time: np.ndarray,
    clock: bool = False,
    served: np.ndarray | None = None,
) -> Trend | None:
    """Compares newer outcomes with older ones; None where one of both has too few.

    Policies are probabilities [n, models]; `observed` is bool [n], `time` [n]; `served` [n] marks the rows that the
    policy has decided. The log is divided at several places, as nobody knows when something changed, and at the first
    row that the policy has decided. A fall is one of the policy's models' outcomes at the division where they fell the
    most, unless the other models fell half as much there, so that tasks became harder; or one of the difference.
    """
    by_time = np.argsort(time, kind="stable")
    order = np.empty(len(time), np.int64)
    order[by_time] = np.arange(len(time))
    more = candidate - incumbent
    own = Outcomes.of(log, observed, more, order)
    rest = Outcomes.of(log, observed, ((more != 0).any(axis=1, keepdims=True) & (more <= 0)).astype(float), order)
    start = None if served is None or not served.any() else int(order[served].min())
    num_tasks = int(log.cluster_index.max()) + 1
    divisions = [(first, Shift.of(own, first, num_tasks)) for first in first_rows(own, start)]
    compared = [(first, shift) for first, shift in divisions if shift is not None]
    if not compared:
        return None
    tail = CHANCE / (2 * len(compared))
    found = [(first, shift, Shift.of(rest, first, num_tasks)) for first, shift in compared]
    alone, apart = (
        np.array([over(shift, tail) for shift in shifts])
        for shifts in ([own for _, own, _ in found], [own if x is None else own.less(x) for _, own, x in found])
    )
    number = int(np.argmin(alone))
    first, shift, others = found[number]
    harder = others is not None and others.value <= SHARED * shift.value
    if apart.min() < -1 and (harder or alone[number] >= -1):
        number, harder = int(np.argmin(apart)), False
        first, shift, others = found[number]
    return Trend(
        since=float(time[by_time[first]]),
        clock=clock,
        newer_rows=len(time) - first,
        rows=len(time),
        policy=Change.of(shift, tail),
        others=None if others is None else Change.of(others, tail),
        fell=bool(min(alone[number], apart[number]) < -1 and not harder),
    )


def first_rows(outcomes: Outcomes, start: int | None) -> Iterator[int]:
    """Yields rows at which newer ones may begin, also `start`: those with enough outcomes and tasks on both sides."""
    count = len(outcomes.row)
    firsts = {int(outcomes.row[min(round((1 - share) * count), count - 1)]) for share in NEWER} if count else set()
    for first in sorted(firsts if start is None else firsts | {start}):
        newer = outcomes.row >= first
        sides = [outcomes.task[newer], outcomes.task[~newer]]
        if all(len(side) >= FEWEST_OUTCOMES and len(np.unique(side)) >= FEWEST_TASKS for side in sides):
            yield first


def over(shift: Shift, tail: float) -> float:
    """Returns the change divided by the largest that chance explains; below -1, the reward has fallen."""
    reach = shift.reach(tail)
    return shift.value / reach if reach > 0 else 0.0
