"""Planned looks at a growing log: the number of rows of the last look is fixed at the first, and shares out the error."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

from rl_base.evaluation.spending import spending_boundaries

PLANNED = "planned"  # the method of an interval that belongs to planned looks


class LookPlanError(ValueError):
    """A look that the plan does not allow; the message says why, and what to do."""


@dataclass(frozen=True, kw_only=True)
class LookPlan:
    """The rows of the last planned look, those of the looks before this one, and which rows are asked."""

    final_rows: int
    earlier: tuple[int, ...] = ()  # increasing
    selection: str = ""  # of tenants and sources, the same at every look

    def __post_init__(self) -> None:
        if isinstance(self.final_rows, bool) or not isinstance(self.final_rows, int) or self.final_rows < 1:
            raise LookPlanError(
                f"final_rows={self.final_rows!r} must be a whole number above 0: the judged rows at the last look"
            )

    def look(self, rows: int) -> int:
        """Returns the number of a look at so many rows, from 1; raises LookPlanError if nothing is left to be asked."""
        last = self.earlier[-1] if self.earlier else 0
        if last >= self.final_rows:
            raise LookPlanError(
                f"the last planned look was taken at {last:,} rows, final_rows={self.final_rows:,}: train the policy again, and "
                "plan its proof anew"
            )
        if rows <= last:
            raise LookPlanError(
                f"this planned look has {rows:,} rows, and the one before had {last:,}: look again when there are more"
            )
        return len(self.earlier) + 1

    def boundary(self, rows: int, tail: float) -> float:
        """Returns the standard errors that a value must lie above zero at this look; all looks together err in `tail`."""
        self.look(rows)
        return spending_boundaries([count / self.final_rows for count in (*self.earlier, rows)], tail)[-1]

    def last_boundary(self, rows: int, tail: float) -> float:
        """Returns the boundary of the last look, if this one has so many rows and none comes between."""
        counts = (*self.earlier, rows, *([self.final_rows] if rows < self.final_rows else []))
        return spending_boundaries([count / self.final_rows for count in counts], tail)[-1]

    def level(self, rows: int, level: float) -> float:
        """Returns the level of this look's interval, so that those of all looks hold together at `level`."""
        return 1 - 2 * NormalDist().cdf(-self.boundary(rows, (1 - level) / 2))

    def told(self, rows: int) -> str:
        return f"planned look {self.look(rows)}, {rows:,} of {self.final_rows:,} rows"
