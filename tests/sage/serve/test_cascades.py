"""Requests that a cascade answers: the client sees the answer that is taken, and the log every attempt."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from sage.log.budget_settings import TenantBudget
from sage.orchestrator.file_values import ModelsFileError
from sage.orchestrator.models_file import ModelsFile
from sage.serve.access.access import Access
from sage.serve.access.keys import KeyFile, LiveKeys
from tests.sage.serve.answers import BODIES, CHAT_STREAM, PATHS, STREAMS, WHOLE, table
from tests.sage.serve.scripted import Asked, Proxy, Reply, call, proxy, stream, wait_for, whole

CASCADE = "cascade: {coder: {ladder: [first, second], verifiers: [{json_schema: {schema: {type: integer}}}]}}\n"
STALLS = stream(*CHAT_STREAM[:2], ends="stall")


def cascading(url: str) -> str:
    return table(url, serve="{retries: 0, cascades: [coder]}", more=CASCADE)


def is_right(reply: bytes) -> bytes:
    """The answer with a number where the words were, which passes."""
    for words in (b'"Hi"', b'"Hello"', b'"Hel"', b'"lo"'):
        reply = reply.replace(words, b'"7"')
    return reply


def replies(dialect: str, streams: bool) -> tuple[Reply, Reply]:
    """Wrong words, and a right number."""
    if streams:
        return stream(*STREAMS[dialect]), stream(*map(is_right, STREAMS[dialect]))
    return whole(WHOLE[dialect]), Reply((is_right(json.dumps(WHOLE[dialect]).encode()),))


def by_model(first: Reply, second: Reply) -> Callable[[Asked], Reply]:
    return lambda asked: first if asked.values["model"] == "first-there" else second


def asked_models(served: Proxy) -> list[str]:
    return [asked.values["model"].removesuffix("-there") for asked in served.upstream.asked]


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("dialect", PATHS)
def test_the_next_model_is_asked_where_an_answer_does_not_pass(tmp_path: Path, dialect: str, streams: bool) -> None:
    wrong, right = replies(dialect, streams)
    with proxy(tmp_path, by_model(wrong, right), cascading) as served:
        status, headers, body = call(served, PATHS[dialect], BODIES[dialect] | {"stream": streams})
        assert (status, headers["x-sage-model"], asked_models(served)) == (200, "second", ["first", "second"])
        assert b"7" in body
        assert b"Hi" not in body
        assert headers["content-type"].startswith("text/event-stream" if streams else "application/json")
        cascade_id = headers["x-sage-cascade-id"]
        rows = served.logged()
    (first, refused), (second, passed), (stop, _) = rows
    assert (refused.verdicts[0].verdict, passed.verdicts[0].verdict) == ("failed", "passed")
    assert [outcome.cost_usd > 0 for outcome in (refused, passed)] == [True, True]
    assert (second.id, stop.id, stop.model) == (headers["x-sage-decision-id"], cascade_id, "stop")
    assert {first.cascade.cascade_id, second.cascade.cascade_id} == {cascade_id}


def test_a_cascade_ends_with_the_first_answer_that_passes_and_takes_a_quality(tmp_path: Path) -> None:
    with proxy(tmp_path, lambda _: replies("chat", False)[1], cascading) as served:
        _, headers, _ = call(served, PATHS["chat"], BODIES["chat"])
        assert (headers["x-sage-model"], asked_models(served)) == ("first", ["first"])
        report = {"decision_id": headers["x-sage-cascade-id"], "quality": 0.5}
        assert call(served, "/v1/outcomes", report)[0] == 200
        rows = served.logged()
    assert [decision.model for decision, _ in rows] == ["first", "stop"]
    assert rows[-1][1].quality == 0.5


@pytest.mark.parametrize("how", ["says 500", "breaks off in the middle"])
def test_a_model_that_fails_is_an_attempt_that_the_client_never_sees(tmp_path: Path, how: str) -> None:
    failing = whole({"error": {"message": "x"}}, 500) if how == "says 500" else stream(*CHAT_STREAM[:3], ends="cut")
    with proxy(tmp_path, by_model(failing, replies("chat", True)[1]), cascading) as served:
        status, headers, body = call(served, PATHS["chat"], BODIES["chat"] | {"stream": True})
        assert (status, headers["x-sage-model"]) == (200, "second")
        assert b"error" not in body
        (_, failed), (_, passed), _ = served.logged()
    assert failed.provenance == ("proxy: no model answered" if how == "says 500" else "proxy: the stream broke")
    assert (failed.quality, passed.quality) == (0.0, None)


def test_where_no_model_answers_the_client_hears_the_last_failure(tmp_path: Path) -> None:
    with proxy(tmp_path, lambda _: whole({"error": {"message": "overloaded"}}, 503), cascading) as served:
        status, _, body = call(served, PATHS["chat"], BODIES["chat"])
        rows = served.logged()
    assert (status, json.loads(body)["error"]["message"]) == (503, "overloaded")
    assert [outcome.quality for _, outcome in rows[:2]] == [0.0, 0.0]


def test_an_answer_that_does_not_pass_is_better_than_none(tmp_path: Path) -> None:
    with proxy(tmp_path, by_model(replies("chat", False)[0], whole({}, 500)), cascading) as served:
        status, headers, body = call(served, PATHS["chat"], BODIES["chat"])
    assert (status, headers["x-sage-model"], b"Hi" in body) == (200, "first", True)


def test_a_client_that_leaves_censors_the_attempt(tmp_path: Path) -> None:
    with proxy(tmp_path, by_model(replies("chat", True)[0], STALLS), cascading) as served:
        client = socket.create_connection(("127.0.0.1", served.port))
        body = json.dumps(BODIES["chat"] | {"stream": True}).encode()
        head = f"POST {PATHS['chat']} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {len(body)}\r\n\r\n"
        client.sendall(head.encode() + body)
        wait_for(lambda: len(served.upstream.asked) == 2)
        client.close()
        wait_for(lambda: served.upstream.lost)
        (_, first), (_, second) = served.logged()
    assert (first.timed_out, second.timed_out, second.provenance) == (False, True, "proxy: the client left")


@pytest.mark.parametrize(
    ("more", "headers"),
    [
        ({"tools": [{"type": "function", "function": {"name": "add"}}]}, {}),
        ({"n": 2}, {}),
        ({}, {"x_sage_role": "planner"}),
        ({"model": "first"}, {"x_sage_pin": "1"}),
    ],
)
def test_what_a_verifier_could_not_judge_is_a_single_decision(tmp_path: Path, more: dict, headers: dict) -> None:
    with proxy(tmp_path, lambda _: whole(WHOLE["chat"]), cascading) as served:
        _, got, _ = call(served, PATHS["chat"], BODIES["chat"] | more, **headers)
        ((decision, _),) = served.logged()
    assert "x-sage-cascade-id" not in got
    assert decision.cascade is None


def test_a_tenant_with_a_budget_has_single_decisions(tmp_path: Path) -> None:
    file = KeyFile(tmp_path / "keys.json")
    _, key = file.add("ada", tenant="team", budget=TenantBudget(usd=100.0))
    access = Access(LiveKeys(file.path))
    with proxy(tmp_path, lambda _: whole(WHOLE["chat"]), cascading, access=access) as served:
        call(served, PATHS["chat"], BODIES["chat"], authorization=f"Bearer {key}")
        ((decision, _),) = served.logged()
    assert decision.cascade is None
    assert decision.expected_cost_usd is not None


@pytest.mark.parametrize(
    ("serve", "cascade", "sentence"),
    [
        ("[coder]", "", "serve.cascades names coder, which has no cascade"),
        ("[coder]", "cascade: {coder: {ladder: [first], verifiers: [tests]}}", "looks at an answer itself"),
        ("[cook]", CASCADE, "cook"),
        ("coder", CASCADE, "must be a list of roles"),
    ],
)
def test_a_cascade_that_cannot_serve_is_refused(tmp_path: Path, serve: str, cascade: str, sentence: str) -> None:
    path = tmp_path / "models.yaml"
    path.write_text(table("http://127.0.0.1:1", serve=f"{{cascades: {serve}}}", more=cascade))
    with pytest.raises(ModelsFileError, match=sentence):
        ModelsFile.read(path)
