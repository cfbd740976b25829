"""Attempts to get at what is not one's own, against the real server over raw sockets: none may succeed."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Callable, Iterator

import pytest

from sage.orchestrator.models_file import ModelsFile, ModelsFileError
from sage.serve.access.keys import KeyFile
from sage.serve.feedback.ci_events import signature, tenant_secret
from tests.sage.serve.attacked import (
    CHAT_PATH,
    MASTER,
    OK,
    TRAP,
    UPSTREAM_KEY,
    Server,
    attacked,
    check_says_nothing,
    complete,
    found,
    request,
    status,
)

SECRETS = (  # of various shapes, put into all texts of a request
    "sk-proj-Abcdefghijklmnop1234567890QRSTUV",
    "ghp_0123456789abcdefghijABCDEFGHIJ012345",
    "AKIAIOSFODNN7EXAMPLE",
    "xoxb-123456789012-abcdefghijklmnop",
)


@pytest.fixture(scope="module")
def at(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with attacked(tmp_path_factory.mktemp("security")) as server:
        yield server


def test_those_with_a_key_are_served(at: Server) -> None:
    """Or nothing below would say anything."""
    assert status(at.ask(CHAT_PATH, OK)) == 200
    assert status(at.send(request("POST", CHAT_PATH, OK, f"x-api-key: {at.keys['bob']}"))) == 200
    made = at.decided("ada")
    assert status(at.ask("/v1/outcomes", {"decision_id": made, "quality": 1.0, "source": "tests"})) == 200
    body = json.dumps({"decision_id": made, "conclusion": "success"}).encode()
    signed = f"x-hub-signature-256: {signature(tenant_secret(MASTER, 'team'), body)}"
    assert status(at.send(request("POST", "/v1/webhooks/ci/team", body, signed))) == 200
    assert at.upstream.asked[-1].headers["authorization"] == f"bearer {UPSTREAM_KEY}"


def get(path: str, *lines: str) -> Callable[[Server], bytes]:
    return lambda at: request("GET", path, b"", *lines)


def post(path: str = CHAT_PATH, body: object = OK, *lines: str, key: str | None = None) -> Callable[[Server], bytes]:
    return lambda at: request(
        "POST", path, body, *(line.format(**at.keys) for line in lines), key=at.keys.get(key or "")
    )


def keyed(text: Callable[[str], str]) -> Callable[[Server], bytes]:
    """With something made of a valid key as authorization."""
    return lambda at: request("POST", CHAT_PATH, OK, f"authorization: {text(at.keys['ada'])}")


def raw(head: str, body: bytes = json.dumps(OK).encode()) -> Callable[[Server], bytes]:
    """A request of ada's, whose lines are as they are given."""
    return lambda at: head.format(key=at.keys["ada"], path=CHAT_PATH).replace("\n", "\r\n").encode("latin-1") + body


def stored_hash(at: Server) -> bytes:
    stored = json.loads((at.folder / "sage-keys.json").read_text())["keys"][0]
    return request("POST", CHAT_PATH, OK, key=f"sk-sage-{stored['id']}-{stored['sha256']}")


