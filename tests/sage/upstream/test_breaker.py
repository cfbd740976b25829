"""Breakers over HTTP: which failures close a model, and for whom."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sage.serve.answers import BODIES, PATHS, data, event, table
from tests.sage.serve.hostile import ERROR, ask, metrics_of, on_demand, with_keys
from tests.sage.serve.scripted import Reply, call, proxy, stream, whole

WRONG = {"error": {"message": "too long", "type": "invalid_request_error", "code": "context_length_exceeded"}}


def quick_breaker(url: str) -> str:
    return table(url, serve="{retries: 0, breaker_failures: 2, breaker_s: 600}")


REFUSALS = {str(status): whole(ERROR, status) for status in (302, 400, 404, 405, 408, 409, 413, 422, 425, 451)} | {
    "refuses in a whole answer": whole(WRONG),
    "refuses in a stream": stream(data(WRONG)),
    "refuses by its code": stream(data({"error": {"message": "no", "code": 400}})),
}


def test_a_refusal_opens_no_breaker(tmp_path: Path) -> None:
    with proxy(tmp_path, on_demand(REFUSALS), quick_breaker) as served:
        for word, reply in REFUSALS.items():
            streams = {"stream": True} if "stream" in reply.content_type else {}
            assert 503 not in [ask(served, "", word, **streams) for _ in range(3)], word
        assert ask(served, "") == 200
        assert "sage_breaker_openings_total" not in metrics_of(served)


FAILURES = {
    "500": whole(ERROR, 500),
    "504": whole(ERROR, 504, retry_after="1"),
    "529": whole(ERROR, 529),
    "401": whole(ERROR, 401),
    "403": whole(ERROR, 403),
    "hangs-up": Reply(raw=b"HT", ends="cut"),
    "no-JSON": Reply((b"{oops",)),
    "fails-in-an-answer": whole(ERROR),
    "no-stream": Reply((b"Hi",), content_type="text/plain"),
    "fails-in-a-stream": stream(data(ERROR)),
    "key-refused-in-a-stream": stream(data({"error": {"message": "no", "code": 403}})),
    "overloaded": stream(event({"type": "error", "error": {"type": "overloaded_error"}})),
}


def test_a_failure_opens_the_breaker_for_the_key_that_met_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    access, keys = with_keys(tmp_path, ["ada", *FAILURES])
    with proxy(tmp_path, on_demand(FAILURES), quick_breaker, access=access) as served:
        for word, reply in FAILURES.items():
            more = {"stream": True} if reply.content_type != "application/json" else {}
            dialect, other = ("messages", "chat") if word == "overloaded" else ("chat", "messages")
            assert 503 not in [ask(served, keys[word], word, dialect, **more) for _ in range(2)], word
            asked = len(served.upstream.asked)
            assert ask(served, keys[word], word, dialect, **more) == 503, word
            assert len(served.upstream.asked) == asked
            assert ask(served, keys[word], dialect=other) == 200  # another endpoint of the same models
            assert ask(served, keys["ada"]) == ask(served, keys["ada"], dialect="messages") == 200
        metrics = metrics_of(served, keys["metrics"])
    opened = [line for line in caplog.messages if line.startswith("first is not asked at ")]
    assert len(opened) == len(FAILURES)
    assert all(" by the key " in line for line in opened)  # as somebody succeeds in between
    assert 'sage_breaker_openings_total{model="first",endpoint="/messages",scope="key"} ' in metrics
    assert 'sage_breaker_openings_total{model="first",endpoint="/chat/completions",scope="all"' not in metrics


def test_an_outage_closes_a_model_for_everybody_once_two_keys_have_met_it(tmp_path: Path) -> None:
    access, keys = with_keys(tmp_path, ["ada", "bob", "new"])
    with proxy(tmp_path, lambda _: whole(ERROR, 500), quick_breaker, access=access) as served:
        found = [ask(served, keys[name]) for name in ("ada", "ada", "ada", "bob", "bob", "bob", "new")]
        assert found == [500, 500, 503, 500, 500, 503, 503]
        assert 'scope="all"' in metrics_of(served, keys["metrics"])


def test_streams_that_break_off_after_their_first_content_are_failures(tmp_path: Path) -> None:
    begun = stream(data({"choices": [{"index": 0, "delta": {"content": "Hi"}}]}), ends="cut")
    with proxy(tmp_path, on_demand({"begins": begun}), quick_breaker) as served:
        assert [ask(served, "", "begins", stream=True) for _ in range(5)] == [200, 200, 200, 200, 503]
        assert len(served.upstream.asked) == 4


def test_counting_tokens_has_a_breaker_of_its_own(tmp_path: Path) -> None:
    with proxy(tmp_path, on_demand({"count_tokens": whole(ERROR, 500)}), quick_breaker) as served:
        counted = [call(served, "/v1/messages/count_tokens", BODIES["messages"])[0] for _ in range(3)]
        assert counted == [500, 500, 503]
        assert ask(served, "", dialect="messages") == 200


def test_a_rate_limit_is_honoured_and_opens_nothing(tmp_path: Path) -> None:
    access, keys = with_keys(tmp_path, ["eve", "ada"])
    limited = {"flood": whole(ERROR, 429, retry_after="31536000")}
    with proxy(tmp_path, on_demand(limited), quick_breaker, access=access) as served:
        assert ask(served, keys["eve"], "flood") == 429  # which both models say
        status, headers, _ = call(served, PATHS["chat"], BODIES["chat"], authorization=keys["eve"])
        assert (status, headers["retry-after"], len(served.upstream.asked)) == (429, "300", 2)
        assert ask(served, keys["ada"]) == 200
        assert "sage_breaker_openings_total" not in metrics_of(served, keys["metrics"])
