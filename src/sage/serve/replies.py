"""Answers of sage itself: JSON, and errors in the shape of a request's dialect."""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any

from sage.serve.access.access import Refusal
from sage.upstream.dialects.dialect import Dialect, dumps
from sage.upstream.headers import JSON

log = logging.getLogger(__name__)
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]  # ASGI's own types
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Scope = MutableMapping[str, Any]
Headers = Sequence[tuple[bytes, bytes]]


async def reply(send: Send, status: int, body: bytes, headers: Headers) -> None:
    """A whole answer; head and body go out in one write, as nothing waits between them."""
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": status, "headers": [*headers, length]})
    await send({"type": "http.response.body", "body": body})


async def refuse(send: Send, dialect: Dialect, refusal: Refusal, tenant: str = "") -> None:
    if refusal.status >= 500:
        log_failure(refusal.status, dialect.endpoint, refusal.message, tenant)
    body = dumps(dialect.error(refusal.status, refusal.message, refusal.kind))
    more = [(b"retry-after", str(math.ceil(refusal.retry_after_s)).encode())] if refusal.retry_after_s else []
    await reply(send, refusal.status, body, [JSON, *more])


def log_failure(status: int, endpoint: str, reason: str, tenant: str = "") -> None:
    """Logs one line of an answer that is the server's or an upstream's failure; `reason` repeats nothing of the request."""
    log.warning(f"{status} at {endpoint}{f' for the tenant {tenant}' if tenant else ''}: {reason}")
