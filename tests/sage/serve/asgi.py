"""Calls an ASGI application without a server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any


def call(
    app: Any, method: str, path: str, *, body: bytes = b"", headers: Mapping[str, str | bytes] | None = None
) -> tuple:
    """The status and the parsed body of an answer."""
    given = {"host": "127.0.0.1"} | dict(headers or {})
    raw = [(n.encode(), v if isinstance(v, bytes) else v.encode()) for n, v in given.items()]
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "scheme": "http",
        "client": ("127.0.0.1", 1234),
        "server": ("127.0.0.1", 80),
        "headers": raw,
    }
    sent: list[dict] = []

    async def receive() -> dict:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: dict) -> None:
        sent.append(message)

    asyncio.run(app(scope, receive, send))
    return sent[0]["status"], json.loads(b"".join(message.get("body", b"") for message in sent[1:]))
