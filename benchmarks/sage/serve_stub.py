"""A model that answers at once, for measuring what a proxy adds: chat completions on loopback, one write per answer."""

from __future__ import annotations

import asyncio
import json
import sys

HEAD = "HTTP/1.1 200 OK\r\ncontent-type: {}\r\n{}\r\n\r\n"
WORDS = ["word "] * 20


def whole() -> bytes:
    answer = {
        "id": "c1",
        "object": "chat.completion",
        "created": 1,
        "model": "stub",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "".join(WORDS)}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 250, "completion_tokens": 20, "total_tokens": 270},
    }
    body = json.dumps(answer).encode()
    return HEAD.format("application/json", f"content-length: {len(body)}").encode() + body


def streamed() -> bytes:
    frame = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "stub"}
    deltas = [{"role": "assistant", "content": ""}, *({"content": word} for word in WORDS)]
    events = [frame | {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    events.append(frame | {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    events.append(
        frame | {"choices": [], "usage": {"prompt_tokens": 250, "completion_tokens": 20, "total_tokens": 270}}
    )
    lines = [b"data: " + json.dumps(event).encode() + b"\n\n" for event in events] + [b"data: [DONE]\n\n"]
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(line), line) for line in lines) + b"0\r\n\r\n"
    return HEAD.format("text/event-stream", "transfer-encoding: chunked").encode() + chunks


class Stub(asyncio.Protocol):
    WHOLE, STREAM = whole(), streamed()

    def __init__(self) -> None:
        self.waiting = b""

    def connection_made(self, transport: asyncio.Transport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.waiting += data
        while (end := self.waiting.find(b"\r\n\r\n")) >= 0:
            head = self.waiting[:end].lower()
            length = head.find(b"content-length:")
            size = int(head[length + 15 :].split(b"\r", 1)[0]) if length >= 0 else 0
            if len(self.waiting) < end + 4 + size:
                return
            body, self.waiting = self.waiting[end + 4 : end + 4 + size], self.waiting[end + 4 + size :]
            streams = b'"stream": true' in body or b'"stream":true' in body
            self.transport.write(self.STREAM if streams else self.WHOLE)


async def main(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(Stub, "127.0.0.1", port)
    print("ready", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    import uvloop

    uvloop.run(main(int(sys.argv[1])))
