"""The keyword arguments of `Router.route` and `Router.outcome`, for type checkers and editors."""

from __future__ import annotations

from typing import Required, TypedDict


class RequestFields(TypedDict, total=False):
    """Fields of `sage.records.Request`."""

    role: Required[str]
    task: str
    task_id: str
    category: str
    tenant: str
    session: str
    past_failures: int
    probe_calls: int | None
    probe_cost_usd: float | None
    probe_verified: bool | None


class OutcomeFields(TypedDict, total=False):
    """Fields of `sage.records.Outcome`."""

    quality: float | None
    cost_usd: float | None
    latency_s: float | None
    retries: int
    timed_out: bool
    tokens_in: int | None
    tokens_cached: int | None
    tokens_out: int | None
    provenance: str
    model: str | None
