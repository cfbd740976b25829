"""A client cannot hold a connection by sending slowly, nor fill the memory with a head that never ends."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator

import pytest
import uvicorn

from sage.serve.access.guarded_protocol import GuardedProtocol

HEAD = b"POST / HTTP/1.1\r\nhost: x\r\n"


class Hasty(GuardedProtocol):
    head_s = 0.2
    body_s = 0.2
    read_s = 0.2


LEFT = threading.Event()


async def app(scope: dict, receive, send) -> None:
    """Answers once the body is there; slowly, if the path says so."""
    while (message := await receive()).get("more_body"):
        pass
    if message["type"] == "http.disconnect":
        return
    if scope["path"] == "/endless":
        left = asyncio.ensure_future(receive())
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while not left.done():
            await send({"type": "http.response.body", "body": b"x" * 65536, "more_body": True})
        LEFT.set()
        return
    await asyncio.sleep(0.5 if scope["path"] == "/slow" else 0)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, http=Hasty, lifespan="off", log_level="critical"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    yield listener.getsockname()[1]
    server.should_exit = True
    thread.join()


def answer(port: int, *parts: bytes, every_s: float = 0.0) -> bytes:
    """What comes back until the server hangs up, or has answered once."""
    pause = threading.Event()
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        for part in parts:
            try:
                connection.sendall(part)
            except OSError:
                break
            pause.wait(every_s)
        connection.settimeout(10)
        found = b""
        while not found.endswith(b"ok"):
            try:
                more = connection.recv(65536)
            except ConnectionResetError:
                break
            if not more:
                break
            found += more
    return found


def test_an_honest_request_is_answered(port: int) -> None:
    assert answer(port, HEAD + b"content-length: 4\r\n\r\n", b"body").startswith(b"HTTP/1.1 200")


def test_a_slow_answer_is_not_cut_by_bytes_after_the_request(port: int) -> None:
    found = answer(port, b"POST /slow HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n", b"\r\n", every_s=0.01)
    assert found.startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    ("parts", "status"),
    [
        ((), b""),  # a connection that says nothing
        ((HEAD,), b"HTTP/1.1 408"),
        ((HEAD, b"x-a: 1\r\n", b"x-b: 1\r\n", b"x-c: 1\r\n"), b"HTTP/1.1 408"),
        ((HEAD + b"content-length: 9\r\n\r\n", b"1", b"2", b"3"), b"HTTP/1.1 408"),
        ((HEAD + b"transfer-encoding: chunked\r\n\r\n", b"1\r\na\r\n"), b"HTTP/1.1 408"),
        ((HEAD + b"x-long: ", *[b"a" * 10_000] * 8), b"HTTP/1.1 431"),
        ((HEAD, *[b"x-%d: a\r\n" % i * 1000 for i in range(10)]), b"HTTP/1.1 431"),
        ((b"GET /" + b"a" * 10_000, *[b"a" * 10_000] * 8), b"HTTP/1.1 431"),
    ],
)
def test_what_does_not_end_is_ended(port: int, parts: tuple[bytes, ...], status: bytes) -> None:
    found = answer(port, *parts, every_s=0.06 if status != b"HTTP/1.1 431" else 0.0)
    assert found.startswith(status)
    assert b"200" not in found


def test_an_answer_that_nobody_reads_is_given_up(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(b"POST /endless HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n")
        assert LEFT.wait(20)  # the connection is still open on this side
        connection.recv(1)


def test_line_ends_do_not_keep_a_connection(port: int) -> None:
    request = HEAD + b"content-length: 0\r\n\r\n"
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(request)
        assert connection.recv(1000).startswith(b"HTTP/1.1 200")
        pause = threading.Event()
        for _ in range(200):
            try:
                connection.sendall(b"\r\n")
            except OSError:
                return  # hung up
            pause.wait(0.05)
    raise AssertionError("the connection is still there after 10 s of line ends")
