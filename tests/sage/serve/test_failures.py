"""What goes wrong: before the first token another model answers, after it an honest error; the log says what happened."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.sage.serve.answers import (
    BODIES,
    CHAT,
    CHAT_STREAM,
    PATHS,
    STREAMS,
    USAGE,
    WHOLE,
    chunk,
    data,
    event,
    table,
)
from tests.sage.serve.scripted import Asked, Proxy, Reply, call, proxy, stream, wait_for, whole

ERROR = {"error": {"message": "overloaded", "type": "server_error"}}
BEFORE = {  # what an upstream can do before the first token of a stream
    "says 500": whole(ERROR, 500),
    "says 429": whole(ERROR, 429),
    "refuses our key": whole(ERROR, 401),
    "redirects": Reply(status=302, headers={"location": "http://127.0.0.1:1/"}),
    "hangs up": Reply(raw=b"HT", ends="cut"),
    "speaks no HTTP": Reply(raw=b"220 welcome\r\n\r\n", ends="cut"),
    "sends no stream": whole({"choices": []}),
    "ends at once": stream(),
    "ends after the role": stream(CHAT_STREAM[0]),
    "breaks off after the role": stream(CHAT_STREAM[0], ends="cut"),
    "stalls after the role": stream(CHAT_STREAM[0], ends="stall"),
    "says nothing": stream(ends="stall"),
    "sends no JSON": stream(b"data: {oops\n\n"),
    "sends an error": stream(data(ERROR)),
    "ends without content": stream(CHAT_STREAM[0], b"data: [DONE]\n\n"),
}
SILENT = ("stalls", "stalls after the role", "says nothing")


def table_for(name: str) -> Callable[[str], str]:
    """Only silence is waited for briefly: a busy machine is silent, too."""
    return lambda url: table(url, timeouts="first_byte_s: 0.5, stall_s: 0.5" if name in SILENT else "first_byte_s: 60")


def first_fails(reply: Reply, then: Reply) -> Callable[[Asked], Reply]:
    return lambda asked: reply if asked.values["model"] == "first-there" else then


@pytest.mark.parametrize("name", BEFORE)
def test_another_model_answers_where_a_stream_does_not_begin(tmp_path: Path, name: str) -> None:
    with proxy(tmp_path, first_fails(BEFORE[name], stream(*CHAT_STREAM)), table_for(name)) as served:
        status, headers, body = call(served, PATHS["chat"], BODIES["chat"] | {"stream": True})
        ((decision, outcome),) = served.logged()
    assert (status, headers["x-sage-model"]) == (200, "second")
    assert body == b"".join(part for part in CHAT_STREAM if part != USAGE)  # nothing of the first one
    assert outcome is not None
    assert (decision.model, outcome.model, outcome.retries) == ("first", "second", 1)
    assert (outcome.provenance, outcome.tokens_out) == ("", 100)


@pytest.mark.parametrize(
    "reply",
    [
        whole(ERROR, 503),
        whole(ERROR),
        whole({"choices": []}),
        Reply((b"{oops",)),
        Reply((b'{"choices": [1]}',), ends="cut"),
        Reply((b'{"choices": [1]}',), ends="stall"),
    ],
)
def test_another_model_gives_the_whole_answer(tmp_path: Path, reply: Reply) -> None:
    short = lambda url: table(url, timeouts=f"timeout_s: {0.5 if reply.ends == 'stall' else 60}")  # noqa: E731
    with proxy(tmp_path, first_fails(reply, whole(CHAT)), short) as served:
        status, headers, body = call(served, PATHS["chat"], BODIES["chat"])
    assert (status, headers["x-sage-model"], json.loads(body)) == (200, "second", CHAT)


AFTER = {  # what can happen once a token is out
    "ends": ("end", b""),
    "breaks off": ("cut", b""),
    "stalls": ("stall", b""),
    "breaks off in an event": ("cut", b"data: {"),
    "ends in an event": ("end", b'data: {"choices"'),
    "sends no JSON": ("end", b"data: {oops}\n\n"),
    "sends no object": ("end", b"data: 7\n\n"),
}


@pytest.mark.parametrize("dialect", STREAMS)
@pytest.mark.parametrize("name", AFTER)
def test_a_stream_that_breaks_says_so(tmp_path: Path, dialect: str, name: str) -> None:
    ends, rest = AFTER[name]
    sent = b"".join(STREAMS[dialect][: 4 if dialect != "chat" else 2])
    with proxy(tmp_path, lambda _: stream(sent + rest, ends=ends), table_for(name)) as served:
        status, _, body = call(served, PATHS[dialect], BODIES[dialect] | {"stream": True})
        ((_, outcome),) = served.logged()
    assert status == 200
    assert body.startswith(sent)
    assert in_band_error(dialect, body[len(sent) :]).startswith("first: ")
    assert len(served.upstream.asked) == 1  # nobody else was asked
    assert outcome is not None
    timed_out = name == "stalls"
    assert (outcome.provenance, outcome.timed_out) == ("proxy: the stream broke", timed_out)
    assert outcome.quality == (None if timed_out else 0.0)


def in_band_error(dialect: str, rest: bytes) -> str:
    """The sentence of the error that is all the rest of a stream."""
    name, separator, text = rest.partition(b"data: ")
    values = json.loads(text)
    assert (separator, text[-2:], text.count(b"\n\n")) == (b"data: ", b"\n\n", 1)
    if dialect == "chat":
        assert name == b""
        return values["error"]["message"]
    if dialect == "messages":
        assert (name, values["type"], values["error"]["type"]) == (b"event: error\n", "error", "api_error")
        return values["error"]["message"]
    assert (name, values["type"]) == (b"event: response.failed\n", "response.failed")
    assert (values["response"]["id"], values["response"]["status"]) == ("r1", "failed")
    assert values["sequence_number"] == 4
    return values["response"]["error"]["message"]


@pytest.mark.parametrize(
    ("dialect", "error"),
    [
        ("chat", data(ERROR)),
        ("messages", event({"type": "error", "error": {"type": "overloaded_error", "message": "overloaded"}})),
        (
            "responses",
            event({"type": "response.failed", "response": {"status": "failed", "error": {"message": "overloaded"}}}),
        ),
    ],
)
def test_an_error_of_the_upstream_inside_of_a_stream_passes_unchanged(
    tmp_path: Path, dialect: str, error: bytes
) -> None:
    sent = b"".join(STREAMS[dialect][:4])
    with proxy(tmp_path, lambda _: stream(sent + error + STREAMS[dialect][-1]), table) as served:
        _, _, body = call(served, PATHS[dialect], BODIES[dialect] | {"stream": True})
        ((_, outcome),) = served.logged()
    assert body == sent + error  # and nothing after it, such as an end
    assert outcome is not None
    assert (outcome.provenance, outcome.quality) == ("proxy: the stream broke", 0.0)


@pytest.mark.parametrize("dialect", WHOLE)
def test_where_nobody_answers_the_last_upstream_speaks(tmp_path: Path, dialect: str) -> None:
    with proxy(tmp_path, lambda _: whole(ERROR, 503, retry_after="9"), table) as served:
        status, headers, body = call(served, PATHS[dialect], BODIES[dialect])
        ((decision, outcome),) = served.logged()
    assert (status, json.loads(body)) == (503, ERROR)
    assert (headers["x-should-retry"], headers["retry-after"]) == ("false", "9")
    assert headers["x-sage-decision-id"] == decision.id
    assert outcome is not None
    assert (outcome.quality, outcome.cost_usd, outcome.retries) == (0.0, 0.0, 1)
    assert outcome.provenance == "proxy: no model answered"


def test_where_nobody_can_be_reached_sage_says_so_in_the_dialect(tmp_path: Path) -> None:
    with proxy(tmp_path, lambda _: Reply(raw=b"H", ends="cut"), table) as served:
        status, _, body = call(served, PATHS["messages"], BODIES["messages"])
    values = json.loads(body)
    assert (status, values["type"], values["error"]["type"]) == (502, "error", "api_error")
    assert values["error"]["message"].startswith("second could not be reached")


def test_a_request_that_is_wrong_is_not_sent_to_others(tmp_path: Path) -> None:
    wrong = {"error": {"message": "max_tokens is too large", "type": "invalid_request_error"}}
    with proxy(tmp_path, lambda _: whole(wrong, 400), table) as served:
        status, _, body = call(served, PATHS["chat"], BODIES["chat"])
        ((_, outcome),) = served.logged()
    assert (status, json.loads(body), len(served.upstream.asked)) == (400, wrong, 1)
    assert outcome is not None
    assert (outcome.quality, outcome.provenance) == (None, "proxy: the upstream refused the request")


def asked_models(served: Proxy) -> list[str]:
    return [asked.values["model"].removesuffix("-there") for asked in served.upstream.asked]


@pytest.mark.parametrize(
    ("wait", "asked"),
    [("0.01", ["first", "first", "first", "second"]), ("60", ["first", "second"])],
)
def test_retries_wait_as_asked_or_go_elsewhere(tmp_path: Path, wait: str, asked: list[str]) -> None:
    limited = whole(ERROR, 429, retry_after=wait)
    twice = lambda url: table(url, serve="{retries: 2, max_retry_after_s: 1}")  # noqa: E731
    with proxy(tmp_path, first_fails(limited, whole(CHAT)), twice) as served:
        assert call(served, PATHS["chat"], BODIES["chat"])[0] == 200
        ((_, outcome),) = served.logged()
    assert asked_models(served) == asked
    assert outcome is not None
    assert outcome.retries == len(asked) - 1


def test_an_upstream_that_keeps_failing_is_left_alone(tmp_path: Path) -> None:
    breaker = lambda url: table(url, serve="{retries: 0, breaker_failures: 2}")  # noqa: E731
    with proxy(tmp_path, first_fails(whole(ERROR, 500), whole(CHAT)), breaker) as served:
        models = [call(served, PATHS["chat"], BODIES["chat"])[1]["x-sage-model"] for _ in range(4)]
        metrics = call(served, "/metrics", method="GET")[2].decode()
        rows = served.logged()
    assert models == ["second"] * 4
    assert asked_models(served) == ["first", "second", "first", "second", "second", "second"]
    assert [decision.candidates for decision, _ in rows][1:3] == [("first", "second"), ("second",)]  # the log is true
    assert 'sage_breaker_open{model="first",endpoint="/chat/completions"} ' in metrics


def test_where_all_upstreams_fail_clients_are_told_when_to_come_back(tmp_path: Path) -> None:
    breaker = lambda url: table(url, serve="{retries: 0, breaker_failures: 1, breaker_s: 20}")  # noqa: E731
    with proxy(tmp_path, lambda _: whole(ERROR, 500), breaker) as served:
        assert call(served, PATHS["chat"], BODIES["chat"])[0] == 500
        status, headers, _ = call(served, PATHS["chat"], BODIES["chat"])
        assert len(served.logged()) == 1  # nothing was decided
    assert (status, headers["retry-after"], len(served.upstream.asked)) == (503, "20", 2)


@pytest.mark.parametrize("when", ["before the first token", "in the stream"])
def test_a_client_that_leaves_stops_the_upstream_and_is_censored(tmp_path: Path, when: str) -> None:
    sent = CHAT_STREAM[: 1 if when == "before the first token" else 2]
    with proxy(tmp_path, lambda _: stream(*sent, ends="stall"), table) as served:
        client = socket.create_connection(("127.0.0.1", served.port))
        body = json.dumps(BODIES["chat"] | {"stream": True}).encode()
        head = f"POST {PATHS['chat']} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {len(body)}\r\n\r\n"
        client.sendall(head.encode() + body)
        if when == "in the stream":
            assert client.recv(100).startswith(b"HTTP/1.1 200")
        wait_for(lambda: served.upstream.asked)
        client.close()
        wait_for(lambda: served.upstream.lost)
        ((_, outcome),) = served.logged()
    assert outcome is not None
    assert (outcome.timed_out, outcome.quality, outcome.provenance) == (True, None, "proxy: the client left")
    assert asked_models(served) == ["first"]


def test_content_arrives_before_the_stream_ends(tmp_path: Path) -> None:
    with proxy(tmp_path, lambda _: stream(*CHAT_STREAM[:2], 0.5, *CHAT_STREAM[2:]), table) as served:
        client = socket.create_connection(("127.0.0.1", served.port))
        body = json.dumps(BODIES["chat"] | {"stream": True}).encode()
        head = f"POST {PATHS['chat']} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {len(body)}\r\n\r\n"
        client.sendall(head.encode() + body)
        first = client.recv(65536)
        while b"Hel" not in first:
            first += client.recv(65536)
        assert b'"lo"' not in first
        client.close()


def test_a_session_stays_with_its_model(tmp_path: Path) -> None:
    """The cache of 10,000 tokens is worth .09 USD; exploration would go elsewhere half of the time."""
    answer = CHAT | {"usage": {"prompt_tokens": 100_000, "completion_tokens": 100}}
    explores = lambda url: table(url, serve="{affinity_usd: 0.001}", more="exploration: 1.0\n")  # noqa: E731
    body = BODIES["chat"] | {"messages": [{"role": "user", "content": "x" * 40_000}]}
    failing: list[str] = []
    script = lambda asked: whole(ERROR, 500) if asked.values["model"] in failing else whole(answer)  # noqa: E731
    with proxy(tmp_path, script, explores) as served:
        for turn in range(12):
            _, headers, _ = call(served, PATHS["chat"], body, session_id=f"s{turn % 2}")
        failing.append(headers["x-sage-model"] + "-there")  # of s1
        other = call(served, PATHS["chat"], body, session_id="s1")[1]["x-sage-model"]
        assert other != headers["x-sage-model"]
        call(served, PATHS["chat"], body, session_id="s1")
        rows = served.logged()
    for session in ("s0", "s1"):
        first, *later = [decision for decision, _ in rows if decision.session == session]
        assert (first.verdict, first.probabilities, first.follows) == ("ok", (0.5, 0.5), "")
        models = [first.model] * 5 if session == "s0" else [first.model] * 6 + [other]
        assert [decision.candidates for decision in later] == [(model,) for model in models]
        assert {(decision.verdict, decision.follows) for decision in later} == {("held", first.id)}
        assert "its cache is worth 0.09 USD" in later[0].reason


def test_chunks_with_several_choices_end_together(tmp_path: Path) -> None:
    two = data({"choices": [{"index": 0, "delta": {"content": "a"}}, {"index": 1, "delta": {"content": "b"}}]})
    parts = (two, chunk({}, "stop"), b"data: [DONE]\n\n")
    with proxy(tmp_path, lambda _: stream(*parts), table) as served:
        assert call(served, PATHS["chat"], BODIES["chat"] | {"stream": True})[2] == b"".join(parts)
