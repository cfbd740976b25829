"""Decisions and outcomes, off the event loop: threads wait for the log, requests for their own decision only."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from sage.cascade_steps import Verdict
from sage.orchestrator.guard import Serving
from sage.orchestrator.model_router import Router
from sage.orchestrator.request_fields import AttemptFields, RequestFields
from sage.records import Decision, Request

THREADS = 8  # whose records the log writes together


class Logbook:
    """One router for all requests of a process."""

    def __init__(self, router: Router) -> None:
        self.router = router
        self.threads = ThreadPoolExecutor(THREADS, thread_name_prefix="sage-log")
        self.writing: set[asyncio.Future] = set()

    async def decide(self, request: RequestFields, serving: Serving, if_left: AttemptFields) -> Decision:
        """A decision that is committed, or whose verdict is 'unlogged'; `if_left` is its outcome if nobody waits for it."""
        call = partial(self.router.route, serving=serving, **request)
        deciding = asyncio.get_running_loop().run_in_executor(self.threads, call)
        try:
            return await asyncio.shield(deciding)
        except asyncio.CancelledError:
            self.writing.add(deciding)
            deciding.add_done_callback(partial(self._left, fields=if_left))
            raise

    async def reserve(self, decision: Decision, model: str, request: RequestFields, serving: Serving) -> bool:
        """Whether a budget has room for a fallback to the model."""
        call = partial(self.router.reserve, decision, model, Request(**request), serving)
        return await asyncio.get_running_loop().run_in_executor(self.threads, call)

    def _left(self, deciding: asyncio.Future[Decision], fields: AttemptFields) -> None:
        self.writing.discard(deciding)
        if deciding.exception() is None:
            self.report(deciding.result(), fields)

    def report(self, decision: Decision, fields: AttemptFields, shadow: bool = False) -> None:
        """Logs an outcome, of the decision's model or of its shadow; nobody waits for it."""
        if decision.logged:
            self.write(partial(self.router.outcome, decision.id, shadow=shadow, **fields))

    def judge(self, decision_id: str, verdict: Verdict) -> None:
        """Logs what a later request said of an answer."""
        outcome = self.router.outcome_of(decision_id, None, {}, (verdict,))
        self.write(partial(self.router.report, outcome))

    def write(self, call: Callable[[], object]) -> None:
        future = asyncio.get_running_loop().run_in_executor(self.threads, call)
        self.writing.add(future)
        future.add_done_callback(self.writing.discard)

    def counts(self) -> Mapping[str, int]:
        """What the log lacks: `decisions` and `outcomes` that are lost, and outcomes that are `waiting`."""
        backlog = self.router.backlog
        return {**backlog.counts, "waiting": len(backlog.waiting)}

    async def close(self) -> None:
        """Writes all that is on its way."""
        while self.writing:
            await asyncio.wait(self.writing)
        self.threads.shutdown()
        self.router.close()
