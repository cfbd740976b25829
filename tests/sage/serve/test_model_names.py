"""Names of models that clients send: mapped to a role, pinned, refused, and allowed per key."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from sage.orchestrator.file_values import ModelsFileError
from sage.orchestrator.models_file import ModelsFile
from sage.serve.access.access import Access
from sage.serve.access.keys import KeyFile, LiveKeys
from sage.serve.model_names import told_names
from tests.sage.serve.answers import BODIES, CHAT, MESSAGE, PATHS, table
from tests.sage.serve.scripted import Asked, Proxy, Reply, call, proxy, whole

NAMES = """{retries: 0, role: debugger, names: {gpt-4o-mini: {role: documentation}, vendor/fast: {pin: second},
  first: {pin: true}, old: {refuse: true}}, other_names: OTHERS}"""


def answers(asked: Asked) -> Reply:
    return whole(MESSAGE if asked.path.endswith("messages") else CHAT)


def ask(served: Proxy, name: str, dialect: str = "chat", **headers: str) -> tuple[int, str, dict]:
    status, head, body = call(served, PATHS[dialect], BODIES[dialect] | {"model": name}, **headers)
    return status, head.get("x-sage-model", ""), json.loads(body)


def test_a_name_has_a_role_or_a_model_or_is_refused(tmp_path: Path) -> None:
    serve = NAMES.replace("OTHERS", "refuse")
    with proxy(tmp_path, answers, partial(table, serve=serve, more="exploration: 1.0\n")) as served:
        for _ in range(6):  # exploring, which pinned names do not
            assert ask(served, "vendor/fast")[:2] == (200, "second")
            assert ask(served, "first")[:2] == (200, "first")
        for name in ("gpt-4o-mini", "sage"):
            assert ask(served, name)[0] == 200
        assert ask(served, "gpt-4o-mini", x_sage_role="coder")[0] == 200  # whose header says more than the name
        for name in ("old", "gpt-4o", "SAGE", "first "):
            status, _, chat = ask(served, name)
            assert (status, chat["error"]["type"]) == (404, "not_found_error")
            assert chat["error"]["message"].endswith("name one of sage, first, second, gpt-4o-mini, vendor/fast")
        status, _, message = ask(served, "old", "messages")
        assert (status, message["type"], message["error"]["type"]) == (404, "error", "not_found_error")
        listed = json.loads(call(served, "/v1/models", method="GET")[2])
        assert [model["id"] for model in listed["data"]] == ["sage", "first", "second", "gpt-4o-mini", "vendor/fast"]
        for path in ("vendor/fast", "vendor%2Ffast"):
            status, _, body = call(served, f"/v1/models/{path}", method="GET")
            assert (status, json.loads(body)) == (200, listed["data"][-1])
        for path in ("old", "gpt-4o", "vendor", "sage/", "vendor%252Ffast"):
            assert call(served, f"/v1/models/{path}", method="GET")[0] == 404
        assert json.loads(call(served, "/v1/models/", method="GET")[2]) == listed
        roles = [made.role for made, _ in served.logged()]
    assert roles[-3:] == ["documentation", "debugger", "coder"]
    assert set(roles[:-3]) == {"debugger"}


def test_a_key_asks_for_what_it_is_allowed_and_gets_it_from_models_that_it_is_allowed(tmp_path: Path) -> None:
    file = KeyFile(tmp_path / "keys.json")
    keys = {
        "all": file.add("all")[1],
        "second": file.add("second", allow=["second", "sage"])[1],
        "names": file.add("names", allow=["gpt-4o"])[1],
    }
    access = Access(LiveKeys(file.path))
    with proxy(tmp_path, answers, partial(table, more="exploration: 1.0\n"), access=access) as served:
        for _ in range(6):
            assert ask(served, "sage", x_api_key=keys["second"])[:2] == (200, "second")
        asked = {ask(served, "gpt-4o", x_api_key=keys["names"])[1] for _ in range(30)}
        assert asked == {"first", "second"}
        for name, pin in (("first", "1"), ("first", "0"), ("gpt-4o", "0")):
            for dialect in ("chat", "messages", "responses"):
                status, _, body = ask(served, name, dialect, x_api_key=keys["second"], x_sage_pin=pin)
                assert (status, body["error"]["type"]) == (403, "permission_error")
                assert "this key may ask for sage, second" in body["error"]["message"]
        assert ask(served, "first", x_api_key=keys["all"], x_sage_pin="1")[:2] == (200, "first")
        listed = json.loads(call(served, "/v1/models", method="GET", x_api_key=keys["second"])[2])
        assert [model["id"] for model in listed["data"]] == ["sage", "second"]
        assert json.loads(call(served, "/v1/models", method="GET", x_api_key=keys["names"])[2])["data"] == []
        assert call(served, "/v1/models/first", method="GET", x_api_key=keys["second"])[0] == 404


@pytest.mark.parametrize(
    ("serve", "sentence"),
    [
        ("{names: {a: {role: summariser}}}", "serve.names.a.role='summariser' is not known"),
        ("{names: {a: {pin: thrid}}}", "serve.names.a.pin='thrid' is not known"),
        ("{names: {a: {pin: true}}}", "serve.names.a.pin='a' is not known"),
        ("{names: {a: {pin: 3}}}", "serve.names.a.pin=3 must be a model"),
        ("{names: {a: {}}}", "serve.names.a must say a role, a model to pin, or refuse: true"),
        ("{names: {a: {pin: false}}}", "serve.names.a must say a role"),
        ("{names: {a: {refuse: true, role: coder}}}", "serve.names.a must say a role"),
        ("{names: {a: {refuse: 1}}}", "serve.names.a.refuse=1 must be true or false"),
        ("{names: [a]}", "serve.names is ['a']: it must be a mapping"),
        ("{other_names: reject}", "serve.other_names='reject' is not known"),
    ],
)
def test_mistakes_get_a_sentence(serve: str, sentence: str) -> None:
    with pytest.raises(ModelsFileError) as error:
        ModelsFile.parse(table("http://127.0.0.1:1", serve=serve))
    assert sentence in str(error.value)


def test_the_start_says_what_becomes_of_names() -> None:
    settings = ("{}", NAMES.replace("OTHERS", "route"))
    said = [told_names(ModelsFile.parse(table("http://127.0.0.1:1", serve=serve))) for serve in settings]
    assert said[0] == "every model name that a client sends is routed, whatever it names"
    assert said[1] == (
        "gpt-4o-mini has the role documentation; vendor/fast is answered by second; first is answered by first; old is "
        "refused; every other model name that a client sends is routed, whatever it names"
    )
