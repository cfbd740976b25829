"""Fields of an outcome that the proxy measures: tokens, cost, time, and the way in which the call ended."""

from __future__ import annotations

from sage.log.record_checks import PROXY, TRAFFIC
from sage.log.records import Decision
from sage.orchestrator.models_file import Model
from sage.orchestrator.request_fields import AttemptFields
from sage.upstream.dialects.dialect import Dialect, Usage

# Tokens that an answer can have of a model whose limits models.yaml does not say.
MOST_CONTEXT = 2_000_000
MOST_OUTPUT = 1_000_000
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
    """Returns the fields of a call's outcome for the log. A call that gave no answer has quality 0, unless it timed
    out; a call whose client left is censored (`timed_out`). The cost is unknown without `price`."""
    fields: AttemptFields = {
        "latency_s": latency_s,
        "retries": max(attempts - 1, 0),
        "provenance": ended,
        "timed_out": timed_out or ended == LEFT,
        "source": TRAFFIC if ended == LEFT else PROXY,
    }
    if ended in (BROKEN, FAILED) and not timed_out:
        fields["quality"] = 0.0
    if ended in (FAILED, REFUSED):
        fields["cost_usd"] = 0.0
    elif model != decision.model:
        fields["model"] = model
    if usage is not None and usage.problem:
        fields["usage_problem"] = usage.problem
    if usage is not None and usage.known:
        fields["tokens_in"], fields["tokens_out"] = usage.tokens_in, usage.tokens_out
        fields["tokens_cached"] = usage.tokens_cached
        fields["cost_usd"] = None if price is None else cost(usage, price)
    return fields


def bounded_usage(usage: Usage | None, model: Model, dialect: Dialect, body: dict) -> Usage | None:
    """Returns the usage with each count cut to the most that the model and the request allow, and `problem` naming the
    counts that were cut; unchanged if it is None or not known."""
    if usage is None or not usage.known:
        return usage
    most_in = dialect.most_input(body, model.max_context or MOST_CONTEXT)
    limits = (dialect.most_output(body), model.max_output_tokens, model.max_context)
    most_out = min((limit for limit in limits if limit is not None), default=MOST_OUTPUT)
    tokens_in, tokens_out = min(usage.tokens_in, most_in), min(usage.tokens_out, most_out)
    cached = min(usage.tokens_cached, tokens_in)
    written = min(usage.tokens_written, tokens_in - cached)
    found = Usage(tokens_in, tokens_out, cached, written)
    return found._replace(
        problem=", ".join(
            f"{name} was reported as {said:.6g} and can be {most} at most"
            for name, said, most in zip(Usage._fields, usage[:4], found[:4], strict=False)
            if said != most
        )
    )


def cost(usage: Usage, price: Model) -> float:
    cached, written = usage.tokens_cached, usage.tokens_written
    return price.cost_usd(usage.tokens_in, usage.tokens_out, cached_tokens=cached, written_tokens=written)
