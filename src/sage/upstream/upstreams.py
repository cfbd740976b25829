"""Calls of upstreams: the HTTP session, each model's address, key and timeouts, and the errors of calls that fail."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from math import isnan
from time import time

import aiohttp
from aiohttp import ClientTimeout
from aiohttp.http_exceptions import HttpProcessingError

from sage.log.redaction import REMOVED
from sage.orchestrator.models_file import Model
from sage.orchestrator.upstream_settings import Upstream
from sage.upstream.dialects.dialect import Dialect, blames_upstream, parse_json
from sage.upstream.dialects.messages import VERSION
from sage.upstream.headers import forwarded_headers

CONNECT_S = 10.0
RETRIED = frozenset({408, 409, 425, 429})  # and all from 500 on: the same model may answer the next time
REFUSED_KEY = frozenset({401, 403})
OURS = REFUSED_KEY | {404}  # a wrong key or name in models.yaml, which another model does not share
TRANSPORT_ERRORS = (aiohttp.ClientError, HttpProcessingError, TimeoutError, OSError)


@dataclass(frozen=True)
class CompleteAnswer:
    """A complete answer; `values` is its parsed body."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes
    values: dict = field(default_factory=dict)


class UpstreamError(Exception):
    """Failure of a call before the client has seen anything of its answer."""

    def __init__(
        self,
        message: str,
        *,
        status: int = 502,
        again: bool = False,
        blames: bool = False,
        timed_out: bool = False,
        retry_after_s: float | None = None,
        answer: CompleteAnswer | None = None,
        summary: str = "",
    ) -> None:
        super().__init__(message)
        self.summary = summary or message  # for logs: without what the upstream said, which may repeat a prompt
        self.status = status
        self.again = again  # the same model may be asked again
        self.blames = blames  # a failure of the upstream, which its breaker counts
        self.timed_out = timed_out
        self.retry_after_s = retry_after_s
        self.answer = answer  # that the client may see


@dataclass(frozen=True)
class Target:
    """A model's upstream, with its URL and its key."""

    name: str  # in models.yaml
    upstream: Upstream
    url: str
    key: str = field(default="", repr=False)

    @property
    def model(self) -> str:
        """Returns the model's name at the upstream."""
        return self.upstream.model or self.name

    def headers(self, dialect: Dialect, given: Mapping[str, str]) -> dict[str, str]:
        """Returns the headers of a call: those that the client gave, without those meant for sage or for one
        connection, and the upstream's key."""
        kept = forwarded_headers(given)
        kept["content-type"] = "application/json"
        kept["accept-encoding"] = "identity"
        if dialect.name == "messages":
            kept.setdefault("anthropic-version", VERSION)
        return kept | dialect.authorization(self.key) if self.key else kept

    def timeout(self, streams: bool) -> ClientTimeout:
        own = self.upstream
        return ClientTimeout(
            total=own.timeout_s, sock_connect=min(CONNECT_S, own.timeout_s), sock_read=own.stall_s if streams else None
        )


def targets_of(models: Mapping[str, Model], keys: Mapping[str, str], local: Mapping[str, str]) -> dict[str, Target]:
    """Returns the targets by the names of the models in models.yaml, without models that have no upstream. `keys` are
    by model, `local` are URLs by the name of a local model."""
    found = {}
    for name, model in models.items():
        if model.upstream is not None:
            url = model.upstream.url or local[str(model.upstream.local)]
            found[name] = Target(name, model.upstream, url, keys.get(name, ""))
    return found


def new_session() -> aiohttp.ClientSession:
    """Returns an HTTP session without cookies, proxies from the environment, decompression, or a limit on
    connections."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ttl_dns_cache=60),
        cookie_jar=aiohttp.DummyCookieJar(),
        skip_auto_headers=("User-Agent",),
        read_bufsize=2**18,
        auto_decompress=False,
    )


def failure_of(error: Exception, target: Target) -> UpstreamError:
    """Returns the UpstreamError for a transport error: status 504 for a time-out, otherwise one that may be retried."""
    if isinstance(error, TimeoutError):
        return UpstreamError(f"{target.name} took too long", status=504, blames=True, timed_out=True)
    return UpstreamError(
        f"{target.name} could not be reached, or broke off: {type(error).__name__}", again=True, blames=True
    )


def check_status(response: aiohttp.ClientResponse, answer: CompleteAnswer, target: Target) -> None:
    """Raises UpstreamError if the status is not 2xx; `answer` is the part of the response that the client may see."""
    status = response.status
    if 200 <= status < 300:
        return
    if status in OURS or 300 <= status < 400:
        raise UpstreamError(
            f"the upstream of {target.name} answered {status}: check its URL, key and model in models.yaml",
            blames=status in REFUSED_KEY,
        )
    raise UpstreamError(
        f"the upstream of {target.name} answered {status}",
        status=status,
        again=status in RETRIED or status >= 500,
        blames=status >= 500,
        retry_after_s=retry_after(response.headers),
        answer=answer,
    )


def without_key(said: bytes, target: Target) -> bytes:
    """Returns the bytes with the upstream's key replaced, because an upstream may repeat the key that it refuses."""
    return said.replace(target.key.encode(), REMOVED.encode()) if target.key else said


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Returns the seconds from now that an upstream asks to wait, by `retry-after-ms` or `retry-after`; None if it does
    not ask, or if the value is not valid."""
    try:
        if "retry-after-ms" in headers:
            found = float(headers["retry-after-ms"]) / 1000
        elif "retry-after" not in headers:
            return None
        elif (given := headers["retry-after"].strip()).replace(".", "", 1).isdigit():
            found = float(given)
        else:
            found = parsedate_to_datetime(given).timestamp() - time()
        return None if isnan(found) else max(found, 0.0)
    except (ValueError, OverflowError):
        return None


def parse_answer(body: bytes, dialect: Dialect, target: Target) -> dict:
    """Returns the JSON object of a complete answer; raises UpstreamError if the body is no object, or is an error."""
    try:
        values = parse_json(body)
    except ValueError as error:
        raise UpstreamError(
            f"the upstream of {target.name} gave an answer that is {error}", again=True, blames=True
        ) from None
    if not isinstance(values, dict):
        raise UpstreamError(
            f"the upstream of {target.name} gave an answer that is not an object", again=True, blames=True
        )
    if problem := dialect.problem(values):
        blames = blames_upstream(values.get("error"))
        said = without_key(problem.encode(), target).decode()
        summary = f"the upstream of {target.name} gave an answer that is an error, or incomplete"
        raise UpstreamError(f"the upstream of {target.name} gave {said}", again=True, blames=blames, summary=summary)
    return values
