"""The small parts of the proxy: events, edits of bodies, the breaker and sessions, each with a clock of its own."""

from __future__ import annotations

import json
import random

import pytest

from sage.orchestrator.guard import Hold
from sage.orchestrator.upstream_settings import ServeSettings
from sage.serve.access.descriptors import Descriptors
from sage.serve.sessions import MOST_SESSIONS, SessionModel, Sessions, ids_of
from sage.upstream.body_edit import edited
from sage.upstream.breaker import MOST_KEYS, MOST_REST_S, Breakers, ModelEndpoint
from sage.upstream.dialects.chat import Chat
from sage.upstream.dialects.dialect import Dialect
from sage.upstream.dialects.embeddings import Embeddings
from sage.upstream.dialects.messages import Messages
from sage.upstream.dialects.responses import Responses
from sage.upstream.metrics import Metrics
from sage.upstream.sse import Event, EventParser, StreamError
from sage.upstream.upstreams import retry_after

STREAM = b"data: a\n\n: note\n\nevent: x\r\ndata: b\r\ndata: c\r\n\r\nid: 7\rdata:d\r\rdata: last"


def test_events_are_the_same_however_the_bytes_arrive() -> None:
    whole = EventParser().feed(STREAM)
    assert [(event.name, event.data) for event in whole] == [(b"", b"a"), (b"", b""), (b"x", b"b\nc"), (b"", b"d")]
    rng = random.Random(0)
    for _ in range(200):
        cuts = sorted(rng.sample(range(len(STREAM)), rng.randrange(1, 30)))
        parser = EventParser()
        parts = [STREAM[a:b] for a, b in zip([0, *cuts], [*cuts, len(STREAM)], strict=True)]
        events = [event for part in parts for event in parser.feed(part)]
        assert [event.data for event in events] == [event.data for event in whole]
        assert b"".join(event.raw for event in events) + parser.rest == STREAM


def test_an_event_without_an_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sage.upstream.sse.MOST_BYTES", 100)
    parser = EventParser()
    assert parser.feed(b"x" * 100) == []
    with pytest.raises(StreamError, match="more than 100 bytes"):
        parser.feed(b"x")


def test_the_usual_form_and_any_other_mean_the_same() -> None:
    assert EventParser().feed(b"data: {}\n\n") == [Event(b"data: {}\n\n", b"{}")]
    assert EventParser().feed(b"\xef\xbb\xbfdata: {}\n\n")[0].data == b"{}"


@pytest.mark.parametrize(
    "body",
    [
        '{"model": "a", "x": [1.0, 1e3, "ü"]}',
        '{ "x": {}, "model"\n:\t"a\\"b" }',
        '{"x": "\\"model\\": \\"b\\"", "model": "a"}',
        '{"tools": [{"model": {"type": "string"}}], "model": "a"}',
        '{"model": "a", "model": "b"}',
        '{"mod\\u0065l": "a", "x": {"model": "a"}}',
        '{"x": {"model": "deep"}, "model": "a"}',
        '{"model": "a", "text": "\\ud83d\\ude00 \\u001b"}',
    ],
)
@pytest.mark.parametrize("more", [{}, {"stream_options": {"include_usage": True}}])
def test_only_the_model_changes(body: str, more: dict) -> None:
    values = json.loads(body)
    assert json.loads(edited(body.encode(), values, "new/名", more)) == values | {"model": "new/名"} | more


def test_every_other_byte_stays() -> None:
    body = b'{"a": 1.10,\n "model": "x" , "b": "\xc3\xbc"}'
    assert edited(body, json.loads(body), "y", {}) == b'{"a": 1.10,\n "model": "y" , "b": "\xc3\xbc"}'
    assert edited(body, json.loads(body), "y", {"n": 1}) == b'{"n":1,"a": 1.10,\n "model": "y" , "b": "\xc3\xbc"}'


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


CHAT, EMBEDDINGS = ModelEndpoint("m", "/chat/completions"), ModelEndpoint("m", "/embeddings")