BODY = json.dumps(OK).encode()
CHUNK = b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)
HEAD = "POST {path} HTTP/1.1\nhost: x\nauthorization: Bearer {key}\n"
DEEP = b'{"model":"any","messages":' + b"[" * 100_000
UNAUTHENTICATED: dict[str, Callable[[Server], bytes]] = {
    "no key: chat": post(),
    "no key: responses": post("/v1/responses", {"model": "any", "input": "x"}),
    "no key: messages": post("/v1/messages", OK | {"max_tokens": 9}),
    "no key: count_tokens": post("/v1/messages/count_tokens"),
    "no key: embeddings": post("/v1/embeddings", {"model": "any", "input": "x"}),
    "no key: outcomes": post("/v1/outcomes", {"decision_id": "x", "quality": 1}),
    "no key: models": get("/v1/models"),
    "no key: metrics": get("/metrics"),
    "no key, and a host that looks like a path": lambda at: request("GET", "/metrics").replace(b"sage.example", b"a/?"),
    "a wrong key": keyed(lambda key: f"Bearer {key[:-1]}{'0' if key[-1] != '0' else '1'}"),
    "a key that is cut": keyed(lambda key: f"Bearer {key[:-1]}"),
    "a key with more behind it": keyed(lambda key: f"Bearer {key}0"),
    "a key in capitals": keyed(lambda key: f"Bearer {key.upper()}"),
    "a key of an unknown id": keyed(lambda key: f"Bearer sk-sage-00000000-{key.rpartition('-')[2]}"),
    "a key without its scheme": keyed(lambda key: key),
    "a key as a password": keyed(lambda key: f"Basic {key}"),
    "an empty key": keyed(lambda key: "Bearer "),
    "a list of keys": keyed(lambda key: f"Bearer wrong, Bearer {key}"),
    "the hash of a key": stored_hash,
    "a revoked key": post(key="gone"),
    "the upstream's key": post(CHAT_PATH, OK, f"authorization: Bearer {UPSTREAM_KEY}"),
    "a key in the address": lambda at: request(
        "POST", f"{CHAT_PATH}?api_key={at.keys['ada']}&key={at.keys['ada']}", OK
    ),
    "a key in a cookie": post(CHAT_PATH, OK, "cookie: authorization={ada}; x-api-key={ada}"),
    "a key in the body": lambda at: request(
        "POST", CHAT_PATH, OK | {"api_key": at.keys["ada"], "user": at.keys["ada"]}
    ),
    "a key in another header": post(CHAT_PATH, OK, "x-sage-key: {ada}", "proxy-authorization: Bearer {ada}"),
    "a key behind the body": lambda at: request(
        "POST",
        CHAT_PATH,
        CHUNK[:-2] + f"authorization: Bearer {at.keys['ada']}\r\n\r\n".encode(),
        "transfer-encoding: chunked",
    ),
    "an unsigned webhook": post("/v1/webhooks/ci", {"task_id": "t", "conclusion": "success"}),
    "a webhook with a key": post("/v1/webhooks/ci/team", {"task_id": "t", "conclusion": "success"}, key="ada"),
    "a webhook that another tenant signed": lambda at: request(
        "POST",
        "/v1/webhooks/ci/other",
        b"{}",
        f"x-hub-signature-256: {signature(tenant_secret(MASTER, 'team'), b'{}')}",
    ),
    "a webhook whose body was changed": lambda at: request(
        "POST", "/v1/webhooks/ci", b'{"a":1}', f"x-hub-signature-256: {signature(MASTER, b'{}')}"
    ),
}
AMBIGUOUS: dict[str, Callable[[Server], bytes]] = {
    "two keys": post(CHAT_PATH, OK, "x-api-key: {bob}", key="ada"),
    "authorization twice": post(CHAT_PATH, OK, "authorization: Bearer {bob}", key="ada"),
    "length and chunks": raw(HEAD + "content-length: 5\ntransfer-encoding: chunked\n\n", CHUNK),
    "chunks and length": raw(HEAD + "transfer-encoding: chunked\ncontent-length: 5\n\n", CHUNK),
    "two lengths": raw(HEAD + f"content-length: {len(BODY)}\ncontent-length: 5\n\n"),
    "one length twice": raw(HEAD + f"content-length: {len(BODY)}\ncontent-length: {len(BODY)}\n\n"),
    "a list of lengths": raw(HEAD + f"content-length: {len(BODY)}, 5\n\n"),
    "a length with a sign": raw(HEAD + f"content-length: +{len(BODY)}\n\n"),
    "a negative length": raw(HEAD + "content-length: -1\n\n"),
    "a length in hex": raw(HEAD + "content-length: 0x10\n\n"),
    "a length behind a blank": raw(HEAD + "content-length : 5\n\n"),
    "a length with an underscore": raw(HEAD + f"content_length: 5\ncontent-length: {len(BODY)}\n\n"),
    "an encoding that is not known": raw(HEAD + "transfer-encoding: xchunked\n\n", CHUNK),
    "two encodings": raw(HEAD + "transfer-encoding: chunked\ntransfer-encoding: identity\n\n", CHUNK),
    "an encoding of two": raw(HEAD + "transfer-encoding: gzip, chunked\n\n", CHUNK),
    "a size of a chunk that overflows": raw(
        HEAD + "transfer-encoding: chunked\n\n", b"fffffffffffffffff\r\nx\r\n0\r\n\r\n"
    ),
    "a size of a chunk that is none": raw(HEAD + "transfer-encoding: chunked\n\n", b"zz\r\nx\r\n0\r\n\r\n"),
    "a folded header": raw(HEAD + f"x-a: 1\n authorization: Bearer no\ncontent-length: {len(BODY)}\n\n"),
    "a null in a header": raw(HEAD + f"x-session-id: a\x00b\ncontent-length: {len(BODY)}\n\n"),
    "a bare CR in a header": raw(HEAD + f"x-session-id: a\rx-sage-role: planner\ncontent-length: {len(BODY)}\n\n"),
    "a blank in a name": raw(HEAD + f"x a: 1\ncontent-length: {len(BODY)}\n\n"),
    "two hosts": raw(HEAD + f"host: y\ncontent-length: {len(BODY)}\n\n"),
    "no host": raw(HEAD.replace("host: x\n", "") + f"content-length: {len(BODY)}\n\n"),
    "another protocol": lambda at: b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "no protocol": lambda at: b"GET /metrics\r\n\r\n",
    "a request that is to be shown": lambda at: request("TRACE", "/v1/models", b"", key=at.keys["ada"]),
    "a tunnel": lambda at: request("CONNECT", "127.0.0.1:22", b"", key=at.keys["ada"]),
    "a compressed body": post(CHAT_PATH, b"\x1f\x8b", "content-encoding: gzip", key="ada"),
}
PATHS = [
    "/../../../../etc/passwd",
    "/..%2f..%2f..%2fetc%2fpasswd",
    "/%2e%2e/%2e%2e/etc/passwd",
    "//etc/passwd",
    "/v1/../sage-keys.json",
    "/sage-keys.json",
    "/sage.db",
    "/models.yaml",
    "/v1/models/../../upstream-key",
    "/v1/webhooks/ci/../../chat/completions",
    "/v1/webhooks/ci/..%2f..%2fchat%2fcompletions",
    "/v1/chat/completions%00/",
    "/V1/CHAT/COMPLETIONS",
    "/%ff%fe",
]
OVERSIZED: dict[str, Callable[[Server], bytes]] = {
    "a body of a terabyte": raw(HEAD + "content-length: 1000000000000\n\n"),
    "a body beyond all numbers": raw(HEAD + f"content-length: {10**30}\n\n"),
    "chunks without end": raw(HEAD + "transfer-encoding: chunked\n\n", (b"100000\r\n" + b" " * 2**20 + b"\r\n") * 33),
    "a report that is too large": post("/v1/outcomes", b" " * (2**20 + 1), key="ada"),
    "many headers": post(CHAT_PATH, OK, *[f"x-{i}: 1" for i in range(101)], key="ada"),
    "a long header": post(CHAT_PATH, OK, "x-session-id: " + "a" * 40_000, key="ada"),
    "a head without end": lambda at: b"POST / HTTP/1.1\r\nx: " + b"a" * 200_000,
    "an address without end": lambda at: b"GET /" + b"a" * 200_000,
    "deep JSON": post(CHAT_PATH, DEEP, key="ada"),
    "deep JSON in a report": post("/v1/outcomes", DEEP, key="ada"),
    "a number of 10,000 digits": post(CHAT_PATH, b'{"model": "any", "n": ' + b"1" * 10_000 + b"}", key="ada"),
    "bytes that are no text": post(CHAT_PATH, b'{"model": "\xff\xfe"}', key="ada"),
    "a list of 1,001 reports": post("/v1/outcomes", {"outcomes": [{}] * 1001}, key="ada"),
}


