"""Broken streams of every kind: before the first token another model answers, after it an honest error. Without exception."""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path

import aiohttp

from tests.sage.serve.answers import BODIES, PATHS, STREAMS, USAGE, data, event, table
from tests.sage.serve.scripted import EVENTS, Asked, Proxy, Reply, proxy, stream, whole

CASES = 720
TOGETHER = 40
ERRORS = {
    "chat": data({"error": {"message": "failed", "type": "server_error"}}),
    "messages": event({"type": "error", "error": {"type": "api_error", "message": "failed"}}),
    "responses": event({"type": "response.failed", "response": {"id": "r1", "error": {"message": "failed"}}}),
}
COMPLETE = {  # by when an answer is complete, though its stream may not be
    "chat": STREAMS["chat"][3],
    "messages": STREAMS["messages"][-1],
    "responses": STREAMS["responses"][-1],
}
MALFORMED = (
    b"data: {\n\n",
    b"data: [1]\n\n",
    b"data: nonsense\n\n",
    b'data: {"choices": [7]}\n\n',
    b"data: \xff\xfe\n\n",
)
CONTENT = {"chat": b"Hel", "messages": b'"text": "Hello"', "responses": b"response.output_item.added"}


def broken(rng: random.Random, dialect: str) -> Reply:
    """A conformant stream with one thing wrong, in portions of any size."""
    good = b"".join(part for part in STREAMS[dialect] if part != USAGE)
    last = good.index(COMPLETE[dialect])
    kind = rng.choice(("cut", "end", "stall", "malformed", "failed", "status", "not a stream"))
    if kind == "status":
        return whole({"error": {"message": "no"}}, rng.choice((401, 404, 408, 429, 500, 502, 503, 529)))
    if kind == "not a stream":
        return rng.choice(
            (whole({}), Reply(raw=b"HTTP/1.1 200 OK\r\ncont", ends="cut"), Reply(raw=b"\0" * 40, ends="cut"))
        )
    at = rng.randrange(last + 1)
    sent = good[:at]
    if kind in ("malformed", "failed"):
        sent = good[: good.rfind(b"\n\n", 0, at) + 2] if b"\n\n" in good[:at] else b""
        sent += rng.choice(MALFORMED[: 5 if dialect == "chat" else 3]) if kind == "malformed" else ERRORS[dialect]
        sent += good[len(sent) :] if rng.random() < 0.5 else b""
    parts = []
    while sent:
        size = rng.choice((1, 7, 100, 10_000))
        parts.append(sent[:size])
        sent = sent[size:]
    return stream(*parts, ends=kind if kind in ("cut", "stall") else "end")


def three_models(url: str) -> str:
    """Silence is waited for briefly by one model only, which planners get: a busy machine is silent, too."""
    text = table(url, serve="{retries: 0, breaker_failures: 1000000}", timeouts="first_byte_s: 60, stall_s: 60")
    first = next(line for line in text.splitlines() if line.startswith("  first:"))
    impatient = first.replace("  first:", "  impatient:").replace("first-there", "impatient-there")
    impatient = impatient.replace("_s: 60", "_s: 0.4")  # not in a port
    rules = "roles: {planner: {primary: impatient, fallback: second}, default: {primary: first, fallback: second}}"
    return text.replace(first, f"{first}\n{impatient}").replace(
        "roles: {default: {primary: first, fallback: second}}", rules
    )


async def exchange(
    served: Proxy, session: aiohttp.ClientSession, number: int, dialect: str, stalls: bool
) -> tuple[int, str, bytes]:
    body = BODIES[dialect] | {"stream": True, "metadata": {"case": str(number)}}
    role = {"x-sage-role": "planner" if stalls else "coder"}
    async with session.post(served.url + PATHS[dialect], json=body, headers=role) as response:
        return response.status, response.headers["x-sage-model"], await response.read()


def test_every_broken_stream_ends_in_a_fallback_or_an_honest_error(tmp_path: Path) -> None:
    rng = random.Random(20261118)
    dialects = [list(STREAMS)[number % 3] for number in range(CASES)]
    replies = [broken(rng, dialect) for dialect in dialects]

    def script(asked: Asked) -> Reply:
        if asked.values["model"] != "second-there":
            return replies[int(asked.values["metadata"]["case"])]
        return stream(*STREAMS[next(name for name, path in PATHS.items() if asked.path == path)])

    async def run(served: Proxy) -> list[tuple[int, str, bytes]]:
        few = asyncio.Semaphore(TOGETHER)
        async with aiohttp.ClientSession() as session:

            async def one(number: int) -> tuple[int, str, bytes]:
                async with few:
                    return await exchange(served, session, number, dialects[number], replies[number].ends == "stall")

            return await asyncio.gather(*map(one, range(CASES)))

    with proxy(tmp_path, script, three_models) as served:
        answers = asyncio.run(run(served))
        rows = served.logged()

    outcomes = {decision.id: outcome for decision, outcome in rows}
    assert len(rows) == CASES
    assert None not in outcomes.values()
    fallbacks = broke = 0
    for dialect, reply, (status, model, body) in zip(dialects, replies, answers, strict=True):
        good = b"".join(part for part in STREAMS[dialect] if part != USAGE)
        assert status == 200
        if model == "second":
            fallbacks += 1
            assert body == good  # nothing of the broken one
            assert sent_content(reply, dialect) == 0 or reply.ends == "stall"  # whose first token may come too late
        else:
            broke += 1
            assert ends_in_an_error(dialect, body), body
            assert not body.endswith(good[-20:])
            assert sent_content(reply, dialect) > 0
    assert fallbacks > 100
    assert broke > 100
    provenances = [outcome.provenance for outcome in outcomes.values() if outcome is not None]
    assert provenances.count("proxy: the stream broke") == broke
    assert provenances.count("") == fallbacks
    successes = [outcome for outcome in outcomes.values() if outcome is not None and outcome.model == "second"]
    assert len(successes) == fallbacks
    assert all(outcome.tokens_out == 100 for outcome in successes)


def sent_content(reply: Reply, dialect: str) -> int:
    """How many whole events with content it has before anything is wrong with it."""
    sent = b"".join(part for part in reply.parts if isinstance(part, bytes))
    for wrong in (*MALFORMED, ERRORS[dialect]):
        sent = sent.partition(wrong)[0]
    *events, rest = sent.split(b"\n\n")
    if reply.ends == "end" and is_json(rest.rpartition(b"data: ")[2]):  # only its blank line is missing
        events.append(rest)
    return sum(CONTENT[dialect] in event for event in events) if reply.content_type == EVENTS else 0


def is_json(text: bytes) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


def ends_in_an_error(dialect: str, body: bytes) -> bool:
    values = json.loads(body.rstrip().rpartition(b"data: ")[2])
    if dialect == "chat":
        return bool(values["error"]["message"])
    if dialect == "messages":
        return values["type"] == "error" and bool(values["error"]["message"])
    return values["type"] == "response.failed" and bool(values["response"]["error"]["message"])