def breakers(clock: Clock, failures: int = 2, seconds: float = 30.0) -> Breakers:
    return Breakers(ServeSettings(breaker_failures=failures, breaker_s=seconds), Metrics(), clock)


def fail(found: Breakers, key: str, times: int = 1) -> None:
    for _ in range(times):
        found.failed(CHAT, key, "status 500")


def test_a_breaker_opens_tries_once_and_closes() -> None:
    clock = Clock()
    found = breakers(clock)
    fail(found, "")
    found.succeeded(CHAT, "")
    fail(found, "")
    assert found.usable(CHAT, "")  # two failures, but not in a row
    fail(found, "")
    assert (found.usable(CHAT, ""), found.wait_s(CHAT, "")) == (False, 30.0)
    assert found.usable(EMBEDDINGS, "")
    clock.now += 29.9
    assert not found.usable(CHAT, "")
    clock.now += 0.1
    assert found.usable(CHAT, "")
    found.call_started(CHAT, "")
    assert not found.usable(CHAT, "")  # one trial at a time
    fail(found, "")
    clock.now += 29.9
    assert not found.usable(CHAT, "")
    clock.now += 0.1
    found.call_started(CHAT, "")
    found.succeeded(CHAT, "")
    assert (found.usable(CHAT, ""), found.wait_s(CHAT, "")) == (True, 0.0)
    fail(found, "")
    assert found.usable(CHAT, "")


def test_a_trial_that_is_lost_does_not_keep_a_breaker_open() -> None:
    clock = Clock()
    found = breakers(clock, failures=1, seconds=10.0)
    fail(found, "")
    clock.now += 10
    found.call_started(CHAT, "")  # of a client that leaves
    clock.now += 10
    assert found.usable(CHAT, "")


def test_failures_of_one_key_are_its_own() -> None:
    clock = Clock()
    found = breakers(clock)
    fail(found, "eve", 50)
    assert [found.usable(CHAT, key) for key in ("eve", "ada", "")] == [False, True, True]
    fail(found, "ada")  # once, as happens
    assert found.usable(CHAT, "ada")
    fail(found, "bob", 2)  # while eve fails, and nobody succeeds: it is down
    assert [found.usable(CHAT, key) for key in ("eve", "ada", "bob", "new")] == [False] * 4


def test_keys_that_fail_while_others_succeed_close_nobody_out() -> None:
    clock = Clock()
    found = breakers(clock)
    for key in ("eve", "eva", "evi"):
        fail(found, key, 5)
        found.succeeded(CHAT, "ada")
    assert [found.usable(CHAT, key) for key in ("eve", "eva", "evi", "ada")] == [False, False, False, True]


def test_nobody_can_use_up_the_trials_of_others() -> None:
    clock = Clock()
    found = breakers(clock)
    fail(found, "eve", 2)
    fail(found, "bob", 2)
    clock.now += 30
    for _ in range(10):  # eve is always first
        found.call_started(CHAT, "eve")
        fail(found, "eve")
        assert found.usable(CHAT, "ada")
    found.call_started(CHAT, "ada")
    assert not found.usable(CHAT, "ada")
    fail(found, "ada")  # once is enough while it is known to be down
    assert (found.usable(CHAT, "ada"), found.usable(CHAT, "new")) == (False, True)
    found.call_started(CHAT, "new")
    found.succeeded(CHAT, "new")
    assert [found.usable(CHAT, key) for key in ("eve", "ada", "bob", "new")] == [True] * 4


def test_a_stream_that_begins_closes_a_breaker_and_opens_it_if_it_breaks_off() -> None:
    clock = Clock()
    found = breakers(clock, failures=3)
    for _ in range(2):
        found.stream_started(CHAT, "")
        fail(found, "")
    found.stream_started(CHAT, "")
    assert found.usable(CHAT, "")
    fail(found, "")  # streams that begin and break off are failures in a row
    assert not found.usable(CHAT, "")
    clock.now += 30
    found.call_started(CHAT, "")
    found.stream_started(CHAT, "")
    assert found.usable(CHAT, "")
    fail(found, "")
    assert not found.usable(CHAT, "")