def test_there_are_enough_attempts() -> None:
    assert sum(map(len, (UNAUTHENTICATED, AMBIGUOUS, PATHS, OVERSIZED, SLOW, REACHING, MEANT))) >= 90


def refused(at: Server, sent: bytes, statuses: tuple[int, ...]) -> bytes:
    """The answer; nothing reached an upstream, and nothing that the client should not know is in it."""
    asked = len(at.upstream.asked)
    answer = at.send(sent)
    assert status(answer) in statuses, answer[:500]
    assert len(at.upstream.asked) == asked
    check_says_nothing(at, answer)
    return answer


@pytest.mark.parametrize("attempt", UNAUTHENTICATED)
def test_without_a_valid_key_nothing_is_served(at: Server, attempt: str) -> None:
    refused(at, UNAUTHENTICATED[attempt](at), (401,))


def test_keys_are_for_what_their_role_says(at: Server) -> None:
    """A key that Prometheus has calls nothing, and one that calls does not read what others spend."""
    made, totals = at.decided("bob"), b'sage_cost_usd_total{model="first"'
    report = {"decision_id": made, "quality": 1.0}
    for key, path, body, expected in [
        ("prometheus", CHAT_PATH, OK, 403),
        ("prometheus", "/v1/messages/count_tokens", OK, 403),
        ("prometheus", "/v1/outcomes", report, 403),
        ("ada", "/v1/outcomes", report, 404),
        ("operator", "/v1/outcomes", report, 200),
        ("operator", CHAT_PATH, OK, 200),
    ]:
        answer = at.ask(path, body, key=key)
        assert status(answer) == expected, (key, path, answer)
        assert (b"this key has the role metrics, and the path needs call or operator" in answer) == (expected == 403)
    for key, path, expected in [
        ("prometheus", "/metrics", 200),
        ("operator", "/metrics", 200),
        ("ada", "/metrics", 403),
        ("ada", "/%6detrics", 403),
        ("prometheus", "/v1/models", 403),
        ("prometheus", "/v1/models/sage", 403),
        ("prometheus", f"/v1/shadows/{made}", 403),
        ("ada", "/v1/models", 200),
        ("operator", "/v1/models", 200),
    ]:
        answer = at.send(request("GET", path, b"", key=at.keys[key]))
        assert status(answer) == expected, (key, path, answer)
        assert (totals in answer) == (expected == 200 and path == "/metrics")


