"""A model that often fails, for `serve_soak.py`: whole answers and streams, errors, cuts, stalls and rubbish, drawn by a seed."""

from __future__ import annotations

import asyncio
import json
import random
import sys

FAULTS = {  # share of calls
    "500": 0.02,
    "429": 0.01,
    "cut before": 0.01,
    "cut inside": 0.01,
    "stall": 0.002,
    "rubbish": 0.01,
}
USAGE = {"prompt_tokens": 250, "completion_tokens": 20, "total_tokens": 270}


def event(values: dict) -> bytes:
    frame = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "stub"}
    line = b"data: " + json.dumps(frame | values).encode() + b"\n\n"
    return b"%x\r\n%s\r\n" % (len(line), line)


def delta(content: dict, finish: str | None = None) -> bytes:
    return event({"choices": [{"index": 0, "delta": content, "finish_reason": finish}]})


STREAM = [
    delta({"role": "assistant", "content": ""}),
    *(delta({"content": "word "}) for _ in range(10)),
    delta({}, "stop"),
    event({"choices": [], "usage": USAGE}),
    b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n",
]
MESSAGE = {"index": 0, "message": {"role": "assistant", "content": "word " * 10}, "finish_reason": "stop"}
WHOLE = {"id": "c1", "object": "chat.completion", "created": 1, "model": "stub", "choices": [MESSAGE], "usage": USAGE}


def head(status: int, kind: str, size: int | None) -> bytes:
    framing = "transfer-encoding: chunked" if size is None else f"content-length: {size}"
    return f"HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\n{framing}\r\n\r\n".encode()


class Upstream:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                asked = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = int(asked.split(b"content-length:")[1].split(b"\r", 1)[0])
                body = await reader.readexactly(length)
                await asyncio.sleep(self.random.uniform(0.002, 0.02))
                if not await self.answer(writer, b'"stream": true' in body or b'"stream":true' in body):
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        writer.close()

    async def answer(self, writer: asyncio.StreamWriter, streams: bool) -> bool:
        """Whether the connection can be used again."""
        fault = self.random.choices([*FAULTS, "none"], [*FAULTS.values(), 1 - sum(FAULTS.values())])[0]
        if fault in ("500", "429"):
            error = json.dumps({"error": {"message": "no", "type": "api_error"}}).encode()
            writer.write(head(int(fault), "application/json", len(error)) + error)
            return True
        if fault in ("cut before", "stall"):
            if fault == "stall":
                await asyncio.sleep(30)
            return False
        if fault == "rubbish":
            writer.write(head(200, "text/event-stream" if streams else "application/json", 5) + b"{oops")
            return True
        if not streams:
            answer = json.dumps(WHOLE).encode()
            cut = answer[: len(answer) // 2] if fault == "cut inside" else answer
            writer.write(head(200, "application/json", len(answer)) + cut)
            return fault == "none"
        parts = STREAM[: self.random.randrange(2, 10)] if fault == "cut inside" else STREAM
        writer.write(head(200, "text/event-stream", None) + b"".join(parts))
        return fault == "none"


async def main(port: int) -> None:
    server = await asyncio.start_server(Upstream(0).serve, "127.0.0.1", port)
    print("ready", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
