"""What the log learns of a call: tokens, cost, time, and how it ended."""

from __future__ import annotations

from sage.orchestrator.models_file import Model
from sage.orchestrator.request_fields import AttemptFields
from sage.records import Decision
from sage.serve.dialects.dialect import Usage

# How a call ended. What an answer is worth, others will say, and theirs is the provenance.
ANSWERED = ""
BROKEN = "proxy: the stream broke"
FAILED = "proxy: no model answered"
LEFT = "proxy: the client left"
REFUSED = "proxy: the upstream refused the request"


def outcome_of(
    decision: Decision,
    model: str,
    *,
    latency_s: float,
    attempts: int,
    ended: str = ANSWERED,
    usage: Usage | None = None,
    price: Model | None = None,
    timed_out: bool = False,
) -> AttemptFields:
    """Fields of the outcome. A call that gave no answer has quality 0; one that nobody waited for is censored."""
    fields: AttemptFields = {
        "latency_s": latency_s,
        "retries": max(attempts - 1, 0),
        "provenance": ended,
        "timed_out": timed_out or ended == LEFT,
    }
    if ended in (BROKEN, FAILED) and not timed_out:
        fields["quality"] = 0.0
    if ended in (FAILED, REFUSED):
        fields["cost_usd"] = 0.0
    elif model != decision.model:
        fields["model"] = model
    if usage is not None:
        fields["tokens_in"], fields["tokens_out"] = usage.tokens_in, usage.tokens_out
        fields["tokens_cached"] = usage.tokens_cached
        fields["cost_usd"] = None if price is None else cost(usage, price)
    return fields


def cost(usage: Usage, price: Model) -> float:
    cached, written = usage.tokens_cached, usage.tokens_written
    return price.cost_usd(usage.tokens_in, usage.tokens_out, cached_tokens=cached, written_tokens=written)
