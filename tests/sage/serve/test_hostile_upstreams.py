"""Upstreams that would hurt others: answers without end, streams of pings, false counts and headers."""

from __future__ import annotations

import json
import random
import socket
import zlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from sage.log.budget_settings import TenantBudget
from sage.log.records import Outcome
from sage.orchestrator.models_file import Model
from sage.serve.access.keys import KeyFile
from sage.upstream.accounting import MOST_CONTEXT, bounded_usage
from sage.upstream.dialects import BY_NAME
from sage.upstream.dialects.dialect import Usage
from sage.upstream.dialects.messages import VERSION
from sage.upstream.sse import EventParser
from tests.sage.serve.answers import (
    BODIES,
    CHAT,
    CHAT_STREAM,
    MESSAGE,
    MESSAGES_STREAM,
    PATHS,
    RESPONSES_STREAM,
    STREAMS,
    USAGE,
    chunk,
    data,
    event,
    table,
)
from tests.sage.serve.hostile import ask, metrics_of, on_demand, with_keys, word_of
from tests.sage.serve.scripted import EVENTS, Reply, call, proxy, stream, whole


def packed(text: bytes, bits: int = 31) -> bytes:
    squeezed = zlib.compressobj(9, zlib.DEFLATED, bits)
    return squeezed.compress(text) + squeezed.flush()


def small_limits(url: str) -> str:
    limits = "max_answer_bytes: 4000, max_compressed_bytes: 400, max_stream_bytes: 9000, first_byte_s: 60"
    return table(url, serve="{retries: 0, breaker_failures: 1000}", timeouts=limits)


