"""The endpoint of one dialect: admits a client and reads its request, which an `Exchange` then answers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from sage.serve.access.access import Access, Refusal
from sage.serve.access.bodies import GONE, parse_object, read_body
from sage.serve.cascade_exchange import exchange_for
from sage.serve.exchange import Memory
from sage.serve.replies import Receive, Scope, Send, refuse
from sage.serve.state import ServingState
from sage.upstream.dialects.dialect import Dialect
from sage.upstream.forwarding import Call
from sage.upstream.metrics import Metrics

LARGE_BODY = 2**20  # bytes, whose parsing alone takes milliseconds


class Endpoint:
    """An ASGI application for one dialect; `state` returns the current state, for each request anew."""

    def __init__(
        self, dialect: Dialect, state: Callable[[], ServingState], access: Access, memory: Memory, metrics: Metrics
    ) -> None:
        self.dialect = dialect
        self.state = state
        self.access = access
        self.memory = memory
        self.metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = time.perf_counter()
        client = scope.get("client") or ("", 0)
        caller = self.access.admit(scope["headers"], client[0], scope["path"])
        if isinstance(caller, Refusal):
            return await self.refuse(send, caller)
        body = await read_body(receive, scope["headers"])
        if isinstance(body, Refusal):
            return None if body is GONE else await self.refuse(send, body)
        values = parse_object(body)
        if len(body) > LARGE_BODY:
            await asyncio.sleep(0)  # others are served between the steps of a large request
        if isinstance(values, Refusal):
            return await self.refuse(send, values)
        headers: dict[str, str] = {}
        for name, value in ((name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]):
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
        query = scope["query_string"].decode("latin-1")
        call = Call(self.dialect, body, values, headers, query, key=caller.key_id or "")
        state = self.state()
        state.in_flight += 1
        try:
            await exchange_for(state, call, caller, self.memory, began).serve(receive, send)
        finally:
            state.in_flight -= 1
        return None

    async def refuse(self, send: Send, refusal: Refusal) -> None:
        self.metrics.count("sage_requests_total", dialect=self.dialect.name, status=str(refusal.status))
        await refuse(send, self.dialect, refusal)
