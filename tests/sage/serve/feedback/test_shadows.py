"""Shadows: a second model is asked after the client has its answer, is billed apart, and can be judged."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import monotonic, sleep

import pytest

from sage.log.budget_settings import TenantBudget
from sage.serve.access.access import Access
from sage.serve.access.keys import KeyFile, LiveKeys
from sage.serve.feedback import shadows
from tests.sage.serve.answers import BODIES, CHAT, PATHS, STREAMS, WHOLE, table
from tests.sage.serve.scripted import Asked, Reply, call, proxy, stream, whole

COST = (600 * 10 + 400 * 1 + 100 * 100) / 1e6
ALWAYS = partial(table, more="exploration: {shadow: 1.0, among: [first, second]}")
KEPT = partial(ALWAYS, serve="{retries: 0, shadow_answers_s: 60}")


def soon(is_so: Callable[[], bool]) -> bool:
    deadline = monotonic() + 10
    while not is_so() and monotonic() < deadline:
        sleep(0.005)
    return is_so()


@pytest.mark.parametrize("dialect", ["chat", "messages", "responses"])
@pytest.mark.parametrize("streams", [False, True])
def test_the_same_request_goes_to_a_second_model_as_a_whole(tmp_path: Path, dialect: str, streams: bool) -> None:
    def answers(asked: Asked) -> Reply:
        return stream(*STREAMS[dialect]) if asked.values.get("stream") else whole(WHOLE[dialect])

    body = BODIES[dialect] | ({"stream": True} if streams else {})
    with proxy(tmp_path, answers, ALWAYS) as served:
        assert call(served, PATHS[dialect], body)[0] == 200
        assert soon(lambda: len(served.upstream.asked) == 2)
        ((decision, outcome),) = served.logged()
    first, second = (asked.values for asked in served.upstream.asked)
    assert (decision.model, decision.shadow) == ("first", "second")
    assert (first.pop("model"), second.pop("model")) == ("first-there", "second-there")
    first.pop("stream", None), first.pop("stream_options", None)
    assert first == second
    assert outcome is not None
    assert outcome.shadow is not None
    assert (outcome.shadow.tokens_in, outcome.shadow.tokens_out) == (1000, 100)
    assert (outcome.shadow.model, outcome.shadow.timed_out, outcome.shadow.quality) == (None, False, None)
    if dialect == "chat":
        assert outcome.shadow.cost_usd == pytest.approx(COST)


def test_nobody_waits_for_a_shadow(tmp_path: Path) -> None:

    def answers(asked: Asked) -> Reply:
        return Reply((b"{}",), ends="stall") if asked.values["model"] == "second-there" else whole(CHAT)

    with proxy(tmp_path, answers, partial(ALWAYS, timeouts="timeout_s: 0.3")) as served:
        for _ in range(3):  # answered while shadows of earlier ones are under way
            assert call(served, PATHS["chat"], BODIES["chat"])[0] == 200
        assert soon(lambda: len(served.upstream.asked) == 6)
        rows = served.logged()
    for _, outcome in rows:
        assert outcome is not None
        assert (outcome.quality, outcome.timed_out) == (None, False)
        assert outcome.shadow is not None
        assert outcome.shadow.timed_out


def test_a_shadow_that_fails_is_worth_nothing_and_is_not_repeated_elsewhere(tmp_path: Path) -> None:
    def answers(asked: Asked) -> Reply:
        return whole(CHAT) if asked.values["model"] == "first-there" else whole({"error": {"message": "no"}}, 500)

    with proxy(tmp_path, answers, ALWAYS) as served:
        assert call(served, PATHS["chat"], BODIES["chat"])[0] == 200
        assert soon(lambda: len(served.upstream.asked) == 2)
        ((_, outcome),) = served.logged()
    assert len(served.upstream.asked) == 2
    assert outcome is not None
    assert outcome.shadow is not None
    assert (outcome.shadow.quality, outcome.shadow.cost_usd) == (0.0, 0.0)
    assert outcome.quality is None


def test_too_many_shadows_are_not_asked_and_censored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shadows, "MOST_RUNNING", 0)
    with proxy(tmp_path, lambda _: whole(CHAT), ALWAYS) as served:
        assert call(served, PATHS["chat"], BODIES["chat"])[0] == 200
        ((_, outcome),) = served.logged()
    assert len(served.upstream.asked) == 1
    assert outcome is not None
    assert outcome.shadow is not None
    assert (outcome.shadow.timed_out, outcome.shadow.provenance) == (True, shadows.NOT_ASKED)


def test_no_budget_pays_for_a_shadow(tmp_path: Path) -> None:
    file = KeyFile(tmp_path / "keys.json")
    _, key = file.add("ada", tenant="team", budget=TenantBudget(usd=10 * COST))
    limited = BODIES["chat"] | {"max_tokens": 100}
    with proxy(tmp_path, lambda _: whole(CHAT), ALWAYS, access=Access(LiveKeys(file.path))) as served:
        for _ in range(4):
            assert call(served, PATHS["chat"], limited, authorization=f"Bearer {key}")[0] == 200
        assert soon(lambda: len(served.upstream.asked) == 8)
        rows = served.logged()
        spent = served.application.current().logbook.router.log.tenant_spent("team", TenantBudget(usd=1.0), 0.0)
    assert len(rows) == 4
    assert spent == pytest.approx(4 * COST)


def test_answers_are_kept_for_their_tenant_only_and_for_a_while(tmp_path: Path) -> None:
    file = KeyFile(tmp_path / "keys.json")
    mine, other = (f"Bearer {file.add(name, tenant=name)[1]}" for name in ("mine", "other"))
    with proxy(tmp_path, lambda _: whole(CHAT), KEPT, access=Access(LiveKeys(file.path))) as served:
        _, headers, _ = call(served, PATHS["chat"], BODIES["chat"], authorization=mine)
        kept = tmp_path / "sage.db.shadows" / f"{headers['x-sage-decision-id']}.json"
        assert soon(kept.exists)
        ask = partial(call, served, f"/v1/shadows/{headers['x-sage-decision-id']}", method="GET")
        assert ask()[0] == 401
        assert ask(authorization=other)[0] == 404
        status, _, body = ask(authorization=mine)
        assert (status, json.loads(body)["model"], json.loads(body)["answer"]) == (200, "second", CHAT)
        traversal = "/v1/shadows/..%2Fkeys"
        assert call(served, traversal, method="GET", authorization=mine)[0] == 404
        report = {"decision_id": headers["x-sage-decision-id"], "quality": 1.0, "shadow": True, "source": "tests"}
        assert call(served, "/v1/outcomes", report, authorization=mine)[0] == 200
        assert stat.S_IMODE(kept.parent.stat().st_mode) == 0o700
        os.utime(kept, (0, 0))
        assert ask(authorization=mine)[0] == 404
        ((_, outcome),) = served.logged()
    assert outcome is not None
    assert outcome.shadow is not None
    assert (outcome.shadow.quality, outcome.shadow.provenance) == (1.0, "api: tests")


def test_answers_are_not_kept_unless_asked_for(tmp_path: Path) -> None:
    with proxy(tmp_path, lambda _: whole(CHAT), ALWAYS) as served:
        _, headers, _ = call(served, PATHS["chat"], BODIES["chat"])
        assert soon(lambda: len(served.upstream.asked) == 2)
        status, _, body = call(served, f"/v1/shadows/{headers['x-sage-decision-id']}", method="GET")
        served.stop()
    assert status == 404
    assert "shadow_answers_s" in json.loads(body)["error"]["message"]
    assert not (tmp_path / "sage.db.shadows").exists()
