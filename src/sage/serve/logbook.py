"""Decisions and outcomes without blocking the event loop: the log's thread commits, and threads do what takes long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial

from sage.log.cascade_steps import Verdict
from sage.log.group_commit import Waiting
from sage.log.record_checks import TRAFFIC
from sage.log.records import UNLOGGED, Decision, Outcome, Request, of_shadow
from sage.orchestrator.backlog import LOG_FAILURES
from sage.orchestrator.cascade import Cascade
from sage.orchestrator.guard import Serving
from sage.orchestrator.model_router import Router
from sage.orchestrator.request_fields import AttemptFields, RequestFields
from sage.serve.in_flight import InFlight

THREADS = 8  # for decisions that need the log, or take long
VERIFIERS = 4  # answers that are verified at a time


class Logbook:
    """One router for all requests of a process."""

    def __init__(self, router: Router) -> None:
        self.router = router
        self.in_flight = InFlight(router.log.path)
        self.threads = ThreadPoolExecutor(THREADS, thread_name_prefix="sage-route")
        self.verifiers = ThreadPoolExecutor(VERIFIERS, thread_name_prefix="sage-verify")
        self.writing: set[asyncio.Future] = set()

    async def decide(self, request: RequestFields, serving: Serving, if_left: AttemptFields) -> Decision:
        """A decision that is committed, or whose verdict is 'unlogged'; `if_left` is its outcome if nobody waits for it."""
        decide = self.decide_here if self.router.decides_at_once(serving) else self.route
        decision = await self.decided(decide(request, serving), if_left)
        assert decision is not None
        return decision

    async def next_step(self, cascade: Cascade, if_left: AttemptFields) -> Decision | None:
        """The next attempt of a cascade, or None at its end; else as `decide`."""
        return await self.decided(asyncio.get_running_loop().run_in_executor(self.threads, cascade.next), if_left)

    async def verified(self, cascade: Cascade, answer: str | None, fields: AttemptFields) -> str:
        """Returns the verdict of a cascade's verifiers on an answer; logs it with the attempt's outcome, also if nobody waits."""
        reporting = asyncio.get_running_loop().run_in_executor(
            self.verifiers, partial(self._verify, cascade, answer, fields)
        )
        self.writing.add(reporting)
        reporting.add_done_callback(self.writing.discard)
        return await asyncio.shield(reporting)

    def _verify(self, cascade: Cascade, answer: str | None, fields: AttemptFields) -> str:
        verdict = cascade.report(answer, **fields)
        self.in_flight.remove(cascade.tried[-1][0].id)
        return verdict

    async def decided(self, deciding: asyncio.Future, if_left: AttemptFields) -> Decision | None:
        try:
            decision = await asyncio.shield(deciding)
            if decision is not None and decision.logged:
                self.in_flight.add(decision.id)
            return decision
        except asyncio.CancelledError:
            self.writing.add(deciding)
            deciding.add_done_callback(partial(self._left, fields=if_left))
            raise

    def decide_here(self, request: RequestFields, serving: Serving) -> asyncio.Future[Decision]:
        """Decides on the event loop, without waiting for the log: its thread says when the decision is committed."""
        router, loop = self.router, asyncio.get_running_loop()
        asked, contexts = router.seen(Request(**request))
        prepared = router.prepare(asked, contexts, serving=serving)
        deciding: asyncio.Future[Decision] = loop.create_future()

        def settle(failure: ValueError | None) -> None:
            if failure is None:
                deciding.set_result(prepared.decision)
            elif isinstance(failure, LOG_FAILURES):
                deciding.set_result(router.unlogged(asked, contexts, None, serving, failure))
            else:
                deciding.set_exception(failure)

        def done(record: Waiting) -> None:
            failure = record.result if isinstance(record.result, ValueError) else None
            with suppress(RuntimeError):  # the loop has ended, and nobody waits
                loop.call_soon_threadsafe(settle, failure)
            if failure is None:
                router.backlog.flush()

        router.log.submit(prepared.decision, done, budgets=prepared.budgets)
        return deciding

    def route(self, request: RequestFields, serving: Serving) -> asyncio.Future[Decision]:
        call = partial(self.router.route, serving=serving, **request)
        return asyncio.get_running_loop().run_in_executor(self.threads, call)

    async def reserve(self, decision: Decision, model: str, request: RequestFields, serving: Serving) -> bool:
        """Returns True if a budget has room for a fallback to the model, whose cost is then reserved."""
        call = partial(self.router.reserve, decision, model, Request(**request), serving)
        return await asyncio.get_running_loop().run_in_executor(self.threads, call)

    def _left(self, deciding: asyncio.Future, fields: AttemptFields) -> None:
        self.writing.discard(deciding)
        decision = None if deciding.exception() is not None else deciding.result()
        if decision is not None:
            self.report(decision, fields)

    def report(self, decision: Decision, fields: AttemptFields, shadow: bool = False) -> None:
        """Logs an outcome, of the decision's model or of its shadow; nobody waits for it."""
        if decision.logged:
            said = self.router.outcome_of(decision.id, None, fields, ())
            self.log(of_shadow(said) if shadow else said)

    def judge(self, decision_id: str, verdict: Verdict) -> None:
        """Logs what a later request said of an answer."""
        self.log(self.router.outcome_of(decision_id, None, {"source": TRAFFIC}, (verdict,)))

    def log(self, outcome: Outcome) -> None:
        if self.router.bandit is None:
            self.router.log.submit(outcome, self.joined)
        else:  # which learns from it
            self.write(partial(self.learn, outcome))

    def learn(self, outcome: Outcome) -> None:
        if self.router.report(outcome) != UNLOGGED:
            self.written(outcome)

    def joined(self, record: Waiting) -> None:
        """Takes a report back from the log's thread: one that could not be written goes to the backlog."""
        assert isinstance(record.record, Outcome)
        if isinstance(record.result, ValueError):
            self.router.backlog.add_outcome(record.record, record.correction, record.result)
        else:
            self.written(record.record)
            self.router.backlog.flush()

    def written(self, outcome: Outcome) -> None:
        """Forgets a call whose end is in the log: it is no longer under way."""
        if outcome.latency_s is not None or outcome.timed_out:
            self.in_flight.remove(outcome.decision_id)

    def write(self, call: Callable[[], object]) -> None:
        future = asyncio.get_running_loop().run_in_executor(self.threads, call)
        self.writing.add(future)
        future.add_done_callback(self.writing.discard)

    def counts(self) -> Mapping[str, int]:
        """Returns what the log lacks: `decisions` and `outcomes` that are lost, outcomes that are `waiting`, and whether it is
        `unusable` now."""
        backlog = self.router.backlog
        return {**backlog.counts, "waiting": len(backlog.waiting), "unusable": int(backlog.is_down)}

    async def close(self) -> None:
        """Writes all that is on its way."""
        while self.writing:
            await asyncio.wait(self.writing)
        await asyncio.to_thread(self.router.log.finish)
        self.threads.shutdown()
        self.verifiers.shutdown()
        self.router.close()
        if not self.router.backlog.waiting:
            self.in_flight.places.clear()
        self.in_flight.close()