def test_an_upstream_is_left_alone_as_long_as_it_asks() -> None:
    clock = Clock()
    found = breakers(clock)
    found.rest(CHAT, "eve", 60.0)
    assert (found.wait_s(CHAT, "eve"), found.rests(CHAT, "eve"), found.usable(EMBEDDINGS, "eve")) == (60, True, True)
    assert found.usable(CHAT, "ada")  # it may have been one request that was too large
    found.rest(CHAT, "ada", 5.0)
    assert (found.wait_s(CHAT, "new"), found.rests(CHAT, "new")) == (5.0, True)
    clock.now += 5
    assert [found.usable(CHAT, key) for key in ("eve", "ada", "new")] == [False, True, True]
    found.rest(CHAT, "ada", 3e7)  # a year
    assert found.wait_s(CHAT, "ada") == MOST_REST_S
    assert not any(value for _, value, _ in found.gauges())  # nothing has failed


def test_a_breaker_remembers_few_keys_and_not_for_ever() -> None:
    clock = Clock()
    found = breakers(clock, failures=1)
    for number in range(MOST_KEYS + 5):
        fail(found, str(number))
        found.succeeded(CHAT, "ada")
    assert len(found.breaker(CHAT).circuits) <= MOST_KEYS
    clock.now += 1e4
    assert [value for _, value, _ in found.gauges()] == [0.0]
    assert found.breaker(CHAT).circuits == {}


def test_an_opening_is_one_line_and_one_count(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    found = breakers(clock)
    fail(found, "eve", 7)
    assert caplog.messages == [
        "m is not asked at /chat/completions for 30 s by the key eve, as it failed 2 times in a row: status 500"
    ]
    fail(found, "ada", 7)
    assert "by everybody, as" in caplog.messages[1]
    found.succeeded(CHAT, "new")
    assert caplog.messages[2:] == ["m answers at /chat/completions again"]
    text = found.metrics.with_gauges(found.gauges()).text()
    assert 'sage_breaker_openings_total{model="m",endpoint="/chat/completions",scope="key"} 1\n' in text
    assert 'sage_breaker_openings_total{model="m",endpoint="/chat/completions",scope="all"} 1\n' in text
    assert 'sage_breaker_open{model="m",endpoint="/chat/completions"} 0\n' in text


def test_a_session_is_held_as_long_as_the_cache() -> None:
    clock = Clock()
    sessions, settings = Sessions(clock), ServeSettings(cache_s=300.0, affinity_usd=0.5)
    sessions.answered(("t", "s", "chat"), SessionModel("large", 5000, "d0"), settings)
    clock.now += 299
    assert sessions.hold(("t", "s", "chat"), 4000.0, settings) == Hold(
        model="large", cached_tokens=4000, gain_usd=0.5, follows="d0"
    )
    assert sessions.hold(("t", "s", "messages"), 4000.0, settings) is None
    clock.now += 1
    assert sessions.hold(("t", "s", "chat"), 4000.0, settings) is None
    for number in range(MOST_SESSIONS + 5):
        sessions.answered(("t", str(number), "chat"), SessionModel("small", 1, "d0"), settings)
    assert len(sessions.held) == MOST_SESSIONS


@pytest.mark.parametrize(
    ("headers", "body", "found"),
    [
        ({}, {}, ("", "")),
        ({"session-id": "codex", "thread-id": "other"}, {"prompt_cache_key": "k"}, ("codex", "codex")),
        ({"thread-id": "t"}, {}, ("t", "t")),
        ({"x-claude-code-session-id": "cc", "x-sage-task-id": "task"}, {}, ("cc", "task")),
        ({"x-session-id": "s" * 300}, {}, ("s" * 200, "s" * 200)),
        ({}, {"prompt_cache_key": "k"}, ("k", "k")),
        ({}, {"prompt_cache_key": 7}, ("", "")),
    ],
)
def test_ids_come_from_the_clients_own_headers(headers: dict, body: dict, found: tuple[str, str]) -> None:
    assert ids_of(headers, body) == found


def test_retry_after_is_understood_in_all_its_forms() -> None:
    assert retry_after({"retry-after-ms": "250"}) == 0.25
    assert retry_after({"retry-after": "1.5"}) == 1.5
    assert retry_after({"retry-after": "Thu, 01 Jan 1970 00:00:00 GMT"}) == 0.0
    for nonsense in ("soon", "nan", "²", "Fri, 31 Dec 99999999999999 23:59:59 GMT"):
        assert retry_after({"retry-after": nonsense}) is None
    assert retry_after({"retry-after-ms": "nan"}) is None
    assert retry_after({"retry-after-ms": "-inf"}) == 0.0
    assert retry_after({}) is None


def test_metrics_are_as_prometheus_reads_them() -> None:
    metrics = Metrics()
    metrics.count("sage_requests_total", dialect='a"b\\\n', status="200")
    metrics.time("sage_request_seconds", 0.03, dialect="chat")
    text = metrics.with_gauges([("sage_in_flight", 2.0, {})]).text()
    assert 'sage_requests_total{dialect="a\\"b\\\\\\n",status="200"} 1\n' in text
    assert 'sage_request_seconds_bucket{dialect="chat",le="0.025"} 0\n' in text
    assert 'sage_request_seconds_bucket{dialect="chat",le="0.05"} 1\n' in text
    assert 'sage_request_seconds_bucket{dialect="chat",le="+Inf"} 1\n' in text
    assert "# TYPE sage_in_flight gauge\nsage_in_flight 2\n" in text


def test_exhausted_descriptors_are_said_once(caplog: pytest.LogCaptureFixture) -> None:
    resource = pytest.importorskip("resource", reason="needs POSIX limits of processes: make test on Linux or macOS")
    descriptors, before = Descriptors(), resource.getrlimit(resource.RLIMIT_NOFILE)
    with caplog.at_level("WARNING"):
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, before[1]))
        try:
            descriptors.look()
            descriptors.look()
            assert descriptors.exhausted
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
        descriptors.look()
    assert not descriptors.exhausted
    assert ["no file descriptor is left" in caplog.messages[0], *caplog.messages[1:]] == [
        True,
        "file descriptors are left again",
    ]


