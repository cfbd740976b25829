"""One request that a cascade answers: each answer is held back until verifiers have checked it."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import NamedTuple

from sage.log.records import Decision, RecordError
from sage.orchestrator.cascade import Cascade
from sage.orchestrator.request_fields import AttemptFields
from sage.serve.access.access import Caller, Refusal
from sage.serve.exchange import CENSORED, Exchange, Memory, bad
from sage.serve.replies import Headers, Send, reply
from sage.serve.state import ServingState
from sage.upstream.accounting import ANSWERED, BROKEN, FAILED, REFUSED
from sage.upstream.dialects.dialect import Usage
from sage.upstream.forwarding import Call, StartedStream
from sage.upstream.sse import StreamError
from sage.upstream.upstreams import UpstreamError, without_key

MOST_HELD = 32 * 1024 * 1024  # bytes of one answer


class BrokenOffError(UpstreamError):
    """Failure of a stream that had begun."""


class HeldAnswer(NamedTuple):
    """A complete answer that the client has not seen yet."""

    decision: Decision
    model: str  # that gave it
    status: int
    body: bytes  # of a stream, all its events
    headers: Headers
    text: str
    usage: Usage | None


def exchange_for(state: ServingState, call: Call, caller: Caller, memory: Memory, began: float) -> Exchange:
    """Returns a CascadeExchange if the request's role has a cascade and the request can use it (no pin, tools, budget
    or several choices), else an Exchange."""
    single = Exchange(state, call, caller, memory, began)
    role = single.role
    if role not in state.table.serve.cascades or not call.dialect.routed or not call.dialect.decides:
        return single
    speakers = single.speakers()
    several = call.values.get("n") not in (None, 1)
    cannot = single.is_pinned or several or call.values.get("tools") or caller.budget is not None
    if cannot or not set(state.table.cascade[role].ladder) <= set(speakers):
        return single
    return CascadeExchange(state, call, caller, memory, began)


class CascadeExchange(Exchange):
    """A request that several models answer one after the other; the client gets the answer that the cascade accepts, or
    the last one."""

    async def answer(self, send: Send) -> None:
        among = self.eligible()
        if isinstance(among, Refusal):
            return await self.refuse(send, among)
        logbook = self.state.logbook
        try:
            cascade = logbook.router.cascade(**self.request())
        except RecordError as error:
            return await self.refuse(send, bad(str(error)))
        held: dict[str, HeldAnswer] = {}
        failure: UpstreamError | None = None
        while (decision := await logbook.next_step(cascade, if_left=CENSORED)) is not None:
            self.decision, self.outcome_logged = decision, False
            try:
                found = await self.attempt(cascade, decision)
                held[decision.id] = found
            except UpstreamError as error:
                failure = error
                if error.answer is not None and not error.again:
                    break  # it is the request that is wrong
        if not held:
            assert failure is not None
            return await self.fail(send, failure)
        taken = cascade.taken
        chosen = held.get(taken.id if taken is not None else "") or list(held.values())[-1]
        self.decision, self.call.model = chosen.decision, chosen.model
        await self.deliver(send, chosen, cascade)
        self.judge_earlier(chosen.decision)
        self.count(200)
        return None

    async def attempt(self, cascade: Cascade, decision: Decision) -> HeldAnswer:
        """Returns one model's answer and logs it with the verdicts on it; raises UpstreamError if the model gives none,
        which is logged, too."""
        began = time.perf_counter()
        self.call = replace(self.call, order=(decision.model,), attempts=0, model="")
        try:
            found = await self.held_answer(decision)
        except UpstreamError as failure:
            refused = failure.answer is not None and not failure.again
            ended = BROKEN if isinstance(failure, BrokenOffError) else REFUSED if refused else FAILED
            await self.verify(cascade, None, self.outcome(decision, began, ended, timed_out=failure.timed_out))
            raise
        await self.verify(cascade, found.text, self.outcome(decision, began, ANSWERED, found.usage))
        return found

    async def verify(self, cascade: Cascade, text: str | None, fields: AttemptFields) -> None:
        self.outcome_logged = True  # whoever leaves from now on, the outcome is on its way
        await self.state.logbook.verified(cascade, text, fields)

    async def held_answer(self, decision: Decision) -> HeldAnswer:
        if not self.state.forwarder.breakers.usable(self.call.endpoint_of(decision.model), self.call.key):
            raise UpstreamError(f"the upstream of {decision.model} has failed and is left alone", again=True)
        answer = await self.state.forwarder.answer(self.call)
        if not isinstance(answer, StartedStream):
            usage, text = self.dialect.usage(answer.values), self.dialect.text(answer.values)
            return HeldAnswer(decision, self.call.model, answer.status, answer.body, answer.headers, text, usage)
        stream, portions, size = answer.stream, [answer.held], len(answer.held)
        try:
            while not stream.reader.ended:
                portions.append(await stream.portion())
                size += len(portions[-1])
                if size > MOST_HELD:
                    raise StreamError(f"an answer of more than {MOST_HELD} bytes")
            await stream.finish()
        except StreamError as error:
            self.state.forwarder.stream_ended(self.call, error)
            said = without_key(f"{decision.model}: {error}".encode(), stream.target).decode()
            summary = f"{decision.model}: {error.summary}"
            raise BrokenOffError(said, again=True, timed_out=error.timed_out, summary=summary) from error
        finally:
            if not stream.reader.ended:
                stream.response.close()
        self.state.forwarder.stream_ended(self.call)
        text = "".join(stream.reader.texts)
        return HeldAnswer(decision, self.call.model, 200, b"".join(portions), stream.headers, text, stream.reader.usage)

    async def deliver(self, send: Send, held: HeldAnswer, cascade: Cascade) -> None:
        headers = [*self.head(held.headers), (b"x-sage-cascade-id", cascade.id.encode())]
        if not self.call.streams:
            return await reply(send, held.status, held.body, headers)
        self.metrics.time("sage_first_token_seconds", time.perf_counter() - self.began, dialect=self.dialect.name)
        await send({"type": "http.response.start", "status": held.status, "headers": headers})
        await send({"type": "http.response.body", "body": held.body})
        return None
