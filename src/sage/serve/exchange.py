"""One request and its answer: decide, forward, account."""

from __future__ import annotations

import asyncio
import time
import uuid
from typing import NamedTuple

from sage.log.record_checks import TRAFFIC
from sage.log.records import ROLES, Decision, RecordError
from sage.orchestrator.guard import CHARACTERS_PER_TOKEN, BudgetSpentError, Serving
from sage.orchestrator.request_fields import AttemptFields, RequestFields
from sage.serve.access.access import Caller, Refusal, tenant_of
from sage.serve.feedback.signals import Signals
from sage.serve.model_names import Wish, wish_of
from sage.serve.replies import Headers, Receive, Send, log_failure, refuse, reply
from sage.serve.sessions import SessionModel, Sessions, ids_of
from sage.serve.state import ServingState
from sage.upstream.accounting import ANSWERED, BROKEN, FAILED, LEFT, REFUSED, bounded_usage, cost, outcome_of
from sage.upstream.dialects.dialect import Usage, dumps
from sage.upstream.forwarding import Call, StartedStream
from sage.upstream.headers import JSON
from sage.upstream.sse import StreamError
from sage.upstream.upstreams import CompleteAnswer, UpstreamError, without_key

# A stream is passed on at once, also by a reverse proxy before sage.
UNBUFFERED = ((b"cache-control", b"no-cache"), (b"x-accel-buffering", b"no"))
CENSORED: AttemptFields = {"timed_out": True, "provenance": LEFT, "source": TRAFFIC}


class Memory(NamedTuple):
    """Knowledge that a process keeps from one request to the next: sessions, and conversations with the decisions that
    answered them."""

    sessions: Sessions
    signals: Signals


