"""The proxy: every dialect, whole and as a stream, with what is logged of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.sage.serve.answers import (
    BODIES,
    CHAT,
    CHAT_STREAM,
    CHAT_TOOL_STREAM,
    MESSAGE,
    PATHS,
    STREAMS,
    USAGE,
    WHOLE,
    chunk,
    table,
)
from tests.sage.serve.scripted import Asked, Proxy, Reply, call, proxy, stream, whole

COST = (600 * 10 + 400 * 1 + 100 * 100) / 1e6  # as chat and responses count
MESSAGE_COST = (500 * 10 + 400 * 1 + 100 * 20 + 100 * 100) / 1e6


def by_dialect(asked: Asked) -> Reply:
    """A conformant upstream."""
    dialect = next(name for name, path in PATHS.items() if asked.path.startswith(path))
    if asked.values.get("stream"):
        return stream(*STREAMS[dialect])
    return whole(WHOLE[dialect], x_ratelimit_remaining="7")


@pytest.mark.parametrize("dialect", PATHS)
@pytest.mark.parametrize("streams", [False, True])
def test_a_request_is_routed_answered_and_logged(tmp_path: Path, dialect: str, streams: bool) -> None:
    with proxy(tmp_path, by_dialect, table) as served:
        body = BODIES[dialect] | ({"stream": True} if streams else {})
        status, headers, answer = call(served, PATHS[dialect], body, x_session_id="s1")
        ((decision, outcome),) = served.logged()
    assert status == 200
    if streams:
        expected = [event for event in STREAMS[dialect] if event != USAGE]  # for which the client did not ask
        assert answer == b"".join(expected)
        assert headers["content-type"] == "text/event-stream"
    else:
        assert answer == json.dumps(WHOLE[dialect]).encode()  # byte for byte
        assert headers["x-ratelimit-remaining"] == "7"
    assert (headers["x-sage-decision-id"], headers["x-sage-model"]) == (decision.id, "first")
    assert len(headers["x-request-id"]) == 32
    assert (decision.model, decision.task_id, decision.session, decision.data_source) == ("first", "s1", "s1", "real")
    assert decision.candidates == ("first", "second")
    assert sum(decision.probabilities) == pytest.approx(1)
    assert outcome is not None
    assert (outcome.tokens_in, outcome.tokens_cached, outcome.tokens_out) == (1000, 400, 100)
    assert outcome.cost_usd == pytest.approx(MESSAGE_COST if dialect == "messages" else COST)
    assert (outcome.provenance, outcome.retries, outcome.timed_out, outcome.quality) == ("", 0, False, None)
    assert outcome.model is None
    assert 0 < outcome.latency_s < 10
    (asked,) = served.upstream.asked
    assert asked.values["model"] == "first-there"


def test_what_sage_does_not_know_passes_both_ways(tmp_path: Path) -> None:
    odd = {"model": "any", "messages": [{"role": "user", "content": "x", "cache_control": {"type": "ephemeral"}}]}
    text = json.dumps(odd | {"service_tier": "flex", "seed": 12345678901234567890}).replace('"model": ', '"model" :\n')
    answer = MESSAGE | {"brand_new": [1.0, None]}
    with proxy(tmp_path, lambda _: whole(answer, x_new="1", set_cookie="no"), table) as served:
        _, headers, body = call(
            served,
            "/v1/messages?beta=true",
            text.encode(),
            anthropic_beta="tools-2030",
            x_api_key="of-the-client",
            cookie="secret",
            x_sage_role="planner",
        )
    (asked,) = served.upstream.asked
    assert asked.path == "/v1/messages?beta=true"
    assert asked.body == text.replace('"any"', '"first-there"').encode()  # one field, every other byte as it was
    assert asked.headers["anthropic-beta"] == "tools-2030"
    assert asked.headers["x-api-key"] == "upstream-key"  # never the client's
    assert not {"cookie", "authorization", "x-sage-role"} & asked.headers.keys()
    assert json.loads(body)["brand_new"] == [1.0, None]
    assert headers["x-new"] == "1"
    assert "set-cookie" not in headers


def test_the_usage_chunk_reaches_clients_that_asked_for_it(tmp_path: Path) -> None:
    with proxy(tmp_path, by_dialect, table) as served:
        body = BODIES["chat"] | {"stream": True, "stream_options": {"include_usage": True, "new": 1}}
        _, _, asked_for = call(served, PATHS["chat"], body)
        _, _, not_asked_for = call(
            served, PATHS["chat"], BODIES["chat"] | {"stream": True, "stream_options": {"new": 1}}
        )
    assert asked_for == b"".join(CHAT_STREAM)
    assert not_asked_for == b"".join(event for event in CHAT_STREAM if event != USAGE)
    assert [asked.values["stream_options"] for asked in served.upstream.asked] == [
        {"include_usage": True, "new": 1}
    ] * 2


def test_tool_calls_arrive_as_they_were_sent(tmp_path: Path) -> None:
    with proxy(tmp_path, lambda _: stream(*CHAT_TOOL_STREAM), table) as served:
        _, _, answer = call(served, PATHS["chat"], BODIES["chat"] | {"stream": True})
    assert answer == b"".join(event for event in CHAT_TOOL_STREAM if event != USAGE)


def test_comments_and_odd_line_ends_pass(tmp_path: Path) -> None:
    events = b": ping\n\n" + CHAT_STREAM[1].replace(b"\n", b"\r\n") + chunk({}, "stop") + b"data: [DONE]\n\n"
    with proxy(tmp_path, lambda _: stream(*(events[i : i + 7] for i in range(0, len(events), 7))), table) as served:
        _, _, answer = call(served, PATHS["chat"], BODIES["chat"] | {"stream": True})
    assert answer == events


def test_a_stream_without_its_last_mark_gets_it(tmp_path: Path) -> None:
    with proxy(tmp_path, lambda _: stream(*CHAT_STREAM[:4]), table) as served:
        _, _, answer = call(served, PATHS["chat"], BODIES["chat"] | {"stream": True})
    assert answer == b"".join(CHAT_STREAM[:4]) + b"data: [DONE]\n\n"


def test_the_router_sees_the_last_words_of_the_user(tmp_path: Path) -> None:
    talk = [
        {"role": "user", "content": "old"},
        {"role": "assistant", "content": "yes?"},
        {
            "role": "user",
            "content": [{"type": "text", "text": part} for part in ("fix", "all of")] + [{"type": "image_url"}],
        },
        {"role": "user", "content": "the parser"},
        {"role": "assistant", "content": None, "tool_calls": []},
        {"role": "tool", "content": "a long listing", "tool_call_id": "t"},
    ]
    store = lambda url: table(url, more="log: {store_prompts: true}\n")  # noqa: E731
    with proxy(tmp_path, by_dialect, store) as served:
        call(served, PATHS["chat"], {"model": "m", "messages": talk}, x_sage_role="debugger", x_sage_category="parsers")
        items = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "plan it"}]}]
        call(served, PATHS["responses"], {"model": "m", "input": items, "prompt_cache_key": "k"}, x_sage_task_id="t9")
        (one, _), (two, _) = served.logged()
    assert (one.prompt, one.role, one.category, one.session) == ("fix\nall of\nthe parser", "debugger", "parsers", "")
    assert (two.prompt, two.role, two.task_id, two.session) == ("plan it", "coder", "t9", "k")


@pytest.mark.parametrize("size", [60_000, 150_000, 2_000_000])
def test_bodies_of_any_size_pass(tmp_path: Path, size: int) -> None:
    """As of agents, whose first request has more than 64 kB."""
    body = BODIES["messages"] | {"system": "x" * size}
    with proxy(tmp_path, by_dialect, table) as served:
        assert [call(served, PATHS["messages"], body)[0] for _ in range(3)] == [200] * 3
    assert served.upstream.asked[-1].values["system"] == body["system"]


def test_embeddings_stay_with_the_model_that_is_named(tmp_path: Path) -> None:
    vectors = {"object": "list", "data": [{"embedding": [0.1], "index": 0}], "usage": {"prompt_tokens": 1000}}
    with proxy(tmp_path, lambda _: whole(vectors), table) as served:
        status, headers, _ = call(served, "/v1/embeddings", {"model": "second", "input": ["a", "b"]})
        other, _, error = call(served, "/v1/embeddings", {"model": "unknown", "input": "a"})
        ((decision, outcome),) = served.logged()
    assert (status, headers["x-sage-model"], decision.candidates) == (200, "second", ("second",))
    assert outcome is not None
    assert outcome.cost_usd == pytest.approx(0.01)
    assert other == 404
    assert "no model here answers embeddings" in json.loads(error)["error"]["message"]


def test_a_client_can_pin_a_model(tmp_path: Path) -> None:
    with proxy(tmp_path, by_dialect, table) as served:
        chosen = [
            call(served, PATHS["chat"], BODIES["chat"] | {"model": "second"}, **pin)[1]["x-sage-model"]
            for pin in ({"x_sage_pin": "1"}, {"x_sage_pin": "0"}, {})
        ]
        unknown, _, _ = call(served, PATHS["chat"], BODIES["chat"], x_sage_pin="1")
        rows = served.logged()
    assert chosen == ["second", "first", "first"]
    assert unknown == 404
    assert (rows[0][0].candidates, rows[0][0].probabilities) == (("second",), (1.0,))


def test_count_tokens_asks_and_logs_nothing(tmp_path: Path) -> None:
    with proxy(tmp_path, lambda _: whole({"input_tokens": 42}), table) as served:
        status, _, body = call(served, "/v1/messages/count_tokens", BODIES["messages"])
        assert served.logged() == []
    assert (status, json.loads(body)) == (200, {"input_tokens": 42})
    assert served.upstream.asked[0].path == "/v1/messages/count_tokens"


def test_the_other_routes(tmp_path: Path) -> None:
    with proxy(tmp_path, by_dialect, table) as served:
        assert call(served, "/", method="HEAD")[0] == 200
        assert call(served, "/healthz", method="GET")[2] == b"ok\n"
        models = json.loads(call(served, "/v1/models", method="GET")[2])
        call(served, PATHS["chat"], BODIES["chat"] | {"stream": True})
        metrics = call(served, "/metrics", method="GET")[2].decode()
    assert [model["id"] for model in models["data"]] == ["sage", "first", "second"]
    assert 'sage_requests_total{dialect="chat",status="200"} ' in metrics
    assert 'sage_tokens_total{model="first",kind="cached"} ' in metrics
    assert "# TYPE sage_first_token_seconds histogram\n" in metrics
    assert "sage_unlogged_decisions_total 0\n" in metrics


@pytest.mark.parametrize(
    ("body", "headers", "status", "sentence"),
    [
        (b"{", {}, 400, "not JSON"),
        (b"[]", {}, 400, "not a JSON object"),
        ({"messages": []}, {}, 400, "model must be a text"),
        ({"model": "m"}, {"x_sage_role": "cook"}, 400, "x-sage-role='cook' is not one of planner"),
    ],
)
def test_a_bad_request_is_a_sentence_in_the_dialect(
    tmp_path: Path, body: object, headers: dict[str, str], status: int, sentence: str
) -> None:
    with proxy(tmp_path, by_dialect, table) as served:
        found, _, error = call(served, PATHS["chat"], body, **headers)
        assert (found, served.upstream.asked) == (status, [])
        assert sentence in json.loads(error)["error"]["message"]
        anthropic = json.loads(call(served, PATHS["messages"], body, **headers)[2])
        assert (anthropic["type"], anthropic["error"]["type"]) == ("error", "invalid_request_error")
        assert served.logged() == []


def test_a_log_that_cannot_be_written_fails_no_request(tmp_path: Path) -> None:
    with proxy(tmp_path, lambda _: whole(CHAT), table) as served:
        break_log(served)
        status, headers, _ = call(served, PATHS["chat"], BODIES["chat"])
        metrics = call(served, "/metrics", method="GET")[2].decode()
    assert status == 200
    assert "x-sage-decision-id" in headers
    assert "sage_unlogged_decisions_total 1\n" in metrics


def break_log(served: Proxy) -> None:
    """Puts a folder where the log was."""
    served.application.current().logbook.router.log.close()
    for path in served.db.parent.glob("sage.db*"):
        path.unlink()
    served.db.mkdir()