USER, ANSWER = {"role": "user", "content": "fix it"}, {"role": "assistant", "content": "done"}
LATER = [ANSWER, {"role": "user", "content": "go on"}]
IMAGE = {"type": "image_url", "image_url": {"url": "data:1"}}


@pytest.mark.parametrize(
    ("dialect", "body", "opening"),
    [
        (Chat(), {"messages": [{"role": "system", "content": "be brief"}, USER]}, "fix it"),
        (Chat(), {"messages": [USER, *LATER]}, "fix it"),
        (Chat(), {"messages": [{"role": "user", "content": "rules"}, USER, *LATER]}, "rules\nfix it"),
        (Chat(), {"messages": [{"role": "user", "content": [IMAGE]}]}, json.dumps(IMAGE, sort_keys=True)),
        (Chat(), {"messages": [{"role": "developer", "content": "be brief"}]}, "be brief"),
        (Chat(), {"messages": ["no message", {"role": "user", "content": 3}]}, ""),
        (Chat(), {"messages": {}}, ""),
        (Messages(), {"system": [{"type": "text", "text": "be brief"}], "messages": [USER, *LATER]}, "fix it"),
        (
            Messages(),
            {"messages": [{"role": "user", "content": [{"type": "text", "text": "fix it", "cache_control": {}}]}]},
            "fix it",
        ),
        (Messages(), {"system": "be brief", "messages": []}, "be brief"),
        (Responses(), {"input": "fix it"}, "fix it"),
        (
            Responses(),
            {"input": [USER, {"type": "function_call", "name": "ls"}, *LATER], "instructions": "be brief"},
            "fix it",
        ),
        (Responses(), {"instructions": "be brief"}, "be brief"),
        (Embeddings(), {"input": ["fix it", 3]}, "fix it"),
    ],
)
def test_the_opening_is_all_that_the_user_says_before_the_first_answer(
    dialect: Dialect, body: dict, opening: str
) -> None:
    assert dialect.opening(body) == opening
