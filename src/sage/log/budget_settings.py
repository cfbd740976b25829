"""Budgets of tenants in USD, per day, per month or in all."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

PERIODS = ("day", "month", "total")
AT_END = ("cheaper", "refuse")


@dataclass(frozen=True, kw_only=True)
class TenantBudget:
    usd: float
    per: str = "month"  # one of PERIODS, by the calendar in UTC
    at_end: str = "cheaper"  # one of AT_END: only models that still fit, or no call once a model does not fit

    def first_day(self, at: float) -> str:
        """Returns the date (ISO text) on which the budget's period that contains `at` (seconds since 1970) began.

        A budget `per` 'total' gives '', which sorts before all dates.
        """
        today = day_of(at)
        return {"day": today, "month": today[:-2] + "01", "total": ""}[self.per]


def day_of(at: float) -> str:
    """Returns the date in UTC of `at` (seconds since 1970) as ISO text, such as 2026-01-31."""
    return datetime.fromtimestamp(at, UTC).date().isoformat()
