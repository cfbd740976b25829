"""The answer of an off-policy evaluation: estimates with intervals and diagnostics, or a refusal."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from rl_base.evaluation.diagnostics import Diagnostics
from rl_base.evaluation.estimate import Estimate
from rl_base.evaluation.intervals import Interval, Method, interval

COLUMNS = ("estimator", "value", "std. error", "low", "high")


@dataclass(frozen=True)
class EstimatorRow:
    """One estimator's value, with its standard error, bias bound and two-sided interval."""

    estimator: str
    value: float
    standard_error: float
    bias_bound: float
    low: float
    high: float


@dataclass(frozen=True)
class Report:
    """The result of an off-policy evaluation: estimates with intervals and diagnostics, or a refusal.

    A refused report holds no estimates, so that none is used by accident.
    """

    estimand: str
    estimator: str
    """The row that answers; the others are for comparison."""
    rows: tuple[EstimatorRow, ...]
    interval: Interval | None
    """Of the answering row. Its low end is also the one-sided lower bound at (1 + level) / 2: 97.5 % for 95 %."""
    diagnostics: Mapping[str, Diagnostics]
    """By policy."""
    refusal: str | None
    gamma: float | None = None
    """The discount, where the estimate is of one policy's return."""
    logged_return: float | None = None
    """The logged episodes' own mean return, discounted alike."""

    @property
    def value(self) -> float | None:
        """The estimate of the estimator that answers; None if the report is a refusal."""
        return next((row.value for row in self.rows if row.estimator == self.estimator), None)

    @property
    def above_zero(self) -> bool:
        """True if the lower bound is above zero: the rule for promoting a candidate by a paired difference."""
        return self.interval is not None and self.interval.low > 0

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings of all diagnostics, each beginning with its policy's name."""
        return tuple(f"{policy}: {text}" for policy, found in self.diagnostics.items() for text in found.warnings)

    def to_json(self) -> str:
        """Returns everything in the report as JSON; numbers that are infinite or undefined are null."""
        fields = {
            name: x for name, x in asdict(self).items() if x is not None or name not in ("gamma", "logged_return")
        }
        answer = fields | {"value": self.value, "above_zero": self.above_zero, "warnings": self.warnings}
        return json.dumps(finite(answer), indent=2)

    def __str__(self) -> str:
        lines = [self.estimand if self.gamma is None else f"{self.estimand}, discounted with gamma={self.gamma:g}"]
        if self.logged_return is not None:
            lines.append(f"the data's own mean return, discounted alike: {self.logged_return:.4f}")
        if self.refusal is not None:
            lines.append(f"refused: {self.refusal}")
        else:
            assert self.interval is not None
            lines += table([COLUMNS, *(cells(row, chosen=row.estimator == self.estimator) for row in self.rows)])
            lines.append(f"* answers; intervals: {100 * self.interval.level:g} %, {self.interval.method}")
        lines += [summary(policy, found) for policy, found in self.diagnostics.items()]
        return "\n".join([*lines, *(f"warning: {text}" for text in self.warnings)])


def build_report(
    estimand: str,
    estimator: str,
    estimates: Sequence[Estimate],
    diagnostics: Mapping[str, Diagnostics],
    *,
    level: float = 0.95,
    method: Method = "t",
    seed: int = 0,
) -> Report:
    """Returns a report of the estimates, or a refusal without them if the diagnostics of a policy refuse.

    `estimator` names the estimate that answers; `diagnostics` are by policy's name. A row for which the method is not
    defined, such as a Bernstein bound of a self-normalised estimate, gets an infinite interval. Raises ValueError if no
    estimate has the name `estimator`.
    """
    refusals = [f"{policy}: {found.refusal}" for policy, found in diagnostics.items() if found.refusal]
    if refusals:
        return Report(estimand, estimator, (), None, dict(diagnostics), "; ".join(refusals))
    rows, answer = [], None
    for estimate in estimates:
        chosen = estimate.name == estimator
        if method == "bernstein" and estimate.span is None and not chosen:
            found = Interval(-math.inf, math.inf, level, method)
        else:
            found = interval(estimate, method=method, level=level, seed=seed)
        answer = found if chosen else answer
        rows.append(
            EstimatorRow(
                estimate.name, estimate.value, estimate.standard_error, estimate.bias_bound, found.low, found.high
            )
        )
    if answer is None:
        raise ValueError(f"estimator={estimator!r}: choose from {[estimate.name for estimate in estimates]}")
    return Report(estimand, estimator, tuple(rows), answer, dict(diagnostics), None)


def finite(value: object) -> object:
    """Returns a copy of nested values, ready for JSON: None in place of infinities and NaN."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return value


def cells(row: EstimatorRow, *, chosen: bool) -> tuple[str, ...]:
    """Returns the texts of the table cells of one row; "*" marks the chosen estimator, the one that answers."""
    numbers = (row.value, row.standard_error, row.low, row.high)
    return (f"{'*' if chosen else ' '} {row.estimator}", *(f"{number:.4f}" for number in numbers))


def table(lines: Sequence[Sequence[str]]) -> list[str]:
    """Returns the lines of a text table with aligned columns; `lines` are the texts of the cells, row by row.

    The first column is aligned to the left, the others to the right.
    """
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return [
        "  ".join([line[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(line[1:], widths[1:], strict=True))])
        for line in lines
    ]


def summary(policy: str, found: Diagnostics) -> str:
    """Returns the diagnostics of one policy as one line of text."""
    support = "unknown" if found.unsupported_mass is None else f"{found.unsupported_mass:.1%}"
    return (
        f"{policy}: effective sample size {found.effective_sample_size:.1f} of {found.num_clusters} clusters "
        f"({found.num_rows} rows), largest weight share {found.largest_weight_share:.1%}, without support {support}, "
        f"mean weight {found.mean_weight:.3f} +- {found.mean_weight_error:.3f}"
    )
