"""`sage serve` as it is started, for all machines, with two tenants, an upstream of bad will, and a trap inside."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import uvicorn

from sage.log.budget_settings import TenantBudget
from sage.log.decision_log import DecisionLog
from sage.log.records import Decision, Outcome
from sage.serve.access import guarded_protocol
from sage.serve.access.keys import KeyFile
from sage.serve.places import Places
from sage.serve.server import Options, new_server
from tests.sage.serve.answers import CHAT, table
from tests.sage.serve.scripted import Asked, Reply, Upstream, whole

UPSTREAM_KEY = "upstream-key-that-nobody-sees-0123456789"
MASTER = "secret-of-the-webhooks"
OK = {"model": "any", "messages": [{"role": "user", "content": "hello"}]}
CHAT_PATH = "/v1/chat/completions"


def script(asked: Asked) -> Reply:
    """What an upstream does, by what the prompt asks for; it may be of bad will."""
    text = asked.body.decode()
    if "redirect me" in text:
        return Reply((b"",), 302, headers={"location": f"http://127.0.0.1:{TRAP.port}/latest/meta-data/"})
    if "echo the key" in text:
        said = {"error": {"message": f"bad key {asked.headers.get('authorization')} {UPSTREAM_KEY}"}}
        return whole(said, 400 if "as 400" in text else 500 if "as 500" in text else 401, x_echo=UPSTREAM_KEY)
    return whole(CHAT)


@dataclass
class Trap:
    """A server inside, which nothing may ask."""

    port: int = 0
    visits: list[bytes] = field(default_factory=list)


TRAP = Trap()


@dataclass
class Server:
    port: int
    folder: Path
    keys: dict[str, str]
    upstream: Upstream

    def send(self, *parts: bytes, wait_s: float = 10.0) -> bytes:
        """Everything that comes back until the server hangs up, or one answer is complete."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=wait_s) as connection:
            found = b""
            try:
                for part in parts:
                    connection.sendall(part)
                while not complete(found):
                    more = connection.recv(65536)
                    if not more:
                        break
                    found += more
            except OSError:
                pass
        return found

    def ask(self, path: str, body: object, *lines: str, key: str | None = "ada") -> bytes:
        return self.send(request("POST", path, body, *lines, key=self.keys.get(key or "")))

    def decided(self, tenant: str) -> str:
        """The id of a new decision."""
        return found(rb"x-sage-decision-id: (\w+)", self.ask(CHAT_PATH, OK, key=tenant))

    def logged(self, decision_id: str) -> tuple[Decision, Outcome | None]:
        log = DecisionLog(self.folder / "sage.db")
        return next((made, outcome) for made, outcome in log.rows() if made.id == decision_id)


def request(method: str, path: str, body: object = b"", *lines: str, key: str | None = None) -> bytes:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = [f"{method} {path} HTTP/1.1", "host: sage.example", *lines]
    head += [f"authorization: Bearer {key}"] if key else []
    head += (
        []
        if any(re.match("(content-length|transfer-encoding)", line, re.I) for line in lines)
        else [f"content-length: {len(content)}"]
    )
    return "\r\n".join([*head, "", ""]).encode("latin-1") + content


def complete(answer: bytes) -> bool:
    head, separator, body = answer.partition(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head)
    return bool(separator) and length is not None and len(body) >= int(length[1])


def found(pattern: bytes, answer: bytes) -> str:
    match = re.search(pattern, answer)
    assert match, answer
    return match[1].decode()


def status(answer: bytes) -> int:
    """0 where the server hung up without an answer."""
    return int(answer.split(b" ", 2)[1]) if answer else 0


def check_says_nothing(at: Server, answer: bytes) -> None:
    """Nothing that a client should not know is in it."""
    for secret in (UPSTREAM_KEY, MASTER, str(at.folder), "Traceback", *at.keys.values()):
        assert secret.encode() not in answer


@contextmanager
def attacked(folder: Path) -> Iterator[Server]:
    """Ada's key is of one tenant, Bob's of another, which has a budget; one of Ada's is revoked."""
    file = KeyFile(folder / "sage-keys.json")
    keys = {
        "ada": file.add("ada", tenant="team")[1],
        "bob": file.add("bob", tenant="other", budget=TenantBudget(usd=100.0))[1],
        "gone": file.add("gone", tenant="team")[1],
        "leaving": file.add("leaving", tenant="team")[1],
        "limited": file.add("limited", tenant="team", requests_per_minute=2)[1],
        "prometheus": file.add("prometheus", role="metrics")[1],
        "operator": file.add("operator", role="operator")[1],
        "small": file.add("small", tenant="team", allow=["second", "sage-small"])[1],
    }
    file.revoke("gone")
    for name, secret in (("upstream-key", UPSTREAM_KEY), ("ci-secret", MASTER)):
        (folder / name).write_text(secret)
        (folder / name).chmod(0o600)
    upstream, ready = Upstream(script), threading.Event()
    listening, trap = socket.create_server(("127.0.0.1", 0)), socket.create_server(("127.0.0.1", 0))
    TRAP.port = trap.getsockname()[1]
    servers: list[uvicorn.Server] = []

    async def serve() -> None:
        scripted = await upstream.start()
        url = f"http://127.0.0.1:{scripted.sockets[0].getsockname()[1]}/v1"
        settings = "{retries: 0, webhook_key_file: ci-secret, breaker_failures: 1000}"
        text = table(url, serve=settings, more="log: {store_prompts: true, store_words: true}\n")
        (folder / "models.yaml").write_text(text.replace("key_env: UP_KEY", "key_file: upstream-key"))
        options = Options(Places(folder / "models.yaml", folder / "sage.db"), "0.0.0.0", file.path)
        servers.append(new_server(options))
        serving = asyncio.ensure_future(servers[0].serve(sockets=[listening]))
        visiting = await asyncio.start_server(lambda r, w: TRAP.visits.append(b"visited"), sock=trap)
        while not servers[0].started and not serving.done():
            await asyncio.sleep(0.005)
        _, noticed = await asyncio.open_connection(
            "127.0.0.1", TRAP.port
        )  # a trap that notices nobody would be no proof
        while not TRAP.visits:
            await asyncio.sleep(0.001)
        noticed.close()
        TRAP.visits.clear()
        ready.set()
        await serving
        scripted.close()
        visiting.close()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(guarded_protocol.GuardedProtocol, "head_s", 0.3)
        patch.setattr(guarded_protocol.GuardedProtocol, "body_s", 0.3)
        thread = threading.Thread(target=asyncio.run, args=(serve(),), daemon=True)
        thread.start()
        assert ready.wait(30)
        yield Server(listening.getsockname()[1], folder, keys, upstream)
        servers[0].should_exit = True
        thread.join(30)
    assert TRAP.visits == []
