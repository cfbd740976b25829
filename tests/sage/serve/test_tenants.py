"""Keys, budgets, reports and signals where they meet the proxy."""

from __future__ import annotations

import json
from pathlib import Path

from sage.log.budget_settings import TenantBudget
from sage.orchestrator.explanation import explain
from sage.orchestrator.models_file import ModelsFile
from sage.serve.access.access import Access
from sage.serve.access.keys import KeyFile, LiveKeys
from tests.sage.serve.answers import BODIES, CHAT, PATHS, table
from tests.sage.serve.scripted import Asked, Reply, call, proxy, whole


def keyed(folder: Path, usd: float) -> tuple[Access, str]:
    file = KeyFile(folder / "keys.json")
    _, key = file.add("ada", tenant="team", budget=TenantBudget(usd=usd))
    return Access(LiveKeys(file.path)), f"Bearer {key}"


def test_a_key_decides_whose_call_it_is(tmp_path: Path) -> None:
    access, key = keyed(tmp_path, 100.0)
    with proxy(tmp_path, lambda _: whole(CHAT), table, access=access) as served:
        assert call(served, PATHS["messages"], BODIES["messages"])[0] == 401
        assert call(served, "/v1/models", method="GET")[0] == 401
        assert call(served, PATHS["chat"], BODIES["chat"], authorization=key)[0] == 200
        ((decision, _),) = served.logged()
    assert decision.tenant == "team"
    assert key not in served.db.read_bytes().decode("latin-1")
    assert served.upstream.asked[0].headers["authorization"] == "bearer upstream-key"


def test_a_budget_without_room_is_an_error_that_says_so(tmp_path: Path) -> None:
    access, key = keyed(tmp_path, 0.05)
    with proxy(tmp_path, lambda _: whole(CHAT), table, access=access) as served:
        status, _, error = call(served, PATHS["chat"], BODIES["chat"], authorization=key)  # 1,000 tokens: .1 USD
        limited = BODIES["chat"] | {"max_tokens": 100}
        assert call(served, PATHS["chat"], limited, authorization=key)[0] == 200
        anthropic = json.loads(
            call(served, PATHS["messages"], BODIES["messages"] | {"max_tokens": 9999}, authorization=key)[2]
        )
        both = {"max_tokens": 9999, "max_completion_tokens": 1}  # some upstreams obey the one, some the other
        assert call(served, PATHS["chat"], BODIES["chat"] | both, authorization=key)[0] == 402
        several = {"max_tokens": 100, "n": 100}
        assert call(served, PATHS["chat"], BODIES["chat"] | several, authorization=key)[0] == 402
        assert len(served.logged()) == 1
    assert (status, json.loads(error)["error"]["type"]) == (402, "insufficient_quota")
    assert "the budget of 0.05 USD per month has 0.05 USD left" in json.loads(error)["error"]["message"]
    assert anthropic["error"]["type"] == "billing_error"


def test_a_dearer_fallback_needs_room_in_the_budget(tmp_path: Path) -> None:
    dear = lambda url: table(url).replace(  # noqa: E731
        "second: {input_usd_per_mtok: 10, output_usd_per_mtok: 100",
        "second: {input_usd_per_mtok: 10, output_usd_per_mtok: 900",
    )
    access, key = keyed(tmp_path, 0.05)

    def script(asked: Asked) -> Reply:
        return whole({"error": {"message": "down"}}, 500)

    with proxy(tmp_path, script, dear, access=access) as served:
        call(served, PATHS["chat"], BODIES["chat"] | {"max_tokens": 100}, authorization=key)
    assert [asked.values["model"] for asked in served.upstream.asked] == ["first-there"]


def test_outcomes_can_be_reported_to_the_server(tmp_path: Path) -> None:
    with proxy(tmp_path, lambda _: whole(CHAT), table) as served:
        decision_id = call(served, PATHS["chat"], BODIES["chat"])[1]["x-sage-decision-id"]
        status, _, body = call(served, "/v1/outcomes", {"decision_id": decision_id, "quality": 1.0, "source": "me"})
        ((_, outcome),) = served.logged()
    assert (status, json.loads(body)["status"]) == (200, "joined")
    assert outcome is not None
    assert (outcome.quality, outcome.tokens_in) == (1.0, 1000)


def test_tests_that_an_agent_ran_speak_of_the_answer_before(tmp_path: Path) -> None:
    ran = {"id": "t1", "type": "function", "function": {"name": "bash", "arguments": '{"command": "pytest -q"}'}}
    talk = BODIES["chat"]["messages"] + [
        {"role": "assistant", "content": None, "tool_calls": [ran]},
        {"role": "tool", "tool_call_id": "t1", "content": '{"exit_code": 1, "output": "1 failed"}'},
    ]
    with proxy(tmp_path, lambda _: whole(CHAT), table) as served:
        call(served, PATHS["chat"], BODIES["chat"], session_id="s")
        call(served, PATHS["chat"], BODIES["chat"] | {"messages": talk}, session_id="s")
        (_, first), (_, second) = served.logged()
    assert first is not None
    assert second is not None
    assert [(verdict.verifier, verdict.verdict) for verdict in first.verdicts] == [("agent_tests", "failed")]
    assert second.verdicts == ()


def test_what_was_served_repeats_bit_for_bit(tmp_path: Path) -> None:
    access, key = keyed(tmp_path, 0.3)
    more = "exploration: {share: 0.4, shadow: 0.2}\nlog: {store_prompts: true, store_words: true}\n"
    with proxy(tmp_path, lambda _: whole(CHAT), lambda url: table(url, more=more), access=access) as served:
        for number in range(16):  # until the budget has no room for more
            body = {"model": "any", "max_tokens": 100, "messages": [{"role": "user", "content": "x = 1;\n" * number}]}
            role = ("coder", "planner")[number % 2]
            call(served, PATHS["chat"], body, authorization=key, x_session_id=f"s{number % 3}", x_sage_role=role)
        rows = served.logged()
    assert len(rows) > 8
    found = [explain(decision, ModelsFile.read(tmp_path / "models.yaml")) for decision, _ in rows]
    assert {(one.seen, one.differences) for one in found} == {("the stored text", ())}
