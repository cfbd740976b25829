"""Upstreams for `hostile_soak.py`: one that answers at once and honestly, and one whose answers are meant to do harm.

.venv/bin/python benchmarks/sage/hostile_upstream.py PORT honest|hostile

The hostile one does what the first word of the last message asks for (`BEHAVIOURS`), so that its callers choose the harm. The
honest one answers chat and messages, and 404 to all other paths and to requests that name a file it does not have.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import sys

from serve_stub import streamed, whole

MISSING_FILE = b"file-that-is-not-there"
BOMB_MB = 128
ENDLESS = {"endless": (b"0," * 32_768, 0.01), "pings": (b": ping\n\n", 0.5), "drip": (b" ", 0.5)}  # pieces, and seconds
MESSAGE = {
    "id": "m1",
    "type": "message",
    "role": "assistant",
    "model": "stub",
    "content": [{"type": "text", "text": "word " * 20}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 250, "output_tokens": 20},
}
BEHAVIOURS = ("bomb", "endless", "pings", "drip", "404", "429", "500", "tokens", "cut", "rubbish")


def answer(status: int, body: bytes, *headers: str, kind: str = "application/json") -> bytes:
    lines = [f"HTTP/1.1 {status} X", f"content-type: {kind}", f"content-length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def error(status: int, *headers: str) -> bytes:
    return answer(status, json.dumps({"error": {"message": "no", "type": "api_error"}}).encode(), *headers)


def bomb() -> bytes:
    """JSON that is a thousand times as large as what is sent."""
    return gzip.compress(b'{"a": "' + bytes([32]) * (BOMB_MB << 20) + b'"}', 6)


def chunk(piece: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(piece), piece)


def with_usage(tokens: int) -> bytes:
    values = json.loads(whole().partition(b"\r\n\r\n")[2])
    return json.dumps(values | {"usage": dict.fromkeys(("prompt_tokens", "completion_tokens"), tokens)}).encode()


class Upstream:
    """One connection after the other, each request as the kind of the upstream wants it."""

    def __init__(self, hostile: bool) -> None:
        self.hostile = hostile
        self.bomb = bomb() if hostile else b""
        self.many_tokens = with_usage(10**30)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().split(b"content-length:")[1].split(b"\r", 1)[0])
                body = await reader.readexactly(length)
                if self.hostile:
                    await self.harm(writer, str(json.loads(body)["messages"][-1]["content"]).split()[0])
                    break  # a connection for every harm
                writer.write(self.honest(head.split(b" ", 2)[1], body))
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        writer.close()

    def honest(self, path: bytes, body: bytes) -> bytes:
        if MISSING_FILE in body or not path.endswith((b"/chat/completions", b"/messages")):
            return error(404)
        if path.endswith(b"/messages"):
            return answer(200, json.dumps(MESSAGE).encode())
        return streamed() if b'"stream": true' in body or b'"stream":true' in body else whole()

    async def harm(self, writer: asyncio.StreamWriter, wanted: str) -> None:
        if wanted == "bomb":
            writer.write(answer(200, self.bomb, "content-encoding: gzip"))
        elif wanted in ("404", "500"):
            writer.write(error(int(wanted)))
        elif wanted == "429":
            writer.write(error(429, "retry-after: 1000000000"))
        elif wanted == "tokens":
            writer.write(answer(200, self.many_tokens))
        elif wanted == "rubbish":
            writer.write(answer(200, b'{"choices": 7'))
        elif wanted == "cut":
            writer.write(b"HTTP/1.1 200 X\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n{")
        elif wanted in ENDLESS:
            await self.go_on(writer, wanted)
        else:
            writer.write(error(500))
        await writer.drain()

    async def go_on(self, writer: asyncio.StreamWriter, wanted: str) -> None:
        """Sends until the caller has had enough: much, or hardly anything."""
        kind = "text/event-stream" if wanted == "pings" else "application/json"
        writer.write(f"HTTP/1.1 200 X\r\ncontent-type: {kind}\r\ntransfer-encoding: chunked\r\n\r\n".encode())
        piece, pause_s = ENDLESS[wanted]
        if wanted == "endless":
            writer.write(chunk(b'{"a": ['))
        while True:
            writer.write(chunk(piece))
            await writer.drain()
            await asyncio.sleep(pause_s)


async def main(port: int, kind: str) -> None:
    server = await asyncio.start_server(Upstream(kind == "hostile").serve, "127.0.0.1", port)
    print("ready", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), sys.argv[2]))
