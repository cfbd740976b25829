"""Counts what one reads to follow a chat completion through `sage serve`: the files of sage in which a function runs, from the
bytes that a client sends to the outcome in the log, and their lines of code.

The server and a stub of an upstream run in this process. Two requests before the counted one read what is read once.

Usage: python scripts/count_files_chat.py [--files]
"""

from __future__ import annotations

import argparse
import asyncio
import inspect
import json
import socket
import sqlite3
import sys
import tempfile
import threading
from pathlib import Path
from types import FrameType

import uvicorn
from count_files_run import lines_of_code

import sage
from sage.serve import app
from sage.serve.access.access import Access
from sage.serve.access.guarded_protocol import GuardedProtocol
from sage.serve.places import Places

ROOT = Path(sage.__file__).parent
TABLE = """models:
  small: {{input_usd_per_mtok: 1, output_usd_per_mtok: 1, upstream: {{url: 'http://127.0.0.1:{0}/v1'}}}}
  large: {{input_usd_per_mtok: 3, output_usd_per_mtok: 3, upstream: {{url: 'http://127.0.0.1:{0}/v1'}}}}
roles: {{default: {{primary: small}}}}
exploration: 0.1
"""
ANSWER = {
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "done"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 10, "completion_tokens": 1, "total_tokens": 11},
}
ASKED = {"model": "sage", "messages": [{"role": "user", "content": "fix the parser"}]}


class Calls:
    """The files whose functions are called while `counting`, in any thread that starts after `watch`."""

    def __init__(self) -> None:
        self.files: set[str] = set()
        self.counting = False

    def note(self, frame: FrameType, event: str, argument: object) -> None:
        if self.counting and event == "call" and frame.f_code.co_flags & inspect.CO_OPTIMIZED:
            self.files.add(frame.f_code.co_filename)

    def watch(self) -> None:
        threading.setprofile(self.note)
        sys.setprofile(self.note)


def head(first: str, body: bytes) -> bytes:
    lines = f"{first}\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    return lines.encode() + body


async def received(reader: asyncio.StreamReader) -> bytes:
    """Reads one message of HTTP, and returns its first line."""
    lines = (await reader.readuntil(b"\r\n\r\n")).lower().split(b"\r\n")
    length = next(int(line[15:]) for line in lines if line.startswith(b"content-length:"))
    await reader.readexactly(length)
    return lines[0]


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while not reader.at_eof():
        try:
            await received(reader)
        except asyncio.IncompleteReadError:
            break
        writer.write(head("HTTP/1.1 200 OK", json.dumps(ANSWER).encode()))
    writer.close()


async def ask(port: int, db: Path, outcomes: int) -> None:
    """Sends a request, and returns once it is answered and so many outcomes are in the log."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(head("POST /v1/chat/completions HTTP/1.1", json.dumps(ASKED).encode()))
    assert b" 200 " in await received(reader)
    writer.close()
    with sqlite3.connect(db) as connection:
        while connection.execute("SELECT count(*) FROM outcomes").fetchone()[0] < outcomes:
            await asyncio.sleep(0.01)


async def chat(folder: Path, calls: Calls) -> None:
    upstream = await asyncio.start_server(answer, "127.0.0.1", 0)
    (folder / "models.yaml").write_text(TABLE.format(upstream.sockets[0].getsockname()[1]))
    app.LOOK_EVERY_S = 3600.0  # for files that have changed, which no request does
    application = app.Application(Places(folder / "models.yaml", folder / "sage.db"), Access(), environment={})
    config = uvicorn.Config(application.asgi, http=GuardedProtocol, lifespan="on", ws="none", log_level="error")
    server, listening = uvicorn.Server(config), socket.create_server(("127.0.0.1", 0))
    serving = asyncio.ensure_future(server.serve(sockets=[listening]))
    while not server.started:
        await asyncio.sleep(0.01)
    for number in range(1, 4):
        calls.counting = number == 3
        await ask(listening.getsockname()[1], folder / "sage.db", number)
    calls.counting = False
    server.should_exit = True
    await serving
    upstream.close()


def main() -> None:
    parser = argparse.ArgumentParser(description="Counts what one reads to follow a chat completion.")
    parser.add_argument("--files", action="store_true", help="also list the files")
    options, calls = parser.parse_args(), Calls()
    with tempfile.TemporaryDirectory() as folder:
        calls.watch()
        asyncio.run(chat(Path(folder), calls))
        sys.setprofile(None)
    paths = sorted(Path(name) for name in calls.files if Path(name).is_relative_to(ROOT))
    sizes = {path: lines_of_code(path.read_text()) for path in paths}
    for path, size in sizes.items() if options.files else ():
        print(f"{size:5} {path.relative_to(ROOT).as_posix()}")
    print(f"{len(sizes)} files, {sum(sizes.values()):,} lines of code")


if __name__ == "__main__":
    main()