def test_no_answer_sends_a_client_to_where_the_header_host_says(at: Server) -> None:
    for path in ("/v1/models/", "/metrics/", "/v1/models/sage/", "/v1/chat/completions/", "/healthz/", "//v1/models"):
        for method in ("GET", "POST"):
            answer = at.send(
                request(method, path, b"", key=at.keys["operator"]).replace(b"sage.example", b"evil.example")
            )
            assert status(answer) in (200, 404, 405), path
            assert b"evil.example" not in answer
            assert b"\r\nlocation:" not in answer.lower()


@pytest.mark.parametrize("attempt", AMBIGUOUS)
def test_requests_of_two_meanings_are_refused(at: Server, attempt: str) -> None:
    refused(at, AMBIGUOUS[attempt](at), (0, 400, 404, 405, 408, 415))


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_no_path_leads_out(at: Server, path: str, method: str) -> None:
    answer = refused(
        at, request(method, path, OK if method == "POST" else b"", key=at.keys["ada"]), (400, 401, 404, 405)
    )
    assert b"root:" not in answer


@pytest.mark.parametrize("attempt", OVERSIZED)
def test_what_is_too_large_is_not_read(at: Server, attempt: str) -> None:
    refused(at, OVERSIZED[attempt](at), (0, 400, 408, 413, 431))


