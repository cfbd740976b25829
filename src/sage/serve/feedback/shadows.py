"""Shadows: second models that get a request after another model has answered it; no client waits for them, and no
budget pays for them."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field, replace
from functools import partial

from sage.log.records import Decision
from sage.orchestrator.models_file import ModelsFile
from sage.serve.feedback.shadow_answers import ShadowAnswers
from sage.serve.logbook import Logbook
from sage.upstream.accounting import ANSWERED, FAILED, REFUSED, bounded_usage, cost, outcome_of
from sage.upstream.dialects.dialect import Usage, dumps
from sage.upstream.forwarding import Call, Forwarder, StartedStream
from sage.upstream.upstreams import UpstreamError

MOST_RUNNING = 32  # at a time; what is more is not asked, and said to be censored
LAST_S = 5.0  # for those that are under way when the server ends
NOT_ASKED = "proxy: the shadow was not asked"


@dataclass
class Shadows:
    """Calls of shadows, each begun when its client has the answer; their outcomes are logged."""

    table: ModelsFile
    forwarder: Forwarder
    logbook: Logbook
    answers: ShadowAnswers
    running: set[asyncio.Task[None]] = field(default_factory=set)

    def ask(self, call: Call, decision: Decision) -> None:
        if decision.shadow is None or not decision.logged:
            return
        if len(self.running) >= MOST_RUNNING:
            self.report(decision, 0.0, 0, NOT_ASKED, timed_out=True)
            return
        task = asyncio.ensure_future(self.answer(as_shadow(call, decision.shadow), decision))
        self.running.add(task)
        task.add_done_callback(self.running.discard)

    async def answer(self, call: Call, decision: Decision) -> None:
        began = time.perf_counter()
        ended, timed_out, usage = NOT_ASKED, True, None
        try:
            found = await self.forwarder.answer(call)
            assert not isinstance(found, StartedStream)  # nothing was asked to stream
            ended, timed_out = ANSWERED, False
            model = self.table.models[str(decision.shadow)]
            usage = bounded_usage(call.dialect.usage(found.values), model, call.dialect, call.values)
            if self.answers.seconds > 0:
                self.logbook.write(partial(self.answers.keep, decision, found.values))
        except UpstreamError as failure:
            refused = failure.answer is not None and not failure.again
            ended, timed_out = REFUSED if refused else FAILED, failure.timed_out
        finally:  # also where the server ends
            self.report(decision, time.perf_counter() - began, call.attempts, ended, usage, timed_out)

    def report(
        self,
        decision: Decision,
        latency_s: float,
        attempts: int,
        ended: str,
        usage: Usage | None = None,
        timed_out: bool = False,
    ) -> None:
        model = str(decision.shadow)
        price, metrics = self.table.models[model], self.forwarder.metrics
        fields = outcome_of(
            decision,
            decision.model,
            latency_s=latency_s,
            attempts=attempts,
            ended=ended,
            usage=usage,
            price=price,
            timed_out=timed_out,
        )
        self.logbook.report(decision, fields, shadow=True)
        metrics.count("sage_shadows_total", model=model, result=ended or "answered")
        if usage is not None and usage.known:
            metrics.count("sage_shadow_cost_usd_total", cost(usage, price), model=model)

    async def close(self) -> None:
        """Waits LAST_S seconds for calls that are under way, then cancels them; their outcomes are censored."""
        if self.running:
            await asyncio.wait(self.running, timeout=LAST_S)
        for task in self.running:
            task.cancel()
        await asyncio.gather(*self.running, return_exceptions=True)


def as_shadow(call: Call, model: str) -> Call:
    """Returns the same request for another model, with an answer that is not streamed."""
    values = {name: value for name, value in call.values.items() if name not in ("stream", "stream_options")}
    return replace(call, body=dumps(values), values=values, order=(model,), attempts=0, model="", may_ask=None)