class Exchange:
    """One request of a client, from the decision to the outcome, which is logged once."""

    def __init__(self, state: ServingState, call: Call, caller: Caller, memory: Memory, began: float) -> None:
        self.state, self.call, self.caller, self.memory, self.began = state, call, caller, memory, began
        self.dialect, self.metrics = call.dialect, state.forwarder.metrics
        asked = call.values.get("model")
        self.wish = wish_of(state.table, caller, asked) if isinstance(asked, str) else Wish()
        wished = "" if isinstance(self.wish, Refusal) else self.wish.role
        self.role = call.headers.get("x-sage-role") or wished or state.table.serve.role
        self.tokens = len(call.body) / CHARACTERS_PER_TOKEN
        self.ids = ids_of(call.headers, call.values)
        self.tenant = tenant_of(caller.tenant)
        self.decision: Decision | None = None
        self.outcome_logged = False

    @property
    def session_key(self) -> tuple[str, ...]:
        return (self.tenant, self.ids.session, self.dialect.name)

    @property
    def is_pinned(self) -> bool:
        """Returns whether one model must answer: the client pins the model that it names, or the table pins that
        name."""
        if not isinstance(self.wish, Refusal) and self.wish.model:
            return True
        return self.call.headers.get("x-sage-pin", "") not in ("", "0")

    async def serve(self, receive: Receive, send: Send) -> None:
        """Answers the request; if the client leaves before the end, the upstream's work is cancelled and the outcome is
        censored."""
        here, left = asyncio.current_task(), asyncio.ensure_future(receive())
        assert here is not None
        left.add_done_callback(lambda done: None if done.cancelled() else here.cancel())
        try:
            await self.answer(send)
        except asyncio.CancelledError:
            if not left.done() or left.cancelled():
                raise
            here.uncancel()
            self.metrics.count("sage_disconnects_total", dialect=self.dialect.name)
        finally:
            left.cancel()
            self.report(LEFT)  # where nothing else was
            if self.decision is not None:
                self.state.shadows.ask(self.call, self.decision)

    async def answer(self, send: Send) -> None:
        among = self.eligible()
        if isinstance(among, Refusal):
            return await self.refuse(send, among)
        try:
            await self.decide(among)
        except RecordError as error:
            return await self.refuse(send, bad(str(error)))
        except BudgetSpentError as error:
            return await self.refuse(send, Refusal(402, "", str(error)))
        try:
            answer = await self.state.forwarder.answer(self.call)
        except UpstreamError as failure:
            return await self.fail(send, failure)
        if isinstance(answer, StartedStream):
            return await self.relay(send, answer)
        usage = self.dialect.usage(answer.values)
        await reply(send, answer.status, answer.body, self.head(answer.headers))
        self.report(ANSWERED, usage)
        self.count(answer.status)
        return None

    def eligible(self) -> tuple[str, ...] | Refusal:
        """Returns the models that may be asked, which speak the dialect, serve the role, and whose upstream works; a
        Refusal if there are none or the request is invalid."""
        asked = self.call.values.get("model")
        if not isinstance(asked, str) or not asked:
            return bad("model must be a text: name any model, sage chooses one of its own")
        if isinstance(self.wish, Refusal):
            return self.wish
        if self.role not in ROLES:
            return bad(f"x-sage-role={self.role!r} is not one of {', '.join(ROLES)}")
        speakers = self.speakers()
        if self.is_pinned or not self.dialect.routed:
            speakers = self.pinned(self.wish.model or asked, speakers)
        if not speakers:
            return bad(f"no model here answers {self.dialect.name} for the role {self.role} as {asked!r}", status=404)
        breakers, key = self.state.forwarder.breakers, self.call.key
        places = {name: self.call.endpoint_of(name) for name in speakers}
        usable = tuple(name for name, place in places.items() if breakers.usable(place, key))
        if usable:
            return usable
        wait = max(min(breakers.wait_s(place, key) for place in places.values()), 1.0)
        if all(breakers.rests(place, key) for place in places.values()):
            return Refusal(429, "rate_limit_error", "all upstreams ask to wait: try again later", wait)
        return Refusal(503, "api_error", "all upstreams have failed: try again later", wait)

    def speakers(self) -> list[str]:
        """Returns the models that can answer and that the caller may use, even if their upstream does not work now."""
        among = None if isinstance(self.wish, Refusal) else self.wish.among
        names = self.state.speakers(self.dialect.name, self.role)
        return names if among is None else [name for name in names if name in among]

    def pinned(self, asked: str, speakers: list[str]) -> list[str]:
        """Returns the model that the client names, or the only one of a dialect that is not routed, as a list; [] if
        there is none."""
        return [asked] if asked in speakers else speakers if len(speakers) == 1 and not self.dialect.routed else []

    async def decide(self, among: tuple[str, ...]) -> None:
        """Logs a decision between the models, and sets the order in which they are asked; raises RecordError for
        invalid fields, BudgetSpentError if the tenant's budget is spent."""
        held = self.ids.session and self.memory.sessions.hold(self.session_key, self.tokens, self.state.table.serve)
        hold = held or None
        if not self.dialect.decides:
            first = (
                hold.model if hold is not None and hold.model in among else self.state.table.roles[self.role].primary
            )
            self.call.order = self.state.fallbacks(self.role, among, first)
            return
        request = self.request()
        serving = Serving(
            among=among,
            tokens=self.tokens,
            hold=hold,
            budget=self.caller.budget,
            most_output_tokens=self.dialect.most_output(self.call.values),
        )
        self.decision = await self.state.logbook.decide(request, serving, if_left=CENSORED)
        if serving.budget is not None:
            decision, logbook = self.decision, self.state.logbook
            self.call.may_ask = lambda model: logbook.reserve(decision, model, request, serving)
        usable = (*self.decision.candidates, *self.decision.fallbacks)
        self.call.order = self.state.fallbacks(self.role, usable, self.decision.model)

    def request(self) -> RequestFields:
        """Returns the fields of the request that the router sees."""
        return {
            "role": self.role,
            "task": self.dialect.task(self.call.values),
            "task_id": self.ids.task,
            "category": self.call.headers.get("x-sage-category", ""),
            "tenant": self.tenant,
            "session": self.ids.session,
            "opening": self.dialect.opening(self.call.values),
        }

    async def relay(self, send: Send, begun: StartedStream) -> None:
        """Passes a stream on to the client and logs the outcome; an error is sent as an event, because the head of the
        answer is out."""
        stream, portion = begun.stream, begun.held
        ended, timed_out = ANSWERED, False
        self.metrics.time("sage_first_token_seconds", time.perf_counter() - self.began, dialect=self.dialect.name)
        try:
            await send(
                {"type": "http.response.start", "status": 200, "headers": [*self.head(stream.headers), *UNBUFFERED]}
            )
            while not stream.reader.ended:
                if portion:
                    await send({"type": "http.response.body", "body": portion, "more_body": True})
                portion = await stream.portion()
        except StreamError as error:
            own = self.dialect.error_event(f"{stream.target.name}: {error}", stream.reader)
            portion = without_key(error.event or own, stream.target)
            ended, timed_out = BROKEN, error.timed_out
            self.state.forwarder.stream_ended(self.call, error)
        else:
            self.state.forwarder.stream_ended(self.call)
        finally:
            if ended == BROKEN or not stream.reader.ended:
                stream.response.close()
        await send({"type": "http.response.body", "body": portion})
        self.report(ended, stream.reader.usage, timed_out=timed_out)
        self.count(200)
        await stream.finish()

    async def fail(self, send: Send, failure: UpstreamError) -> None:
        """Answers a request that no model answered: with the last upstream's own error if it sent one, else with
        sage's; logs the outcome."""
        refused = failure.answer is not None and not failure.again
        self.report(REFUSED if refused else FAILED, timed_out=failure.timed_out)
        own = dumps(self.dialect.error(failure.status, str(failure)))
        answer = failure.answer or CompleteAnswer(failure.status, [JSON], own)
        if answer.status >= 500:
            log_failure(answer.status, self.dialect.endpoint, failure.summary, self.tenant)
        await reply(send, answer.status, answer.body, [*self.head(answer.headers), (b"x-should-retry", b"false")])
        self.count(answer.status)

    async def refuse(self, send: Send, refusal: Refusal) -> None:
        await refuse(send, self.dialect, refusal, self.tenant)
        self.count(refusal.status)

    def head(self, given: Headers) -> list[tuple[bytes, bytes]]:
        """Returns the headers of the answer: those given by the upstream, and sage's own request id, decision id and
        model."""
        kept = list(given)
        if not any(name == b"x-request-id" for name, _ in kept):
            kept.append((b"x-request-id", uuid.uuid4().hex.encode()))
        if self.decision is not None:
            kept.append((b"x-sage-decision-id", self.decision.id.encode()))
        kept.append((b"x-sage-model", self.call.model.encode()))
        return kept

    def report(self, ended: str, usage: Usage | None = None, timed_out: bool = False) -> None:
        """Logs the outcome of the decision; does nothing if there is none, or if it was logged."""
        if self.decision is None or self.outcome_logged:
            return
        self.outcome_logged = True
        self.state.logbook.report(self.decision, self.outcome(self.decision, self.began, ended, usage, timed_out))
        self.judge_earlier(self.decision)

    def judge_earlier(self, decision: Decision) -> None:
        """Logs verdicts on earlier answers that this request implies."""
        if decision.logged:
            for earlier, verdict in self.memory.signals.verdicts_on_earlier(
                self.session_key, self.call.values, self.call.headers, decision.id
            ):
                self.state.logbook.judge(earlier, verdict)

    def outcome(
        self, decision: Decision, began: float, ended: str, usage: Usage | None = None, timed_out: bool = False
    ) -> AttemptFields:
        """Returns the fields of a decision's outcome for the log; `began` is its start by perf_counter, `ended` the way
        in which the call ended, such as ANSWERED. Also counts tokens and cost in the metrics, and notes the model that
        answered the session."""
        model = self.call.model or decision.model
        price = self.state.table.models[model]
        if model != decision.model and ended in (ANSWERED, BROKEN):
            self.metrics.count("sage_fallbacks_total", model=model)
        usage = bounded_usage(usage, price, self.dialect, self.call.values)
        if usage is not None and usage.problem:
            self.metrics.count("sage_usage_problems_total", model=model)
        if usage is not None and usage.known:
            self.metrics.count("sage_tokens_total", usage.tokens_in, model=model, kind="in")
            self.metrics.count("sage_tokens_total", usage.tokens_out, model=model, kind="out")
            self.metrics.count("sage_tokens_total", usage.tokens_cached, model=model, kind="cached")
            self.metrics.count("sage_cost_usd_total", cost(usage, price), model=model)
            if self.ids.session:
                self.memory.sessions.answered(
                    self.session_key,
                    SessionModel(model, usage.tokens_in + usage.tokens_out, decision.follows or decision.id),
                    self.state.table.serve,
                )
        return outcome_of(
            decision,
            model,
            latency_s=time.perf_counter() - began,
            attempts=self.call.attempts,
            ended=ended,
            usage=usage,
            price=price,
            timed_out=timed_out,
        )

    def count(self, status: int) -> None:
        self.metrics.count("sage_requests_total", dialect=self.dialect.name, status=str(status))
        self.metrics.time("sage_request_seconds", time.perf_counter() - self.began, dialect=self.dialect.name)


def bad(message: str, status: int = 400) -> Refusal:
    return Refusal(status, "invalid_request_error" if status == 400 else "not_found_error", message)
