"""Calls of models: each is a decision of the router, and its outcome is in the log whatever happens."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from sage.agent.allowance import Allowance
from sage.agent.tools import CheckResult
from sage.agent.trace import Trace
from sage.log.cascade_steps import taken
from sage.log.record_checks import TRAFFIC
from sage.log.records import Decision
from sage.orchestrator.cascade import Cascade
from sage.orchestrator.guard import CHARACTERS_PER_TOKEN, Serving
from sage.orchestrator.model_router import Router
from sage.orchestrator.request_fields import AttemptFields, RequestFields
from sage.serve.state import ServingState
from sage.upstream.accounting import bounded_usage, cost
from sage.upstream.dialects.chat import Chat
from sage.upstream.dialects.dialect import TASK_CHARACTERS, Usage, dumps, texts_of
from sage.upstream.forwarding import Call
from sage.upstream.upstreams import CompleteAnswer, UpstreamError

CHAT = Chat()
PROVENANCE = "sage run"
INTERRUPTED = f"{PROVENANCE}: interrupted"
UNANSWERED = f"{PROVENANCE}: no model answered"
UNASKED = f"{PROVENANCE}: not asked, as a limit was reached"
QUALITY = {"passed": 1.0, "failed": 0.0}
PROVED, BY_EXIT_CODE = "tests", "exit_code"  # verdicts
Messages = list[dict[str, str]]


class UnansweredError(Exception):
    """Error of a call that no model answered; the message says why."""


@dataclass
class Caller:
    """The models of a table, called one at a time within the limits of a run."""

    state: ServingState
    loop: asyncio.Runner
    run_id: str
    allowance: Allowance
    trace: Trace
    renamed: set[str] = field(default_factory=set)  # models that call the limit of an answer by its newer name

    @property
    def router(self) -> Router:
        return self.state.logbook.router

    def request(self, role: str, goal: str, failures: int) -> RequestFields:
        return {
            "role": role,
            "task": goal[:TASK_CHARACTERS],
            "task_id": self.run_id,
            "session": self.run_id,
            "past_failures": failures,
        }

    def attempt(self, role: str, goal: str, messages: Messages, failures: int = 0) -> AgentAttempt:
        """Returns an attempt by one model, which the router chooses among those that the budget can pay.

        `failures` is the number of attempts at the task that failed before. Raises EndedError if the budget can pay
        none.
        """
        request = self.request(role, goal, failures)
        return AgentAttempt(self, request, self.decide(request, self.state.speakers(CHAT.name, role), messages))

    def decide(self, request: RequestFields, names: list[str], messages: Messages) -> Decision:
        tokens = sum(len(message["content"]) for message in messages) / CHARACTERS_PER_TOKEN
        among = self.allowance.affordable(names, messages)
        return self.router.route(serving=Serving(among=among, tokens=tokens), **request)

    def attempts(self, role: str, goal: str, messages: Messages, failures: int = 0) -> Iterator[AgentAttempt]:
        """Yields the attempts of the role's cascade, or a single one if the role has none.

        At its end, logs the quality of a cascade whose taken answer has a proved verdict.
        """
        if role not in self.router.cascades.rules:
            yield self.attempt(role, goal, messages, failures)
            return
        cascade = self.router.cascade(**self.request(role, goal, failures))
        for decision in cascade:
            yield AgentAttempt(self, self.request(role, goal, failures), decision, cascade)
        last = cascade.attempts[taken(cascade.attempts)]
        if last.verdict in QUALITY and any(verdict.verifier == PROVED for verdict in last.verdicts):
            cascade.outcome(QUALITY[last.verdict], provenance=PROVENANCE, source=TRAFFIC)

    def ask(self, decision: Decision, names: tuple[str, ...], messages: Messages) -> ModelAnswer:
        """Returns the answer of the first of the models that gives one; raises UpstreamError if none does."""
        model = names[0]
        body = {
            "model": model,
            "messages": messages,
            self.limit_name(model): self.allowance.answer_tokens(model, messages),
        }
        began = time.perf_counter()
        call = Call(CHAT, dumps(body), body, {}, order=names, may_ask=self.may_ask(messages))
        try:
            answer = self.loop.run(self.state.forwarder.answer(call))
        except UpstreamError as failure:
            refused = b"" if failure.answer is None else failure.answer.body
            if b"max_completion_tokens" not in refused or call.model in self.renamed:
                raise
            self.renamed.add(call.model)
            return self.ask(decision, names, messages)
        assert isinstance(answer, CompleteAnswer)  # as nobody asked for a stream
        price = self.state.table.models[call.model]
        usage = bounded_usage(CHAT.usage(answer.values), price, CHAT, call.values)
        paid = None if usage is None or not usage.known else cost(usage, price)
        most = self.allowance.most_usd(call.model, messages, self.allowance.answer_tokens(model, messages))
        self.allowance.spent_usd += most if paid is None else paid
        text, cut = completion_text(answer.values)
        found = ModelAnswer(
            text, call.model, time.perf_counter() - began, paid, usage or Usage(0, 0), max(call.attempts - 1, 0), cut
        )
        self.trace.add(
            "answer", decision=decision.id, role=decision.role, model=found.model, text=text, cost_usd=paid, cut=cut
        )
        return found

    def limit_name(self, model: str) -> str:
        return "max_completion_tokens" if model in self.renamed else "max_tokens"

    def may_ask(self, messages: Messages) -> Callable[[str], Awaitable[bool]]:
        async def allowed(model: str) -> bool:
            return self.allowance.answer_tokens(model, messages) > 0

        return allowed


@dataclass(frozen=True)
class ModelAnswer:
    text: str
    model: str
    latency_s: float
    cost_usd: float | None
    usage: Usage
    retries: int
    cut: bool  # the answer was longer than it may be


class AgentAttempt:
    """One model at work on one goal, in one conversation, as a logged decision with its outcome.

    The decision that chose the model carries the cost of all its calls; those after the first are decisions of their
    own, which leave no choice and cost nothing more.
    """

    def __init__(
        self, caller: Caller, request: RequestFields, decision: Decision, cascade: Cascade | None = None
    ) -> None:
        self.caller, self.request, self.decision, self.cascade = caller, request, decision, cascade
        self.model = decision.model
        self.answers: list[ModelAnswer] = []
        self.failure = ""
        self.reported = False

    def ask(self, messages: Messages) -> ModelAnswer:
        caller = self.caller
        caller.allowance.take_step()
        caller.allowance.affordable((self.model,), messages)
        decision = self.decision
        if self.answers:
            decision = caller.decide(self.request, [self.model], messages)
        others = self.others() if decision is self.decision else ()
        caller.trace.add(
            "call",
            decision=decision.id,
            role=decision.role,
            model=self.model,
            candidates=decision.candidates,
            probabilities=decision.probabilities,
            reason=decision.reason,
            message=messages[-1]["content"],
        )
        paid = f"{PROVENANCE}: paid with {self.decision.id}"
        fields: AttemptFields = {"cost_usd": 0.0, "provenance": paid, "source": TRAFFIC}
        try:
            answered = caller.ask(decision, (self.model, *others), messages)
            fields["latency_s"] = answered.latency_s
            self.answers.append(answered)
            self.model = answered.model
        except UpstreamError as failure:
            self.failure = UNANSWERED
            fields["provenance"], fields["timed_out"] = UNANSWERED, failure.timed_out
            caller.trace.add("unanswered", decision=decision.id, model=self.model, reason=str(failure))
            raise UnansweredError(str(failure)) from failure
        except KeyboardInterrupt:
            fields["provenance"], fields["timed_out"] = INTERRUPTED, True
            raise
        finally:
            if decision is not self.decision:
                caller.router.outcome(decision.id, **fields)
        return answered

    def others(self) -> tuple[str, ...]:
        """Returns the models to ask if the chosen one does not answer; none in a cascade, whose next step chooses."""
        if self.cascade is not None:
            return ()
        wished = self.caller.state.fallbacks(self.decision.role, self.decision.candidates, self.model)
        return tuple(name for name in wished if name != self.model)

    def report(self, checked: CheckResult, provenance: str = PROVENANCE) -> None:
        """Logs the outcome of the attempt once: its cost, and the tests' result, a quality only if it is proved."""
        if self.reported:
            return
        self.reported = True
        fields = self.totals()
        fields["provenance"] = self.failure or provenance
        if not self.answers and provenance == INTERRUPTED:
            fields["timed_out"] = True
        elif not self.answers:
            fields["cost_usd"] = 0.0
        passed, proved = (False, True) if self.failure else (checked.passed, checked.proved)
        verdicts = {} if passed is None else {PROVED if proved else BY_EXIT_CODE: passed}
        if self.cascade is not None:
            self.cascade.report(verdicts=verdicts or {PROVED: None}, **fields)
        else:
            fields["quality"] = float(passed) if proved and passed is not None else None
            self.caller.router.outcome(self.decision.id, verdicts=verdicts, **fields)
        self.caller.trace.add("outcome", decision=self.decision.id, passed=passed, proved=proved, **fields)

    def totals(self) -> AttemptFields:
        costs = [answered.cost_usd for answered in self.answers]
        fields: AttemptFields = {
            "cost_usd": None if None in costs or not costs else sum(filter(None, costs)),
            "latency_s": sum(answered.latency_s for answered in self.answers),
            "retries": sum(answered.retries for answered in self.answers),
            "source": TRAFFIC,
        }
        if self.answers:
            fields["tokens_in"] = sum(answered.usage.tokens_in for answered in self.answers)
            fields["tokens_out"] = sum(answered.usage.tokens_out for answered in self.answers)
            fields["tokens_cached"] = sum(answered.usage.tokens_cached for answered in self.answers)
        if problem := "; ".join(dict.fromkeys(a.usage.problem for a in self.answers if a.usage.problem)):
            fields["usage_problem"] = problem
        if self.model != self.decision.model:
            fields["model"] = self.model
        return fields

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None or issubclass(kind, UnansweredError):
            ended = PROVENANCE
        elif issubclass(kind, KeyboardInterrupt):
            ended = INTERRUPTED
        else:
            ended = PROVENANCE if self.answers else UNASKED
        self.report(CheckResult(None, ""), ended)


def completion_text(answer: dict) -> tuple[str, bool]:
    """Returns the text of a chat completion, and whether it was cut off because it was too long."""
    choice = answer["choices"][0] if isinstance(answer["choices"][0], dict) else {}
    message = choice.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    return "\n".join(texts_of(content, ("text",))), choice.get("finish_reason") == "length"
