"""Answers by sage itself: JSON, and errors in the form of a request's dialect."""

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
    """Sends a complete answer; nothing waits between its head and body, so both go out in one write."""
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": status, "headers": [*headers, length]})
    await send({"type": "http.response.body", "body": body})


async def refuse(send: Send, dialect: Dialect, refusal: Refusal, tenant: str = "") -> None:
    """Sends a Refusal as an error in the form of the dialect, and logs it for `tenant` if its status is 500 or more."""
    if refusal.status >= 500:
        log_failure(refusal.status, dialect.endpoint, refusal.message, tenant)
    body = dumps(dialect.error(refusal.status, refusal.message, refusal.kind))
    more = [(b"retry-after", str(math.ceil(refusal.retry_after_s)).encode())] if refusal.retry_after_s else []
    await reply(send, refusal.status, body, [JSON, *more])


def log_failure(status: int, endpoint: str, reason: str, tenant: str = "") -> None:
    """Logs one line about an answer whose failure is the server's or an upstream's; `reason` repeats nothing of the
    request."""
    log.warning(f"{status} at {endpoint}{f' for the tenant {tenant}' if tenant else ''}: {reason}")