SLOW: dict[str, tuple[bytes, ...]] = {
    "nothing": (),
    "a head that stops": (b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\n",),
    "a body that stops": (b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n1234",),
    "chunks that stop": (b"POST /v1/outcomes HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n",),
}


@pytest.mark.parametrize("attempt", SLOW)
def test_nobody_holds_a_connection_by_being_slow(at: Server, attempt: str) -> None:
    with socket.create_connection(("127.0.0.1", at.port), timeout=10) as connection:
        for part in SLOW[attempt]:
            connection.sendall(part)
        answer = b""
        while more := connection.recv(65536):  # a time-out of this test would be an error
            answer += more
    assert b" 200 " not in answer


@pytest.mark.parametrize("model", [b'"model":"any"', b'"model":"any","model":"other"'])
def test_json_that_is_just_not_too_deep_breaks_nothing(at: Server, model: bytes) -> None:
    """Python reads about 1,000 levels; what was read has to be written again, too."""
    for depth in (100, *range(900, 1000, 3)):
        deep = b"[" * depth + b"]" * depth
        body = b'{%s,"messages":[{"role":"user","content":"x"}],"deep":%s}' % (model, deep)
        answer = at.ask(CHAT_PATH, body)
        assert status(answer) in (200, 400), depth
        check_says_nothing(at, answer)


def test_a_slow_keyed_body_is_given_up(at: Server) -> None:
    head = raw(HEAD + "content-length: 100\n\n", b"{")(at)
    refused(at, head, (408,))


def test_a_request_behind_another_needs_a_key_of_its_own(at: Server) -> None:
    first = request("GET", "/v1/models", b"", key=at.keys["ada"])
    with socket.create_connection(("127.0.0.1", at.port), timeout=10) as connection:
        connection.sendall(first + request("GET", "/v1/models"))
        answer = b""
        while answer.count(b"HTTP/1.1 ") < 2 or not complete(answer[answer.rindex(b"HTTP/1.1 ") :]):
            answer += connection.recv(65536)
    assert re.findall(rb"HTTP/1.1 (\d+)", answer) == [b"200", b"401"]


def test_a_key_that_is_revoked_opens_no_more(at: Server) -> None:
    models = request("GET", "/v1/models", key=at.keys["leaving"])
    assert status(at.send(models)) == 200
    KeyFile(at.folder / "sage-keys.json").revoke("leaving")
    refusals = iter(lambda: status(at.send(models)), 401)  # asked until it is refused
    assert all(code == 200 for code in refusals)


def test_a_key_has_its_requests_per_minute(at: Server) -> None:
    models = request("GET", "/v1/models", key=at.keys["limited"])
    assert [status(at.send(models)) for _ in range(2)] == [200, 200]
    answer = refused(at, request("POST", CHAT_PATH, OK, key=at.keys["limited"]), (429,))
    assert 1 <= int(found(rb"retry-after: (\d+)", answer)) <= 30


MEANT: dict[str, Callable[[str], dict]] = {
    "a quality": lambda made: {"decision_id": made, "quality": 0.0},
    "a correction": lambda made: {"decision_id": made, "quality": 0.0, "correct": True},
    "a cost": lambda made: {"decision_id": made, "cost_usd": 1e6},
    "a verdict": lambda made: {"decision_id": made, "verdicts": {"tests": False}},
    "a shadow": lambda made: {"decision_id": made, "quality": 0.0, "shadow": True},
    "a time-out": lambda made: {"decision_id": made, "timed_out": True},
}


@pytest.mark.parametrize("attempt", MEANT)
def test_nobody_reports_about_decisions_of_others(at: Server, attempt: str) -> None:
    made = at.decided("bob")
    report = MEANT[attempt](made)
    assert b"no such decision" in refused(at, request("POST", "/v1/outcomes", report, key=at.keys["ada"]), (404,))
    many = at.ask("/v1/outcomes", {"outcomes": [report]})
    assert b"no such decision" in many
    outcome = at.logged(made)[1]
    assert outcome is None or (outcome.quality, outcome.verdicts, outcome.shadow) == (None, (), None)


def test_nobody_lowers_what_is_counted_of_a_budget(at: Server) -> None:
    made = at.decided("bob")
    for report in ({"cost_usd": 0.0}, {"cost_usd": 0.0, "correct": True}):
        refused(at, request("POST", "/v1/outcomes", {"decision_id": made} | report, key=at.keys["bob"]), (400,))


def test_ci_of_one_tenant_judges_no_other(at: Server) -> None:
    made = at.decided("bob")
    body = json.dumps({"decision_id": made, "conclusion": "failure"}).encode()
    signed = f"x-hub-signature-256: {signature(tenant_secret(MASTER, 'team'), body)}"
    assert b'"decisions":0' in at.send(request("POST", "/v1/webhooks/ci/team", body, signed))
    outcome = at.logged(made)[1]
    assert outcome is None or outcome.quality is None


@pytest.mark.parametrize(
    "lines", [("x-sage-tenant: other",), ("x-tenant-id: other", "openai-organization: other", "x-forwarded-user: bob")]
)
def test_whose_a_request_is_comes_from_its_key_alone(at: Server, lines: tuple[str, ...]) -> None:
    body = OK | {"tenant": "other", "user": "other", "metadata": {"tenant": "other", "user_id": "bob"}}
    made = found(rb"x-sage-decision-id: (\w+)", at.ask(CHAT_PATH, body, *lines))
    assert at.logged(made)[0].tenant == "team"


REACHING: dict[str, tuple[dict, tuple[str, ...]]] = {
    "fields of the body": (
        dict.fromkeys(("base_url", "api_base", "url", "upstream", "endpoint", "proxy", "callback_url"), "TRAP"),
        (),
    ),
    "the name of a model": ({"model": "TRAP"}, ("x-sage-pin: 1",)),
    "headers": ({}, ("x-sage-upstream: TRAP", "x-forwarded-host: TRAP", "x-original-url: TRAP", "x-rewrite-url: TRAP")),
    "the host": ({}, ("x-host: TRAP", "forwarded: host=TRAP")),
    "an image": (
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "TRAP"}}]}]},
        (),
    ),
    "a redirect of the upstream": ({"messages": [{"role": "user", "content": "redirect me"}]}, ()),
    "the query": ({}, ()),
    "the first line": ({}, ()),
}


