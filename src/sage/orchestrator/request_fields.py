"""Types of the keyword arguments of `Router.route` and `Router.outcome`, and a check of their names at run time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

from sage.orchestrator.nearest import nearest
from sage.verifiers.verifier import Said


class NeededFields(TypedDict):
    role: str


class RequestFields(NeededFields, total=False):
    """Keyword arguments for a request: the fields of `sage.log.records.Request`."""

    task: str
    task_id: str
    category: str
    tenant: str
    session: str
    past_failures: int
    probe_calls: int | None
    probe_cost_usd: float | None
    probe_verified: bool | None
    opening: str


class AttemptFields(TypedDict, total=False):
    """Keyword arguments for the outcome of an attempt: the fields of `sage.log.records.Outcome` but the verdicts."""

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
    usage_problem: str
    source: str  # one of `sage.log.record_checks.SOURCES`


class OutcomeFields(AttemptFields, total=False):
    """Keyword arguments for an outcome: the fields of `sage.log.records.Outcome`."""

    verdicts: Mapping[str, Said]  # of verifiers about the answer, by name: true, false, or None for unknown


def check_names(call: str, given: Mapping[str, object], fields: type) -> None:
    """Raises TypeError if an argument is unknown or missing; the message names `call`, which the user has called."""
    needed, known = fields.__required_keys__, fields.__required_keys__ | fields.__optional_keys__  # pyrefly: ignore
    for name in given:
        if name not in known:
            raise TypeError(f"{call}() has no argument {name!r}: {nearest(name, sorted(known))}")
    for name in needed - given.keys():
        raise TypeError(f"{call}() needs {name}=: give it a value")
