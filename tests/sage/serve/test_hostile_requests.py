"""Requests that nobody means, made by chance: the server answers each with a sentence or hangs up, and serves on."""

from __future__ import annotations

import json
import random
import selectors
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sage.serve.feedback.feedback import REPORT_FIELDS
from tests.sage.serve.answers import BODIES, CHAT, PATHS, table
from tests.sage.serve.attacked import CHAT_PATH, OK, Server, attacked, check_says_nothing, request, status
from tests.sage.serve.scripted import Proxy, call, proxy, whole

SPECIAL = (b"\r", b"\n", b"\r\n", b"\x00", b":", b" ", b"\t", b",", b"\xff", b"%00", b"0", b"\r\n\r\n")
ODD = (
    *(None, True, 0, -1, 1.5, 10**400, "", "x", "\ud800", [], {}, [None], [[]], [{}], {"a": None}),
    *(
        [{"role": "user"}],
        [{"role": None, "content": {}}],
        [{"role": "user", "content": [None, {"type": "text", "text": 5}]}],
    ),
    *([{"role": "assistant", "tool_calls": [{"function": 5}]}], {"include_usage": 5}),
)
FIELDS = {
    "chat": (
        "model",
        "messages",
        "stream",
        "stream_options",
        "max_tokens",
        "max_completion_tokens",
        "n",
        "prompt_cache_key",
    ),
    "messages": ("model", "messages", "stream", "max_tokens", "system", "tools", "metadata"),
    "responses": ("model", "input", "stream", "max_output_tokens", "instructions", "previous_response_id"),
}


@pytest.fixture(scope="module")
def at(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with attacked(tmp_path_factory.mktemp("hostile")) as server:
        yield server


def mutated(rng: random.Random, sent: bytes) -> bytes:
    """With one to four small changes."""
    for _ in range(rng.randint(1, 4)):
        at, to = sorted((rng.randrange(len(sent)), rng.randrange(len(sent))))
        piece = sent[at : min(to, at + 40)]
        sent = (
            rng.choice(
                (
                    sent[:at] + sent[at + len(piece) :],
                    sent[:at] + piece + sent[at:],
                    sent[:at] + rng.choice(SPECIAL) + sent[at:],
                    sent[:at] + bytes([rng.randrange(256)]) + sent[at + 1 :],
                )
            )
            or b"x"
        )
    return sent


def all_answers(at: Server, requests: list[bytes]) -> list[bytes]:
    """Sends all at once, and waits until every connection is closed, or has had an answer; 5 s at most."""
    sockets = [socket.create_connection(("127.0.0.1", at.port), timeout=10) for _ in requests]
    answers: dict[socket.socket, bytes] = dict.fromkeys(sockets, b"")
    for connection, sent in zip(sockets, requests, strict=True):
        connection.sendall(sent)
    waiting, end = selectors.DefaultSelector(), time.monotonic() + 5
    for connection in sockets:
        waiting.register(connection, selectors.EVENT_READ)
    while waiting.get_map() and time.monotonic() < end:
        for key, _ in waiting.select(1):
            connection = key.fileobj
            assert isinstance(connection, socket.socket)
            try:
                more = connection.recv(65536)
            except OSError:
                more = b""
            answers[connection] += more
            if not more or b"\r\n\r\n" in answers[connection]:
                waiting.unregister(connection)
    left = len(waiting.get_map())
    waiting.close()
    for connection in sockets:
        connection.close()
    assert not left
    return list(answers.values())


@pytest.mark.parametrize("key", ["ada", ""])
def test_broken_requests_break_nothing(at: Server, key: str) -> None:
    rng = random.Random(0)
    good = request("POST", CHAT_PATH, OK, "x-session-id: s1", key=at.keys.get(key))
    asked = len(at.upstream.asked)
    answers = all_answers(at, [mutated(rng, good) for _ in range(300)])
    statuses = {status(answer) for answer in answers}
    assert 500 not in statuses
    assert 400 in statuses
    for answer in answers:
        check_says_nothing(at, answer)
    if not key:
        assert len(at.upstream.asked) == asked
        assert 200 not in statuses
    assert status(at.ask(CHAT_PATH, OK)) == 200


@pytest.mark.parametrize("dialect", FIELDS)
@pytest.mark.parametrize("tenant", ["ada", "bob"])  # without and with a budget
def test_odd_values_are_refused_or_passed_on(at: Server, dialect: str, tenant: str) -> None:
    for field in FIELDS[dialect]:
        for value in ODD:
            body = BODIES[dialect] | {"max_tokens": 5, "max_output_tokens": 5, field: value}
            answer = at.ask(PATHS[dialect], body, key=tenant)
            assert status(answer) in (200, 400, 402, 404, 502), (field, value, answer)  # 502: the stub speaks chat only
            check_says_nothing(at, answer)


@pytest.mark.parametrize("path", ["/v1/outcomes", "/v1/messages/count_tokens", "/v1/embeddings"])
def test_odd_bodies_are_refused(at: Server, path: str) -> None:
    for value in ODD:
        for body in (
            value,
            {"decision_id": value, "quality": 1},
            {"outcomes": value},
            {"model": value, "input": value},
        ):
            assert status(at.ask(path, json.dumps(body).encode())) in (200, 400, 404, 502), (path, body)


@pytest.mark.parametrize("field", sorted({*REPORT_FIELDS, "name of a verdict"} - {"decision_id"}))
def test_odd_reports_are_refused(at: Server, field: str) -> None:
    made = at.decided("ada")
    for value in ODD:
        odd = {"verdicts": {str(value): True}} if field == "name of a verdict" else {field: value}
        answer = at.ask("/v1/outcomes", json.dumps({"decision_id": made} | odd).encode())
        assert status(answer) in (200, 400), (field, value)
        check_says_nothing(at, answer)
    at.logged(made)  # which can still be read


@pytest.fixture(scope="module")
def keyless(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    folder: Path = tmp_path_factory.mktemp("keyless")
    with proxy(folder, lambda _: whole(CHAT), table) as served:
        yield served


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.example"},  # a name that was bound to this address
        {"host": "127.0.0.1.evil.example:8484"},
        {"origin": "https://evil.example"},  # a page of another site
        {"origin": "null"},
        {"origin": "http://localhost.evil.example", "content_type": "text/plain"},
        {"x_forwarded_for": "192.0.2.1"},  # somebody else, through a proxy of this machine
        {"forwarded": "for=192.0.2.1"},
        {"via": "1.1 proxy"},
    ],
)
def test_without_keys_pages_and_other_machines_are_refused(keyless: Proxy, headers: dict[str, str]) -> None:
    asked = len(keyless.upstream.asked)
    assert call(keyless, PATHS["chat"], BODIES["chat"], **headers)[0] == 403
    assert call(keyless, "/v1/models", method="GET", **headers)[0] == 403
    assert call(keyless, "/v1/outcomes", {"decision_id": "x", "quality": 1}, **headers)[0] == 403
    assert len(keyless.upstream.asked) == asked
    assert call(keyless, PATHS["chat"], BODIES["chat"])[0] == 200
