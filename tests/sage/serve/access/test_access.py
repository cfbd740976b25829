"""Who is admitted: with a key, without one on this machine, and nobody whose head could be read in two ways."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from sage.serve.access.access import Access, AccessError, Caller, Refusal
from sage.serve.access.bodies import parse_object, read_body
from sage.serve.access.keys import KeyFile, LiveKeys

HOST = (b"host", b"127.0.0.1:8484")


def keyless(*headers: tuple[bytes, bytes], client: str = "127.0.0.1") -> Caller | Refusal:
    given = headers if any(name == b"host" for name, _ in headers) else (HOST, *headers)
    return Access().admit(given, client, "/v1/chat/completions")


@pytest.fixture
def file(tmp_path: Path) -> KeyFile:
    return KeyFile(tmp_path / "keys.json")


def admitted(access: Access, *headers: tuple[bytes, bytes], path: str = "/v1/models") -> Caller | Refusal:
    return access.admit((HOST, *headers), "192.0.2.1", path)


def test_programs_of_this_machine_need_no_key_where_there_are_none() -> None:
    for host in (b"127.0.0.1:8484", b"localhost:8484", b"[::1]:8484", b"127.8.8.8"):
        assert keyless((b"host", host)) == Caller("", None)
    assert keyless((b"origin", b"http://localhost:3000")) == Caller("", None)


@pytest.mark.parametrize(
    ("headers", "client", "why"),
    [
        ((), "192.0.2.1", "comes from another machine"),
        (((b"x-forwarded-for", b"192.0.2.1"),), "127.0.0.1", "forwarded"),
        (((b"via", b"1.1 proxy"),), "127.0.0.1", "forwarded"),
        (((b"host", b"evil.example:8484"),), "127.0.0.1", "another host"),
        (((b"host", b"127.0.0.1.evil.example"),), "127.0.0.1", "another host"),
        (((b"host", b"evil.example@127.0.0.1]"),), "127.0.0.1", "another host"),
        (((b"origin", b"https://evil.example"),), "127.0.0.1", "page of another site"),
        (((b"origin", b"null"),), "127.0.0.1", "page of another site"),
    ],
)
def test_nobody_else_does(headers: tuple, client: str, why: str) -> None:
    refusal = keyless(*headers, client=client)
    assert isinstance(refusal, Refusal)
    assert refusal.status == 403
    assert why in refusal.message


@pytest.mark.parametrize(
    "headers",
    [
        ((b"host", b"127.0.0.1"), (b"host", b"127.0.0.1")),
        ((b"host", b""),),
        ((b"content-length", b"5"), (b"content-length", b"5")),
        ((b"content-length", b"5"), (b"transfer-encoding", b"chunked")),
        ((b"content-length", b"+5"),),
        ((b"transfer-encoding", b"gzip, chunked"),),
        ((b"transfer-encoding", b"chunked"), (b"transfer-encoding", b"identity")),
        ((b"authorization", b"Bearer a"), (b"authorization", b"Bearer b")),
        ((b"x-api-key", b"a"), (b"x-api-key", b"b")),
        ((b"x-sage-role", b"coder\r\nx-evil: 1"),),
        ((b"content_length", b"5"),),
        ((b"x\x00y", b"1"), (b"content-length ", b"5")),
    ],
)
def test_heads_of_two_meanings_are_refused(headers: tuple) -> None:
    refusal = keyless(*headers)
    assert isinstance(refusal, Refusal)
    assert refusal.status == 400


def test_large_heads_are_refused() -> None:
    for headers in ([(b"x-%d" % i, b"1") for i in range(100)], [(b"x-long", b"a" * 32 * 1024)]):
        refusal = keyless(*headers)
        assert isinstance(refusal, Refusal)
        assert refusal.status == 431


def test_both_headers_carry_a_key(file: KeyFile) -> None:
    key, text = file.add("ada", tenant="team")
    access = Access(LiveKeys(file.path))
    caller = Caller("team", key.id, role="call")
    secret = text.encode()
    assert admitted(access, (b"authorization", b"Bearer " + secret)) == caller
    assert admitted(access, (b"authorization", b"bearer  " + secret)) == caller
    assert admitted(access, (b"x-api-key", secret)) == caller
    assert admitted(access, (b"x-api-key", secret), (b"authorization", b"Bearer " + secret)) == caller


def test_without_a_valid_key_nothing_is_served(file: KeyFile) -> None:
    _, text = file.add("ada")
    _, other = file.add("bob")
    access = Access(LiveKeys(file.path))
    wrong: list[tuple[tuple[bytes, bytes], ...]] = [
        (),
        ((b"authorization", b""),),
        ((b"authorization", b"Basic " + text.encode()),),
        ((b"authorization", text.encode()),),
        ((b"authorization", b"Bearer " + text.encode()[:-1]),),
        ((b"x-api-key", b"\xff\xfe"),),
        ((b"cookie", text.encode()),),
    ]
    for headers in wrong:
        refusal = admitted(access, *headers)
        assert isinstance(refusal, Refusal)
        assert refusal.status == 401, headers
        assert text not in refusal.message
    two = admitted(access, (b"x-api-key", text.encode()), (b"authorization", b"Bearer " + other.encode()))
    assert isinstance(two, Refusal)
    assert two.status == 400
    assert admitted(access, path="/") == Caller("", None)  # says that a server is there


def test_a_limit_is_per_key_and_says_how_long_to_wait(file: KeyFile) -> None:
    _, text = file.add("ada", tenant="team", requests_per_minute=2)
    _, other = file.add("bob", tenant="team")
    access = Access(LiveKeys(file.path), clock=lambda: 1000.0)
    asked = [admitted(access, (b"x-api-key", text.encode())) for _ in range(3)]
    assert [isinstance(answer, Caller) for answer in asked] == [True, True, False]
    refusal = asked[2]
    assert isinstance(refusal, Refusal)
    assert (refusal.status, refusal.retry_after_s) == (429, pytest.approx(30.0))
    assert isinstance(admitted(access, (b"x-api-key", other.encode())), Caller)


def test_a_server_that_others_can_reach_needs_a_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert Access.open("127.0.0.1", None).keys is None
    for host in ("0.0.0.0", "::", "192.0.2.7", "example.org", ""):
        with pytest.raises(AccessError, match="sage keys add"):
            Access.open(host, None)
    with pytest.raises(
        AccessError, match="holds no valid key"
    ):  # a name that was mistyped is not a server without keys
        Access.open("127.0.0.1", tmp_path / "other.json")
    file = KeyFile("sage-keys.json")
    file.add("ada")
    assert Access.open("0.0.0.0", None).keys is not None
    assert Access.open("127.0.0.1", None).keys is not None
    limits = Path("sage-keys.json-limits")
    limits.unlink()
    limits.mkdir()
    with pytest.raises(AccessError, match="a folder that the server may write to"):
        Access.open("0.0.0.0", None)
    limits.rmdir()
    file.revoke("ada")
    with pytest.raises(AccessError, match="holds no valid key"):
        Access.open("0.0.0.0", None)
    file.path.chmod(0o644)
    with pytest.raises(AccessError, match="chmod 600"):
        Access.open("127.0.0.1", None)


def body_of(parts: list[bytes], *headers: tuple[bytes, bytes], most: int = 10) -> bytes | Refusal:
    messages = [{"type": "http.request", "body": part, "more_body": True} for part in parts]
    messages[-1]["more_body"] = False
    left = iter(messages)

    async def receive() -> dict:
        return next(left)

    return asyncio.run(read_body(receive, headers, most))


def test_bodies_have_a_limit_said_or_not() -> None:
    assert body_of([b"12345", b"67890"]) == b"1234567890"
    for refused in (body_of([b"12345", b"678901", b""]), body_of([b""], (b"content-length", b"11"))):
        assert isinstance(refused, Refusal)
        assert refused.status == 413


def test_compressed_bodies_are_refused() -> None:
    refused = body_of([b"x"], (b"content-encoding", b"gzip"))
    assert isinstance(refused, Refusal)
    assert refused.status == 415
    assert body_of([b"x"], (b"content-encoding", b"identity")) == b"x"


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{", b"[" * 100_000, b'{"a":' * 5000, b"\xff", b'{"a": ' + b"1" * 5000 + b"}"]
)
def test_bodies_that_are_no_object_are_refused(body: bytes) -> None:
    refusal = parse_object(body)
    assert isinstance(refusal, Refusal)
    assert refusal.status == 400
