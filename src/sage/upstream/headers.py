"""Rules for the headers that pass between clients and upstreams. A client's headers pass unless they are for sage or
for one connection; an upstream's headers pass only if clients of models read them, because a browser would take others
for sage's own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

JSON = (b"content-type", b"application/json")
# What a request has for one connection only, or for sage only.
NOT_FORWARDED = frozenset(
    [
        "accept-encoding",
        "authorization",
        "connection",
        "content-length",
        "cookie",
        "expect",
        "forwarded",
        "host",
        "http2-settings",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "via",
        "x-api-key",
        "x-real-ip",
    ]
)
NOT_FORWARDED_PREFIXES = ("x-sage-", "x-forwarded-")
RETURNED = frozenset(["cf-ray", "content-language", "content-type", "deprecation", "retry-after", "sunset"])
RETURNED_PREFIXES = ("anthropic-", "openai-", "ratelimit", "retry-after-", "x-")
RETURNED_SUFFIX = "request-id"
# Of those that begin with x-: what browsers or reverse proxies obey, or what holds a secret.
NOT_RETURNED = frozenset(
    [
        "x-api-key",
        "x-auth-token",
        "x-content-type-options",
        "x-csrf-token",
        "x-dns-prefetch-control",
        "x-download-options",
        "x-frame-options",
        "x-lighttpd-send-file",
        "x-original-url",
        "x-pingback",
        "x-powered-by",
        "x-real-ip",
        "x-rewrite-url",
        "x-robots-tag",
        "x-sendfile",
        "x-should-retry",
        "x-sourcemap",
        "x-ua-compatible",
        "x-xss-protection",
    ]
)
NOT_RETURNED_PREFIXES = (
    "x-accel-",
    "x-content-security-policy",
    "x-forwarded-",
    "x-litespeed-",
    "x-permitted-cross-domain",
    "x-sage-",
    "x-webkit-csp",
)


def forwarded_headers(given: Mapping[str, str]) -> dict[str, str]:
    """Returns the headers of a client that an upstream gets; names are in lower case."""
    hop = named_in(given.get("connection", ""))
    return {
        name: value
        for name, value in given.items()
        if name not in NOT_FORWARDED and name not in hop and not name.startswith(NOT_FORWARDED_PREFIXES)
    }


def returned_headers(given: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Returns the headers of an upstream that a client gets; names are in lower case."""
    known = [(name.decode("latin-1").lower(), value) for name, value in given]
    hop = named_in(",".join(value.decode("latin-1") for name, value in known if name == "connection"))
    return [(name.encode("latin-1"), value) for name, value in known if is_returned(name) and name not in hop]


def is_returned(name: str) -> bool:
    if name in NOT_RETURNED or name.startswith(NOT_RETURNED_PREFIXES):
        return False
    return name in RETURNED or name.startswith(RETURNED_PREFIXES) or name.endswith(RETURNED_SUFFIX)


def named_in(connection: str) -> set[str]:
    """Returns the names that a `connection` header declares to be for one connection only, without content-type."""
    return {name.strip().lower() for name in connection.split(",")} - {"content-type"}


def with_type(headers: Iterable[tuple[bytes, bytes]], wanted: bytes, otherwise: bytes) -> list[tuple[bytes, bytes]]:
    """Returns the headers with exactly one content type: the first given one that contains `wanted`, else `otherwise`,
    so that no browser shows an answer as a page."""
    listed = list(headers)
    found = [value for name, value in listed if name == b"content-type" and wanted in value.lower()]
    return [pair for pair in listed if pair[0] != b"content-type"] + [(b"content-type", (found or [otherwise])[0])]
