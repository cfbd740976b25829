"""Requests whose last word says how the upstream answers, and keys to send them with."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sage.serve.access.access import Access
from sage.serve.access.keys import KeyFile, LiveKeys
from tests.sage.serve.answers import BODIES, CHAT, MESSAGE, PATHS
from tests.sage.serve.scripted import Asked, Proxy, Reply, Script, call, whole

ERROR = {"error": {"message": "no", "type": "server_error"}}
GOOD = {"/v1/messages": whole(MESSAGE), "/v1/chat/completions": whole(CHAT)}


def with_keys(folder: Path, names: list[str]) -> tuple[Access, dict[str, str]]:
    """Access for callers of these names, and for `metrics`, who may read /metrics only."""
    file = KeyFile(folder / "keys.json")
    keys = {name: file.add(name)[1] for name in names} | {"metrics": file.add("metrics", role="metrics")[1]}
    return Access(LiveKeys(file.path)), {name: f"Bearer {key}" for name, key in keys.items()}


def on_demand(replies: Mapping[str, Reply]) -> Script:
    """Answers a request as its last word wishes, and all others well."""
    return lambda asked: replies.get(word_of(asked)) or GOOD[asked.path]


def word_of(asked: Asked) -> str:
    return "count_tokens" if "count_tokens" in asked.path else asked.values["messages"][-1]["content"]


def ask(served: Proxy, key: str, word: str = "good", dialect: str = "chat", **more: object) -> int:
    body = BODIES[dialect] | {"messages": [{"role": "user", "content": word}]} | more
    return call(served, PATHS[dialect], body, authorization=key)[0]


def metrics_of(served: Proxy, key: str = "") -> str:
    return call(served, "/metrics", method="GET", authorization=key)[2].decode()
