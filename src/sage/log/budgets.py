"""What a tenant may spend in a day, in a month or in all."""

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
        """Of the period that a time lies in; the empty text is before all days."""
        today = day_of(at)
        return {"day": today, "month": today[:-2] + "01", "total": ""}[self.per]


def day_of(at: float) -> str:
    """The date of a time, in UTC: 2026-01-31."""
    return datetime.fromtimestamp(at, UTC).date().isoformat()
