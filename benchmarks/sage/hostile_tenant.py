"""Attacks of a tenant with a valid key, for `hostile_soak.py`: each at its own rate, as fast as one script would send them.

HOSTILE_KEY=sk-sage-... .venv/bin/python benchmarks/sage/hostile_tenant.py PORT [PART OF A NAME]    # until SIGTERM

A process of its own, so that what it takes to attack is not in the times that honest clients measure. At the end it prints how
often each attack had which answer.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

import aiohttp
from hostile_upstream import BEHAVIOURS, MISSING_FILE

MOST_AT_ONCE = 20  # of one attack: those that would be more are not sent
HUGE_MB = 8
REPORTS = 50  # in one request, all about one decision
PATIENCE_S = 20.0
CHAT = "/v1/chat/completions"


@dataclass
class Attacker:
    """Sends all attacks until it is cancelled, and counts what came back."""

    port: int
    key: str
    attacks: tuple[Attack, ...]
    statuses: dict[str, Counter[str]] = field(default_factory=dict)
    numbers: itertools.count = field(default_factory=itertools.count)
    victim: str = ""  # the decision that all reports are about

    async def run(self) -> None:
        timeout = aiohttp.ClientTimeout(total=PATIENCE_S)
        address, connector = f"http://127.0.0.1:{self.port}", aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(address, timeout=timeout, connector=connector) as session:
            self.session = session
            async with asyncio.TaskGroup() as group:
                for attack in self.attacks:
                    group.create_task(self.repeat(attack))

    async def repeat(self, attack: Attack) -> None:
        counts, running = self.statuses.setdefault(attack.name, Counter()), set()

        async def once() -> None:
            try:
                counts[str(await attack.send(self))] += 1
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                counts[type(error).__name__] += 1

        try:
            while True:
                if len(running) < MOST_AT_ONCE:
                    running.add(task := asyncio.create_task(once()))
                    task.add_done_callback(running.discard)
                await asyncio.sleep(1 / attack.per_s)
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def post(self, path: str, body: dict | bytes, **headers: str) -> int:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"authorization": f"Bearer {self.key}", "content-type": "application/json", **headers}
        async with self.session.post(path, data=data, headers=headers) as answer:
            await answer.read()
            if not self.victim and answer.status == 200:
                self.victim = answer.headers.get("x-sage-decision-id", "")
            return answer.status

    async def talk(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, body: bytes, pause_s: float
    ) -> int:
        """Sends a head and then the body, byte by byte; gives up after a while."""
        head = f"POST {CHAT} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {self.key}\r\n"
        writer.write(f"{head}content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n".encode())
        for byte in body[: int(PATIENCE_S / pause_s)]:
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(pause_s)
            if reader.at_eof():
                break
        return 0


class Attack(NamedTuple):
    """One kind of request, and how often it is sent."""

    name: str
    per_s: float
    send: Callable[[Attacker], Awaitable[int]]


def chat(text: str, **fields: object) -> dict:
    return {"model": "sage", "messages": [{"role": "user", "content": text}], **fields}


HUGE = json.dumps(chat("x" * (HUGE_MB << 20))).encode()
DEEP = b'{"messages": ' + b"[" * 100_000
MANY = json.dumps(chat("hello") | {"messages": [{"role": "user", "content": "hi"}] * 20_000}).encode()


async def missing_file(own: Attacker) -> int:
    return await own.post(CHAT, chat(MISSING_FILE.decode()))


async def unknown_model(own: Attacker) -> int:
    return await own.post(CHAT, chat("hello") | {"model": "nobody"}, **{"x-sage-pin": "1"})


async def count_tokens(own: Attacker) -> int:
    return await own.post("/v1/messages/count_tokens", chat("hello"))


async def reports(own: Attacker) -> int:
    """Different every time: equal ones would be told apart at once."""
    if not own.victim:
        return await new_session(own)
    told = [{"decision_id": own.victim, "latency_s": float(next(own.numbers)), "correct": True} for _ in range(REPORTS)]
    return await own.post("/v1/outcomes", {"outcomes": told})


async def bad_outcomes(own: Attacker) -> int:
    values = ("NaN", -1e308, "1" * 1000, [[]] * 50, {"a": None}, 10**400)
    told = {"decision_id": own.victim or "none", "quality": values[next(own.numbers) % len(values)]}
    return await own.post("/v1/outcomes", told)


async def huge_body(own: Attacker) -> int:
    return await own.post(CHAT, HUGE)


async def deep_body(own: Attacker) -> int:
    return await own.post(CHAT, DEEP)


async def many_messages(own: Attacker) -> int:
    return await own.post(CHAT, MANY)


async def slow_body(own: Attacker) -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", own.port)
    try:
        return await own.talk(reader, writer, json.dumps(chat("slow " * 100)).encode(), 0.5)
    finally:
        writer.close()


async def aborted_stream(own: Attacker) -> int:
    headers = {"authorization": f"Bearer {own.key}"}
    async with own.session.post(CHAT, json=chat("hello", stream=True), headers=headers) as answer:
        await answer.content.readany()
        answer.close()
        return answer.status


async def bad_json(own: Attacker) -> int:
    return await own.post(CHAT, b'{"messages": [{"role": "user", "content": "\xff')


async def new_session(own: Attacker) -> int:
    number = next(own.numbers)
    return await own.post(
        CHAT, chat(f"hello {number}"), **{"x-session-id": f"s{number}", "x-sage-task-id": f"t{number}"}
    )


async def wrong_key(own: Attacker) -> int:
    return await own.post(CHAT, chat("hello"), authorization=f"Bearer sk-{next(own.numbers):040d}")


async def strange_model(own: Attacker) -> int:
    """The hostile upstream in turn with each of its behaviours, pinned or with a fallback to an honest model."""
    number = next(own.numbers)
    body = chat(f"{BEHAVIOURS[number % len(BEHAVIOURS)]} please", stream=number % 3 == 0) | {"model": "strange"}
    return await own.post(CHAT, body, **({"x-sage-pin": "1"} if number % 2 else {"x-sage-role": "debugger"}))


ATTACKS = (
    Attack("requests that an upstream answers with 404", 5.0, missing_file),
    Attack("models that do not exist", 5.0, unknown_model),
    Attack("count_tokens to an upstream without it", 2.0, count_tokens),
    Attack(f"{REPORTS} reports about one decision", 2.0, reports),
    Attack("bad values in outcomes", 5.0, bad_outcomes),
    Attack(f"bodies of {HUGE_MB} MB", 0.2, huge_body),
    Attack("requests of 20,000 messages", 0.2, many_messages),
    Attack("deeply nested bodies", 1.0, deep_body),
    Attack("bodies that come byte by byte", 1.0, slow_body),
    Attack("streams that are left", 5.0, aborted_stream),
    Attack("bodies that are not JSON", 5.0, bad_json),
    Attack("a new session every time", 5.0, new_session),
    Attack("wrong keys", 5.0, wrong_key),
    Attack("calls of the hostile upstream", 3.0, strange_model),
)


async def main(port: int, part: str) -> None:
    attacker = Attacker(port, os.environ["HOSTILE_KEY"], tuple(attack for attack in ATTACKS if part in attack.name))
    attack = asyncio.create_task(attacker.run())
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, attack.cancel)
    with suppress(asyncio.CancelledError):
        await attack
    print(json.dumps(attacker.statuses))


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else ""))