ANSWER = json.dumps(CHAT).encode()
BOMB = b'{"choices": [1], "x": "' + b"a" * 100_000 + b'"}'
NOISE = ANSWER[:-1] + b', "x": "' + random.Random(0).randbytes(600).hex().encode() + b'"}'
CODED: dict[
    str, tuple[bytes, str]
] = {  # a body and its content-encoding, by the sentence about it; empty if it is read
    "": (packed(ANSWER), "gzip"),
    "-": (packed(ANSWER, 15), "deflate"),
    "--": (packed(ANSWER, -15), "Deflate"),
    "---": (ANSWER, "identity"),
    "more than 4000 bytes (models.second.upstream.max_answer_bytes)": (packed(BOMB), "gzip"),
    "an answer of more than 4000 bytes (models.second": (BOMB, ""),
    "more than 400 compressed bytes (models.second.upstream.max_compressed_bytes)": (packed(NOISE), "gzip"),
    "content-encoding 'br'": (ANSWER, "br"),
    "content-encoding 'gzip, gzip'": (packed(packed(ANSWER)), "gzip, gzip"),
    "a compressed answer that is not complete": (packed(ANSWER)[:-9], "gzip"),
    "goes on after the end": (packed(ANSWER) + b"more", "gzip"),
    "not gzip, as it claims": (ANSWER, "gzip"),
    "JSON of more than 1000000 lists": (b'{"choices": [' + b"[]," * 1_000_000 + b"1]}", ""),
    "is not JSON": (b'{"choices": [1], "usage": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", ""),
    "is  not JSON": (b'{"choices": [1], "usage": {"prompt_tokens": ' + b"9" * 5000 + b"}}", ""),
}


def coded(body: bytes, encoding: str, status: int = 200) -> Reply:
    return Reply((body,), status, headers={"content-encoding": encoding} if encoding else {})


def test_whole_answers_and_errors_have_limits(tmp_path: Path) -> None:
    replies = {word: coded(*given) for word, given in CODED.items() if "JSON" not in word}
    replies |= {f"{word} 400": coded(*given, status=400) for word, given in CODED.items() if "JSON" not in word}
    with proxy(tmp_path, on_demand(replies), small_limits) as served:
        for word in replies:
            streams = {"stream": True} if word.endswith("400") else {}  # errors come to both in the same way
            body = BODIES["chat"] | {"messages": [{"role": "user", "content": word}]} | streams
            status, _, answer = call(served, PATHS["chat"], body)
            sentence = word.removesuffix(" 400").strip("-")
            if not sentence:
                assert (status, answer) == (400 if streams else 200, ANSWER)
            else:
                assert status == (400 if streams else 502), word
                named = sentence.replace("second", "first") if streams else sentence  # a refusal asks nobody else
                assert named in json.loads(answer)["error"]["message"]


def test_json_that_takes_much_memory_or_many_levels_is_an_upstream_error(tmp_path: Path) -> None:
    replies = {word: coded(*given) for word, given in CODED.items() if "JSON" in word}
    deep = b'{"error": ' + b"[" * 900 + b"]" * 900 + b"}"
    replies |= {"gave": Reply((deep,)), "second: ": stream(b"data: " + deep + b"\n\n")}
    with proxy(
        tmp_path, on_demand(replies), lambda url: table(url, serve="{retries: 0, breaker_failures: 99}")
    ) as served:
        for word, reply in replies.items():
            streams = {"stream": True} if reply.content_type != "application/json" else {}
            body = BODIES["chat"] | {"messages": [{"role": "user", "content": word}]} | streams
            status, _, answer = call(served, PATHS["chat"], body)
            assert status == 502
            assert word.replace("  ", " ") in json.loads(answer)["error"]["message"]


PING, NOTE = event({"type": "ping"}), b": still here\n\n"
MANY = 200  # so many that nobody waits for the last one
WITHOUT_CONTENT: dict[str, tuple[str, tuple[bytes, ...], bytes]] = {  # dialect, what begins, what is then repeated
    "pings": ("messages", MESSAGES_STREAM[:1], PING),
    "comments": ("chat", (), NOTE),
    "empty-pieces": ("chat", (), chunk({"role": "assistant", "content": ""})),
    "single-bytes": ("chat", (), b"d"),
    "progress": ("responses", RESPONSES_STREAM[:2], RESPONSES_STREAM[1]),
    "pings-after-content": ("messages", MESSAGES_STREAM[:4], PING),
    "comments-after-content": ("chat", CHAT_STREAM[:2], NOTE),
    "bytes-after-content": ("responses", RESPONSES_STREAM[:4], b"d"),
}


def test_a_stream_without_content_is_given_up(tmp_path: Path) -> None:
    replies = {
        word: stream(*begin, *(part for _ in range(MANY) for part in (0.02, again)))
        for word, (_, begin, again) in WITHOUT_CONTENT.items()
    }
    impatient = lambda url: table(url, timeouts="first_content_s: 0.4, content_gap_s: 0.4, first_byte_s: 60")  # noqa: E731

    def answered(word: str) -> tuple[int, bytes]:
        dialect = WITHOUT_CONTENT[word][0]
        asks = {"input": word} if dialect == "responses" else {"messages": [{"role": "user", "content": word}]}
        body = BODIES[dialect] | asks | {"stream": True, "model": "first"}
        status, _, answer = call(served, PATHS[dialect], body, x_sage_pin="1")
        return status, answer

    script = lambda asked: replies[asked.values["input"] if "input" in asked.values else word_of(asked)]  # noqa: E731
    with proxy(tmp_path, script, impatient) as served, ThreadPoolExecutor(len(replies)) as together:
        answers = dict(zip(replies, together.map(answered, replies), strict=True))
        rows = served.logged()
    for word, (status, answer) in answers.items():
        setting = "content_gap_s" if "after" in word else "first_content_s"
        assert status == (200 if "after" in word else 502), word
        assert f"no content for 0.4 s (models.first.upstream.{setting})".encode() in answer
    assert all(outcome is not None and outcome.timed_out for _, outcome in rows)


@pytest.mark.parametrize(
    ("dialect", "events", "contents"),
    [
        ("chat", (chunk({"role": "assistant"}), chunk({"content": ""}), NOTE), 0),
        ("chat", (chunk({"reasoning_content": "a"}), chunk({"reasoning": "b"}), chunk({}, "stop"), USAGE), 3),
        ("messages", (*MESSAGES_STREAM[:3],), 0),
        ("messages", (event({"type": "content_block_delta", "delta": {"type": "text_delta", "text": ""}}),), 0),
        (
            "messages",
            (event({"type": "content_block_delta", "delta": {"type": "thinking_delta", "thinking": "a"}}),),
            1,
        ),
        ("responses", (*RESPONSES_STREAM[:2], event({"type": "keepalive"}), event({"type": "response.queued"})), 0),
        ("responses", (event({"type": "response.output_text.delta", "delta": ""}),), 0),
        ("responses", (event({"type": "response.reasoning_summary_text.delta", "delta": "a"}), RESPONSES_STREAM[3]), 2),
    ],
)
def test_thinking_is_content_and_signs_of_life_are_none(dialect: str, events: tuple[bytes, ...], contents: int) -> None:
    reader = BY_NAME[dialect].reader({"stream": True})
    for found in EventParser().feed(b"".join(events)):
        reader.read(found)
    assert reader.contents == contents


def test_streams_have_limits(tmp_path: Path) -> None:
    many = (CHAT_STREAM[1] * 20,) * 10
    replies = {
        "long": stream(*many),
        "packed": Reply((packed(b"".join(many)),), content_type=EVENTS, headers={"content-encoding": "gzip"}),
        "one-event": stream(b"data: ", *(b"x" * 5000,) * 3),
        "read": Reply((packed(b"".join(CHAT_STREAM)),), content_type=EVENTS, headers={"content-encoding": "gzip"}),
    }
    with proxy(tmp_path, on_demand(replies), small_limits) as served:
        found = {}
        for word in replies:
            body = BODIES["chat"] | {"messages": [{"role": "user", "content": word}], "stream": True}
            found[word] = call(served, PATHS["chat"], body)
    for word in ("long", "packed", "one-event"):
        assert b".upstream.max_stream_bytes)" in found[word][2]
        assert len(found[word][2]) < 10_000  # whether or not some of it had come before
    assert found["read"][2] == b"".join(part for part in CHAT_STREAM if part != USAGE)


def chat_usage(**usage: object) -> Reply:
    return whole(CHAT | {"usage": usage})


LIES: dict[str, tuple[Reply, tuple[int | None, int | None, int | None], str]] = {  # tokens in, cached, out
    "honest": (chat_usage(prompt_tokens=1000, completion_tokens=50), (1000, 0, 50), ""),
    "whole-floats": (chat_usage(prompt_tokens=1000.0, completion_tokens=50), (1000, 0, 50), ""),
    "huge": (
        chat_usage(prompt_tokens=10**30, completion_tokens=10**30),
        (8000, 0, 50),
        "tokens_in was reported as 1e+15",
    ),
    "long": (
        chat_usage(prompt_tokens=10, completion_tokens=51),
        (10, 0, 50),
        "tokens_out was reported as 51 and can be 50",
    ),
    "cached": (
        chat_usage(prompt_tokens=10, completion_tokens=5, prompt_tokens_details={"cached_tokens": 11}),
        (10, 10, 5),
        "tokens_cached was reported as 11 and can be 10 at most",
    ),
    "negative": (chat_usage(prompt_tokens=-5, completion_tokens=5), (None, None, None), "not whole numbers"),
    "text": (chat_usage(prompt_tokens="1000", completion_tokens=5), (None, None, None), "not whole numbers"),
    "true": (chat_usage(prompt_tokens=True, completion_tokens=5), (None, None, None), "not whole numbers"),
    "part": (chat_usage(prompt_tokens=10, completion_tokens=0.5), (None, None, None), "not whole numbers"),
    "nan": (chat_usage(prompt_tokens=float("nan"), completion_tokens=5), (None, None, None), "not whole numbers"),
    "nothing": (chat_usage(), (None, None, None), ""),
    "null": (chat_usage(prompt_tokens=None), (None, None, None), ""),
}


def test_tokens_that_cannot_be_are_bounded_and_marked(tmp_path: Path) -> None:
    limited = lambda url: table(url).replace("10, output", "10, max_context: 8000, output")  # noqa: E731
    replies = {word: reply for word, (reply, _, _) in LIES.items()}
    access, keys = with_keys(tmp_path, ["ada"])
    KeyFile(tmp_path / "keys.json").set_budget("ada", TenantBudget(usd=1e6))
    with proxy(tmp_path, on_demand(replies), limited, access=access) as served:
        for word in LIES:
            assert ask(served, keys["ada"], word, max_tokens=50) == 200
        metrics = metrics_of(served, keys["metrics"])
        rows = served.logged()
    for word, (decision, outcome) in zip(LIES, rows, strict=True):
        assert outcome is not None
        _, tokens, problem = LIES[word]
        assert (outcome.tokens_in, outcome.tokens_cached, outcome.tokens_out) == tokens, word
        assert problem in outcome.usage_problem
        assert bool(problem) == bool(outcome.usage_problem), word
        if tokens[0] is None:
            assert outcome.cost_usd is None  # a budget counts what was reserved
        else:
            assert 0 < outcome.cost_usd <= (8000 * 10 + 50 * 100) / 1e6
        assert Outcome.from_json(outcome.to_json()) == outcome
        assert decision.expected_cost_usd > 0
    assert 'sage_usage_problems_total{model="first"} ' in metrics


@pytest.mark.parametrize("dialect", ["chat", "responses", "messages"])
def test_a_stream_cannot_report_more_tokens_than_there_can_be(tmp_path: Path, dialect: str) -> None:
    lies = (part.replace(b'_tokens": 100', b'_tokens": 1' + b"0" * 30) for part in STREAMS[dialect])
    with proxy(tmp_path, lambda _: stream(*lies), table) as served:
        limit = {"chat": "max_completion_tokens", "responses": "max_output_tokens", "messages": "max_tokens"}[dialect]
        call(served, PATHS[dialect], BODIES[dialect] | {"stream": True, limit: 70})
        ((_, outcome),) = served.logged()
    assert outcome is not None
    assert (outcome.tokens_out, outcome.usage_problem != "") == (70, True)
    assert outcome.cost_usd is not None
    assert outcome.cost_usd <= (MOST_CONTEXT * 20 + 70 * 100) / 1e6


def test_embeddings_of_many_texts_have_many_contexts() -> None:
    model = Model(input_usd_per_mtok=1, output_usd_per_mtok=1, max_context=100)
    said = Usage(250, 0)
    embeddings = BY_NAME["embeddings"]
    assert bounded_usage(said, model, embeddings, {"input": ["a", "b", "c"]}) == said
    found = [bounded_usage(said, model, embeddings, {"input": given}) for given in ("a", [1, 2, 3], ["a"])]
    assert {usage.tokens_in for usage in found if usage is not None} == {100}


SPOKEN_TO_BROWSERS = (
    "access-control-allow-origin",
    "access-control-allow-credentials",
    "alt-svc",
    "clear-site-data",
    "content-disposition",
    "content-security-policy",
    "cross-origin-opener-policy",
    "link",
    "location",
    "nel",
    "permissions-policy",
    "public-key-pins",
    "refresh",
    "report-to",
    "reporting-endpoints",
    "server",
    "service-worker-allowed",
    "set-cookie",
    "set-cookie2",
    "sourcemap",
    "speculation-rules",
    "strict-transport-security",
    "www-authenticate",
    "x-accel-redirect",
    "x-frame-options",
    "x-sage-model",
    "x-sendfile",
)
READ_BY_CLIENTS = (
    "anthropic-ratelimit-requests-remaining",
    "cf-ray",
    "openai-processing-ms",
    "openai-version",
    "request-id",
    "retry-after-ms",
    "x-groq-region",
    "x-ratelimit-remaining-tokens",
    "x-request-id",
)


@pytest.mark.parametrize("status", [200, 400])
@pytest.mark.parametrize("streams", [False, True])
def test_an_upstream_does_not_speak_for_sage(tmp_path: Path, status: int, streams: bool) -> None:
    given = dict.fromkeys((*SPOKEN_TO_BROWSERS, *READ_BY_CLIENTS), "of-the-upstream")
    given |= {"connection": "keep-alive, X-Hop", "Connection": "x-other", "x-hop": "1", "x-other": "1"}
    good = stream(*CHAT_STREAM) if streams and status == 200 else whole(CHAT, status)
    kind = good.content_type if streams and status == 200 else "text/html"
    reply = replace(good, headers=given, content_type=kind)
    with proxy(tmp_path, lambda _: reply, table) as served:
        found, headers, _ = call(served, PATHS["chat"], BODIES["chat"] | {"stream": streams})
    assert (found, headers.pop("x-sage-model")) == (status, "first")
    assert {name for name, value in headers.items() if value == "of-the-upstream"} == set(READ_BY_CLIENTS)
    assert not {"x-hop", "x-other"} & headers.keys()
    assert "html" not in headers["content-type"]


def test_headers_for_one_connection_are_not_forwarded(tmp_path: Path) -> None:
    body = json.dumps(BODIES["messages"]).encode()
    lines = (
        "host: 127.0.0.1",
        "connection: close, X-Hop",
        "connection: x-other, anthropic-version",
        "x-hop: 1",
        "x-other: 1",
        "proxy-connection: keep-alive",
        "x-forwarded-port: 1",
        "anthropic-beta: one",
        "anthropic-beta: two",
        f"content-length: {len(body)}",
    )
    head = f"POST {PATHS['messages']} HTTP/1.1\r\n" + "".join(f"{line}\r\n" for line in lines) + "\r\n"
    with (
        proxy(tmp_path, lambda _: whole(MESSAGE), table) as served,
        socket.create_connection(("127.0.0.1", served.port)) as client,
    ):
        client.sendall(head.encode() + body)
        assert client.recv(100).startswith(b"HTTP/1.1 200")
    (asked,) = served.upstream.asked
    assert not {"x-hop", "x-other", "proxy-connection", "x-forwarded-port"} & asked.headers.keys()
    assert asked.headers["anthropic-beta"] == "one, two"
    assert asked.headers["anthropic-version"] == VERSION


SECRET = "the prompt that an upstream repeats, and upstream-key"
UNANSWERED = {
    "404": (whole({"error": {"message": SECRET}}, 404), 502),
    "500": (whole({"error": {"message": SECRET}}, 500), 500),
    "502-says": (whole({"error": {"message": SECRET}}), 502),
    "502-nonsense": (Reply((SECRET.encode(),)), 502),
    "503": (whole({"error": {"message": SECRET}}, 503), 503),
    "stream-says": (stream(data({"error": {"message": SECRET}})), 502),
    "stream-nonsense": (stream(f"data: {SECRET}\n\n".encode()), 502),
}


def test_every_answer_of_sage_that_is_a_failure_has_one_line_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    replies = {word: reply for word, (reply, _) in UNANSWERED.items()}
    calm = lambda url: table(url, serve="{retries: 0, breaker_failures: 6}")  # noqa: E731
    with proxy(tmp_path, on_demand(replies), calm) as served:
        for word, (reply, status) in UNANSWERED.items():
            caplog.clear()
            streams = {"stream": True} if reply.content_type == EVENTS else {}
            body = BODIES["chat"] | {"messages": [{"role": "user", "content": word}]} | streams
            found, _, answer = call(served, PATHS["chat"], body)
            said = [line for line in caplog.messages if " is not asked at " not in line]
            assert (found, len(said)) == (status, 1), word
            assert said[0].startswith(f"{status} at /chat/completions for the tenant default: "), said
            assert "upstream-key" not in answer.decode()
            assert not any("prompt" in line or "upstream-key" in line for line in caplog.messages)
        caplog.clear()
        assert ask(served, "") == 503  # as both models are left alone now
    assert caplog.messages == [
        "503 at /chat/completions for the tenant default: all upstreams have failed: try again later"
    ]