@pytest.mark.parametrize("attempt", REACHING)
def test_the_server_asks_nobody_but_its_upstreams(at: Server, attempt: str) -> None:
    more, lines = REACHING[attempt]
    inside = f"http://127.0.0.1:{TRAP.port}/latest/meta-data/"
    body = json.loads(json.dumps(OK | more).replace("TRAP", inside))
    path = f"{CHAT_PATH}?url={inside}" if attempt == "the query" else CHAT_PATH
    path = f"{inside}v1/chat/completions" if attempt == "the first line" else path
    answer = at.ask(path, body, *(line.replace("TRAP", inside) for line in lines))
    assert TRAP.visits == []
    if attempt == "a redirect of the upstream":
        assert status(answer) == 502


@pytest.mark.parametrize("how", ["", "as 400", "as 500"])
def test_an_upstream_that_repeats_its_key_gives_nothing_away(at: Server, how: str) -> None:
    answer = at.ask(CHAT_PATH, OK | {"messages": [{"role": "user", "content": f"echo the key {how}"}]})
    assert status(answer) >= 400
    assert UPSTREAM_KEY.encode() not in answer


def test_no_line_of_a_header_is_made_from_a_request(at: Server) -> None:
    injected = "a%0d%0ax-evil: 1"
    answer = at.ask(
        f"{CHAT_PATH}?q={injected.replace(' ', '')}", OK, f"x-session-id: {injected}", f"x-request-id: {injected}"
    )
    assert b"\r\nx-evil" not in answer
    assert "x-evil" not in at.upstream.asked[-1].headers


def test_what_is_for_sage_does_not_reach_an_upstream(at: Server) -> None:
    at.ask(CHAT_PATH, OK, "cookie: session=1", "x-forwarded-for: 10.0.0.1", "x-sage-task-id: t")
    asked = at.upstream.asked[-1]
    for secret in at.keys.values():
        assert secret not in repr(asked)
    assert {"cookie", "x-forwarded-for", "x-sage-task-id", "x-api-key"} & set(asked.headers) == set()


@pytest.mark.parametrize("protocol", ["websocket", "h2c", "TLS/1.2"])
def test_a_connection_is_not_upgraded(at: Server, protocol: str) -> None:
    lines = ("connection: upgrade", f"upgrade: {protocol}", "sec-websocket-key: x", "sec-websocket-version: 13")
    assert status(at.send(request("GET", "/v1/models", b"", *lines))) in (0, 400, 401, 408)


@pytest.mark.parametrize("secret", [*SECRETS, "the key of the caller"])
def test_secrets_in_a_request_reach_no_log(at: Server, secret: str, caplog: pytest.LogCaptureFixture) -> None:
    secret = at.keys["ada"] if secret == "the key of the caller" else secret
    body = {"model": "any", "messages": [{"role": "user", "content": f"use the key {secret} for it"}], "user": secret}
    lines = (f"x-session-id: {secret}", f"x-sage-task-id: {secret}", f"x-sage-category: {secret}")
    made = found(rb"x-sage-decision-id: (\w+)", at.ask(CHAT_PATH, body, *lines))
    report = {"decision_id": made, "quality": 1.0, "source": secret, "verdicts": {"tests": True}}
    assert secret.encode() not in at.ask("/v1/outcomes", report)
    refused(at, request("POST", "/v1/outcomes", report | {"verdicts": {secret: True}}, key=at.keys["ada"]), (400,))
    refused(at, request("POST", "/v1/outcomes", report | {"model": secret}, key=at.keys["ada"]), (400,))
    refused(at, request("POST", "/v1/outcomes", report | {secret: True}, key=at.keys["ada"]), (400,))
    at.ask(CHAT_PATH, body | {"messages": secret})
    at.ask(CHAT_PATH, body, f"x-sage-role: {secret}")
    assert at.logged(made)[0].prompt == "use the key [secret removed] for it"
    stored = b"".join(path.read_bytes() for path in at.folder.glob("sage.db*"))
    assert made.encode() in stored
    assert secret.encode() not in stored
    assert secret not in caplog.text
    assert secret.encode() not in at.send(request("GET", "/metrics", b"", key=at.keys["operator"]))


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "ftp://h/",
        "gopher://h/",
        "//h/v1",
        "http://user:pass@h/v1",
        "http://h/v1?key=x",
        "http://",
        "h",
        5,
    ],
)
def test_upstreams_are_addresses_of_the_web_without_secrets(url: object) -> None:
    model = {"input_usd_per_mtok": 1, "output_usd_per_mtok": 1, "upstream": {"url": url}}
    text = json.dumps({"models": {"m": model}, "roles": {"default": {"primary": "m"}}})
    with pytest.raises(ModelsFileError, match=r"upstream\.url") as raised:
        ModelsFile.parse(text)
    assert "pass@" not in str(raised.value)
