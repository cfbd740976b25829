"""An upstream that answers as a test says, byte by byte, and a proxy in front of it: both in one thread, on loopback."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import uvicorn

from sage.log.decision_log import DecisionLog
from sage.log.records import Decision, Outcome
from sage.serve.access.access import Access
from sage.serve.access.guarded_protocol import GuardedProtocol
from sage.serve.app import Application
from sage.serve.places import Places

EVENTS = "text/event-stream"
KEY = {"UP_KEY": "upstream-key"}  # that the tables of tests name


@dataclass
class Asked:
    """A request as the upstream got it."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def values(self) -> dict:
        return json.loads(self.body)


@dataclass
class Reply:
    """What it answers: parts with pauses (seconds) between them, and then an end, a cut or silence."""

    parts: tuple[bytes | float, ...] = ()
    status: int = 200
    content_type: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)
    ends: str = "end"  # or "cut": the connection breaks off; or "stall": nothing more comes
    raw: bytes = b""  # instead of a head


def whole(values: dict, status: int = 200, **headers: str) -> Reply:
    return Reply((json.dumps(values).encode(),), status, headers=headers)


def stream(*parts: bytes | float, ends: str = "end") -> Reply:
    return Reply(parts, content_type=EVENTS, ends=ends)


Script = Callable[[Asked], Reply]


class Upstream:
    """Answers by `script`, and remembers what it was asked."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.asked: list[Asked] = []
        self.lost = 0  # connections that the other side closed before the answer was complete

    async def start(self) -> asyncio.Server:
        return await asyncio.start_server(self.serve, "127.0.0.1", 0)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while (asked := await read_request(reader)) is not None:
                self.asked.append(asked)
                if not await self.answer(self.script(asked), reader, writer):
                    break
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        writer.close()

    async def answer(self, reply: Reply, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Whether the connection can be used again."""
        size = sum(len(part) for part in reply.parts if isinstance(part, bytes))
        framing = "transfer-encoding: chunked" if reply.content_type == EVENTS else f"content-length: {size}"
        more = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in reply.headers.items())
        head = f"HTTP/1.1 {reply.status} X\r\ncontent-type: {reply.content_type}\r\n{framing}\r\n{more}\r\n"
        writer.write(reply.raw or head.encode())
        parts = list(reply.parts)
        if reply.ends != "end" and reply.content_type != EVENTS and parts:
            parts[-1] = parts[-1][:-1]  # of which the last byte never comes
        for part in parts:
            if isinstance(part, float):
                await writer.drain()
                await asyncio.sleep(part)
            elif reply.content_type == EVENTS and not reply.raw:
                writer.write(b"%x\r\n%s\r\n" % (len(part), part))
            else:
                writer.write(part)
        if reply.ends == "end" and not reply.raw:
            writer.write(b"0\r\n\r\n" if reply.content_type == EVENTS else b"")
            return True
        await writer.drain()
        if reply.ends == "stall":
            self.lost += not await reader.read(1)
        writer.transport.abort()
        return False


async def read_request(reader: asyncio.StreamReader) -> Asked | None:
    head = await reader.readuntil(b"\r\n\r\n") if not reader.at_eof() else b""
    if not head:
        return None
    first, *lines = head.decode("latin-1").rstrip().split("\r\n")
    headers = dict(line.lower().split(": ", 1) if ": " in line else (line.rstrip(":"), "") for line in lines)
    method, path, _ = first.split(" ")
    return Asked(method, path, headers, await reader.readexactly(int(headers.get("content-length", 0))))


@dataclass
class Proxy:
    """A running `sage serve` with its upstream; `stop` writes all that is on its way into the log."""

    url: str
    upstream: Upstream
    application: Application
    db: Path
    port: int
    stop: Callable[[], None]

    def logged(self) -> list[tuple[Decision, Outcome | None]]:
        """All rows; stops the server, so that none is on its way."""
        self.stop()
        return list(DecisionLog(self.db).rows())


@contextmanager
def proxy(
    folder: Path,
    script: Script,
    table: Callable[[str], str],
    *,
    environment: dict[str, str] = KEY,
    access: Access | None = None,
) -> Iterator[Proxy]:
    """`table` makes models.yaml from the upstream's URL."""
    upstream, ready = Upstream(script), threading.Event()
    listening = socket.create_server(("127.0.0.1", 0))
    started: list[Application] = []
    servers: list[uvicorn.Server] = []

    async def main() -> None:
        scripted = await upstream.start()
        address = scripted.sockets[0].getsockname()
        (folder / "models.yaml").write_text(table(f"http://127.0.0.1:{address[1]}/v1"))
        places = Places(folder / "models.yaml", folder / "sage.db")
        started.append(Application(places, access or Access(), environment=environment))
        config = uvicorn.Config(
            started[0].asgi,
            http=GuardedProtocol,
            lifespan="on",
            log_level="error",
            ws="none",
            timeout_graceful_shutdown=1,
        )
        servers.append(uvicorn.Server(config))
        serving = asyncio.ensure_future(servers[0].serve(sockets=[listening]))
        while not servers[0].started and not serving.done():
            await asyncio.sleep(0.005)
        ready.set()
        await serving
        scripted.close()

    thread = threading.Thread(target=asyncio.run, args=(main(),), daemon=True)
    thread.start()
    assert ready.wait(30)

    def stop() -> None:
        for server in servers:
            server.should_exit = True
        thread.join(30)
        assert not thread.is_alive()

    port = listening.getsockname()[1]
    try:
        yield Proxy(f"http://127.0.0.1:{port}", upstream, started[0], folder / "sage.db", port, stop)
    finally:
        stop()
        listening.close()


def call(
    served: Proxy, path: str, body: object = None, method: str = "POST", **headers: str
) -> tuple[int, dict[str, str], bytes]:
    """One request: status, headers in small letters, body."""
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=30)
    content = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
    connection.request(method, path, content, {name.replace("_", "-"): value for name, value in headers.items()})
    response = connection.getresponse()
    found = response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()
    connection.close()
    return found


def wait_for(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.002)
