"""Bodies of requests: read up to a limit, and parsed into an object."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from sage.serve.access.access import Headers, Refusal, bad

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]  # ASGI's own type
MOST_BODY_BYTES = 32 * 1024 * 1024
MARGIN = 100  # calls
GONE = Refusal(499, "api_error", "the client has gone")


async def read_body(receive: Receive, headers: Headers, most_bytes: int = MOST_BODY_BYTES) -> bytes | Refusal:
    """Returns the whole body; a Refusal if it is compressed or larger than `most_bytes`, of which no more is read, and
    GONE if the client has left."""
    too_large = Refusal(413, "request_too_large", f"the body is larger than {most_bytes} bytes: send less")
    for name, value in headers:
        if name == b"content-length" and int(value) > most_bytes:
            return too_large
        if name == b"content-encoding" and value.strip().lower() not in (b"", b"identity"):
            return Refusal(415, "invalid_request_error", "the body is compressed: send it as it is")
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return GONE
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > most_bytes:
            return too_large
        if not message.get("more_body", False):
            return parts[0] if len(parts) == 1 else b"".join(parts)


def parse_object(body: bytes) -> dict | Refusal:
    """Returns the JSON object in a body; a Refusal, which never repeats the body, if there is none."""
    try:
        values = parse_with_margin(body, MARGIN)
    except (ValueError, RecursionError):
        return bad("the body is not JSON, or nests too deep: send one object")
    if not isinstance(values, dict):
        return bad("the body is not a JSON object: send one")
    return values


def parse_with_margin(body: bytes, margin: int) -> object:
    """Returns parsed JSON, read `margin` calls deeper than it will be written: Python limits the depth of both, and a
    body that was read must not fail when it is passed on."""
    return parse_with_margin(body, margin - 1) if margin else json.loads(body)
