"""Admission of requests: keys, the rule for servers without keys, and refusal of headers that two programs may read
differently."""

from __future__ import annotations

import ipaddress
import math
import re
import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from sage.log.budget_settings import TenantBudget
from sage.serve.access.keys import CALL, KEY_FILE, METRICS, OPERATOR, Key, Keys, LiveKeys
from sage.serve.access.rate_limits import Buckets

Headers = Sequence[tuple[bytes, bytes]]  # as ASGI gives them: names in lower case
MOST_HEADERS = 100
MOST_HEADER_BYTES = 32 * 1024
LOCAL = "local"  # the role of programs on this machine where there are no keys: all but to speak for the operator
METRICS_PATH = "/metrics"  # which tells about all tenants
OPEN_PATHS = frozenset({"/"})  # says that a server is there, and nothing else
WEBHOOK = "/v1/webhooks/ci"  # whose body carries a signature instead of a key
ONCE = frozenset(
    b"authorization x-api-key host content-length content-type content-encoding transfer-encoding origin".split()
)
FORWARDED = (b"forwarded", b"via", b"x-forwarded-for", b"x-real-ip")
CONTROL = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
BLANK = re.compile(rb"[\x00-\x20]")
BEARER = re.compile(rb"bearer +([!-~]+)", re.IGNORECASE)


class AccessError(ValueError):
    """A server that cannot start safely; the message says what to change."""


class Caller(NamedTuple):
    """The sender of a request, with its tenant, budget and role; the empty tenant is everybody on this machine, if no
    keys are needed."""

    tenant: str
    key_id: str | None
    budget: TenantBudget | None = None
    role: str = LOCAL  # that of the key
    allowed: tuple[str, ...] | None = None  # names of models that it may ask for; all if None


class Refusal(NamedTuple):
    """An error that answers a request; the message repeats nothing of the request."""

    status: int
    kind: str  # as OpenAI and Anthropic name types of errors
    message: str
    retry_after_s: float | None = None


class Access:
    """Admission of requests by keys; without a key file, everybody on this machine is admitted and nobody else."""

    def __init__(
        self,
        keys: LiveKeys | None = None,
        *,
        buckets: Buckets | None = None,
        at_budget_end: str = "cheaper",
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.keys = keys
        self.buckets = Buckets() if buckets is None else buckets
        self.at_budget_end = at_budget_end
        self.clock = clock

    @classmethod
    def open(cls, host: str, keys: Path | None, *, at_budget_end: str = "cheaper") -> Access:
        """Returns the access rules of a server that listens at `host`; if `keys` is None, KEY_FILE is used if it
        exists. Raises AccessError if a valid key is needed and missing, or if the file of rate limits cannot be
        written."""
        if keys is None:
            keys = KEY_FILE if KEY_FILE.exists() else None
        if keys is None and is_loopback(host):
            return cls(at_budget_end=at_budget_end)
        live = LiveKeys(KEY_FILE if keys is None else keys)
        if not live.current().active:
            raise AccessError(needs_key(host, live))
        limits = live.file.path.with_name(live.file.path.name + "-limits")
        try:
            return cls(live, buckets=Buckets(limits), at_budget_end=at_budget_end)
        except OSError as error:
            raise AccessError(
                f"{limits}, in which workers count requests, cannot be written ({error.strerror}): give a key file in a "
                "folder that the server may write to"
            ) from error

    def admit(self, headers: Headers, client_host: str, path: str) -> Caller | Refusal:
        """Returns the caller of a request, or a Refusal; looks at the headers only, so that no body is read before its
        sender is known."""
        if (refusal := ambiguous(headers)) is not None:
            return refusal
        if self.keys is None:
            return local_caller(headers, client_host)
        if path in OPEN_PATHS or path == WEBHOOK or path.startswith(WEBHOOK + "/"):
            return Caller("", None)
        given = given_keys(headers)
        if len(given) > 1:
            return Refusal(400, "invalid_request_error", "authorization and x-api-key hold two keys: send one of them")
        if not given:
            return Refusal(
                401, "authentication_error", "there is no key: send `authorization: Bearer KEY` or `x-api-key: KEY`"
            )
        keys = self.keys.current()
        if self.keys.problem:
            return Refusal(503, "api_error", "the server cannot read its keys: its operator finds why in its log")
        key = keys.find(given[0])
        if key is None:
            return Refusal(401, "authentication_error", "the key is not valid: ask the server's operator for one")
        return out_of_role(key, path) or self.limited(key, keys)

    def limited(self, key: Key, keys: Keys) -> Caller | Refusal:
        budget = keys.budgets.get(key.tenant)
        if budget is not None:
            budget = TenantBudget(usd=budget.usd, per=budget.per, at_end=self.at_budget_end)
        if key.requests_per_minute is not None:
            wait = self.buckets.take(key.number, key.requests_per_minute, self.clock())
            if wait > 0:
                message = f"this key may send {key.requests_per_minute} requests a minute: wait {math.ceil(wait)} s"
                return Refusal(429, "rate_limit_error", message, wait)
        return Caller(key.tenant, key.id, budget, key.role, key.allowed)


def out_of_role(key: Key, path: str) -> Refusal | None:
    """Returns a Refusal if a key of this role must not use the path; None if it may."""
    if key.role == OPERATOR or (key.role == METRICS) == (path == METRICS_PATH):
        return None
    needed = METRICS if path == METRICS_PATH else CALL
    message = (
        f"this key has the role {key.role}, and the path needs {needed} or {OPERATOR}: `sage keys add NAME --role {needed}` "
        "makes such a key"
    )
    return Refusal(403, "permission_error", message)


def tenant_of(name: str) -> str:
    """Returns the name under which a tenant is logged: `default` for the empty one."""
    return name or "default"


def needs_key(host: str, live: LiveKeys) -> str:
    path = live.file.path
    if live.problem and path.exists():
        return live.problem
    if is_loopback(host):
        return f"{path} holds no valid key: run `sage keys add NAME --keys {path}`"
    return (
        f"{host} can be reached from other machines, and {path} holds no valid key: run `sage keys add NAME --keys {path}`, "
        "or serve 127.0.0.1"
    )


def ambiguous(headers: Headers) -> Refusal | None:
    """Returns a Refusal for headers that two programs may read differently, or that are too large; None for all
    others."""
    names, contents = [name for name, _ in headers], [value for _, value in headers]
    all_names, all_values = b",".join(names), b"\t".join(contents)
    if len(headers) > MOST_HEADERS or len(all_names) + len(all_values) > MOST_HEADER_BYTES:
        return Refusal(
            431, "invalid_request_error", f"more than {MOST_HEADERS} headers or {MOST_HEADER_BYTES} bytes of them"
        )
    disguised = b"_" in all_names and not ONCE.isdisjoint(name.replace(b"_", b"-") for name in names if b"_" in name)
    if disguised or CONTROL.search(all_values) or BLANK.search(all_names):
        return bad("a header holds characters that it must not: send plain text")
    values = dict(headers)
    if len(values) < len(headers):
        twice = [name for name in ONCE if names.count(name) > 1]
        if twice:
            return bad(f"the header {min(twice).decode()} is there twice: send it once")
    if b"transfer-encoding" in values:
        if b"content-length" in values:
            return bad("content-length and transfer-encoding exclude each other: send one of them")
        if values[b"transfer-encoding"].strip().lower() != b"chunked":
            return bad("transfer-encoding must be chunked, or left out")
    if not values.get(b"content-length", b"0").isdigit():
        return bad("content-length must be a whole number")
    if not values.get(b"host", b"").strip():
        return bad("the header host is missing")
    return None


def bad(message: str) -> Refusal:
    return Refusal(400, "invalid_request_error", message)


def given_keys(headers: Headers) -> list[str]:
    """Returns the different keys in a request's headers."""
    found = []
    for name, value in headers:
        if name == b"authorization" and (bearer := BEARER.fullmatch(value.strip())):
            found.append(bearer[1].decode("latin-1"))
        elif name == b"x-api-key" and value.strip():
            found.append(value.strip().decode("latin-1"))
    return list(dict.fromkeys(found))


def local_caller(headers: Headers, client_host: str) -> Caller | Refusal:
    """Returns the caller of a server without keys; a Refusal if the request comes from another machine, through a
    proxy, or from a page of another site."""
    values = dict(headers)
    origin = values.get(b"origin")
    if client_host and not is_loopback(client_host):
        why = "comes from another machine"
    elif any(name in values for name in FORWARDED):
        why = "was forwarded for another machine"
    elif not is_loopback(hostname(values[b"host"].decode("latin-1"))):
        why = "names another host than this machine"  # a page whose name was bound to this address
    elif origin is not None and not is_loopback(urlsplit_host(origin.decode("latin-1"))):
        why = "comes from a page of another site"
    else:
        return Caller("", None)
    return Refusal(
        403, "permission_error", f"the request {why}, and the server has no keys: `sage keys add NAME` makes one"
    )


def hostname(host: str) -> str:
    """Returns the name in a host header, without its port; '?' if it is not valid."""
    return urlsplit_host(f"//{host}")


@lru_cache(1000)
def urlsplit_host(url: str) -> str:
    try:
        return urlsplit(url).hostname or "?"
    except ValueError:
        return "?"


@lru_cache(1000)
def is_loopback(host: str) -> bool:
    if host in ("localhost", "localhost."):
        return True
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False
