"""What differs between dialects: how a request is summarised, how a stream is read, and how an error looks."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from typing import NamedTuple

from sage.log.record_checks import MOST
from sage.upstream.sse import Event, StreamError

MOST_SAID = 500  # characters of an upstream's error
MOST_CONTAINERS = 1_000_000  # in an answer: each takes up to 100 times the memory of its characters
MOST_MESSAGES = (
    1000  # from the last one back, in which the user's last words are looked for: a request may have a million
)
TASK_CHARACTERS = 20_000  # of a request that the router sees: what a text policy or a trigger can use


class Usage(NamedTuple):
    """Tokens of one answer, as the upstream counts them."""

    tokens_in: int
    tokens_out: int
    tokens_cached: int = 0  # of tokens_in
    tokens_written: int = 0  # of tokens_in, to a cache
    problem: str = ""  # with what the upstream said
    known: bool = True


UNREADABLE = Usage(0, 0, problem="the upstream's counts of tokens are not whole numbers from 0 on", known=False)


class StreamReader(ABC):
    """Follows one stream of answers; counts its content, of which pings and empty pieces are none, and knows its end."""

    def __init__(self, hide_usage: bool = False) -> None:
        self.hide_usage = hide_usage  # the client did not ask for what sage did
        self.contents = 0  # events with content so far
        self.ended = False
        self.usage: Usage | None = None
        self.said: list[str] = []  # the text so far, in pieces

    def read(self, event: Event) -> bytes:
        """What the client gets of an event. Raises StreamError where the upstream says that it failed, or what nobody
        understands."""
        if not event.data:
            return event.raw
        return self.read_values(event, parse_object(event.data))

    @property
    def started(self) -> bool:
        """Whether there was any content."""
        return self.contents > 0

    @abstractmethod
    def read_values(self, event: Event, values: dict) -> bytes:
        """The same, of an event's object."""

    def at_end(self) -> bytes:
        """What is still missing of a stream that the upstream has closed; StreamError if that is more than a mark."""
        if not self.ended:
            raise StreamError("the upstream closed the stream before its end")
        return b""


class Dialect(ABC):
    """One API; `path` is the one that follows an upstream's URL."""

    name = ""
    path = ""
    streams = True
    routed = True  # any model will do; else the one that the client names
    decides = True  # a request is a decision for the log

    @abstractmethod
    def task(self, body: dict) -> str:
        """The text of the user's last words, for the router."""

    def opening(self, body: dict) -> str:
        """The user's first words, which stay the same from turn to turn and tell tasks apart."""
        return first_words(body.get("messages"), body.get("system"))

    @abstractmethod
    def reader(self, body: dict) -> StreamReader:
        """What follows the stream that answers a request."""

    def wishes(self, body: dict) -> dict:
        """Fields that sage adds to a request."""
        return {}

    def most_output(self, body: dict) -> int | None:
        """Tokens that the request lets an answer have; None if it sets no limit."""
        return largest_count(body, "max_tokens")

    def most_input(self, body: dict, context: int) -> int:
        """Tokens that a request can have for a model that reads `context` at a time."""
        return context

    @abstractmethod
    def usage(self, answer: dict) -> Usage | None:
        """Tokens of a whole answer; None if it does not say."""

    @abstractmethod
    def text(self, answer: dict) -> str:
        """What a whole answer says, for verifiers."""

    @abstractmethod
    def problem(self, answer: dict) -> str:
        """Why a whole answer is none; '' if it is one."""

    @property
    def endpoint(self) -> str:
        """The path that clients ask, without the version."""
        return self.path.removeprefix("/v1")

    def url(self, base: str) -> str:
        return base + self.path

    def authorization(self, key: str) -> dict[str, str]:
        return {"authorization": f"Bearer {key}"}

    def error(self, status: int, message: str, kind: str = "") -> dict:
        """The body of an answer that is an error."""
        kind = kind or OPENAI_KINDS.get(status, "api_error" if status >= 500 else "invalid_request_error")
        return {"error": {"message": message, "type": kind, "param": None, "code": kind}}

    def error_event(self, message: str, reader: StreamReader) -> bytes:
        """The same inside of a stream."""
        return b"data: " + dumps(self.error(502, message)) + b"\n\n"


# Types and codes of errors that are about the request, or about how many there are.
REQUEST_KINDS = frozenset(
    [
        "bad_request_error",
        "billing_error",
        "content_filter",
        "content_policy_violation",
        "context_length_exceeded",
        "insufficient_quota",
        "invalid_image",
        "invalid_prompt",
        "invalid_request_error",
        "not_found_error",
        "rate_limit_error",
        "rate_limit_exceeded",
        "request_too_large",
    ]
)
OPENAI_KINDS = {
    401: "authentication_error",
    402: "insufficient_quota",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
}


def parse_json(data: bytes) -> object:
    """Parses what an upstream sent; a ValueError that says what it is instead."""
    if data.count(b"[") + data.count(b"{") > MOST_CONTAINERS:
        raise ValueError(f"JSON of more than {MOST_CONTAINERS} lists and objects")
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise ValueError("not JSON") from None


def parse_object(data: bytes) -> dict:
    try:
        values = parse_json(data)
    except ValueError as error:
        raise not_understood(f"an event that is {error}", data) from None
    if not isinstance(values, dict):
        raise not_understood("an event that is not an object", data)
    return values


def dumps(values: object) -> bytes:
    return json.dumps(values, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def said(error: object) -> str:
    """The sentence of an upstream's error."""
    if isinstance(error, dict):
        message = error.get("message")
        return message[:MOST_SAID] if isinstance(message, str) and message else shortened(error)
    return error[:MOST_SAID] if isinstance(error, str) else shortened(error)


def shortened(error: object) -> str:
    try:
        return json.dumps(error)[:MOST_SAID]
    except RecursionError:
        return "an error of too many levels"


def blames_upstream(error: object) -> bool:
    """Whether an error inside of an answer is the upstream's own failure, as far as its code or type says."""
    said = error if isinstance(error, dict) else {}
    codes = [said.get(name) for name in ("status", "status_code", "code")]
    if any(isinstance(code, int) and 400 <= code < 500 and code not in (401, 403) for code in codes):
        return False
    return not any(isinstance(kind, str) and kind in REQUEST_KINDS for kind in (said.get("type"), said.get("code")))


def in_band(error: object, event: Event) -> StreamError:
    """Returns what a stream ends with whose upstream says that it failed."""
    return StreamError(
        said(error), event.raw, blames=blames_upstream(error), summary="the upstream sent an error in its stream"
    )


def not_understood(what: str, data: bytes) -> StreamError:
    return StreamError(f"{what}: {data[:80]!r}", summary=what)


def texts_of(content: object, kinds: tuple[str, ...]) -> list[str]:
    """The texts of a message's content: a text, or a list of parts of which some are texts."""
    if isinstance(content, str):
        return [content]
    parts = content if isinstance(content, list) else []
    found = [part.get("text") for part in parts if isinstance(part, dict) and part.get("type") in kinds]
    return [text for text in found if isinstance(text, str)]


def last_words(messages: object, kinds: tuple[str, ...]) -> str:
    """The last texts of the user that stand together, whatever tools have answered since."""
    found: list[str] = []
    for message in reversed(messages[-MOST_MESSAGES:] if isinstance(messages, list) else []):
        theirs = isinstance(message, dict) and message.get("role") == "user"
        texts = texts_of(message.get("content"), kinds) if theirs else []
        if texts:
            found += reversed(texts)
        elif found:
            break
    return "\n".join(reversed(found))[:TASK_CHARACTERS]


def first_words(messages: object, system: object = None) -> str:
    """All that the user says before the first answer. Clients put the state of a machine and rules into messages of their own
    there, so the first message alone is the same for every task. Without any, the words of the system."""
    found: list[str] = []
    rules: list[str] = parts_of(system)
    for message in messages if isinstance(messages, list) else []:
        if not isinstance(message, dict):
            continue
        role = message.get("role")
        if role == "user":
            found += parts_of(message.get("content"))
        elif role in ("system", "developer"):
            rules += parts_of(message.get("content"))
        elif found:
            break
    return "\n".join(found or rules)


def parts_of(content: object) -> list[str]:
    """A message's texts, and its images and files as JSON; without marks of caches, which move from turn to turn."""
    if isinstance(content, str):
        return [content]
    found = []
    for part in content if isinstance(content, list) else []:
        if isinstance(part, dict) and isinstance(part.get("text"), str):
            found.append(part["text"])
        elif isinstance(part, dict):
            kept = {name: value for name, value in part.items() if name != "cache_control"}
            found.append(json.dumps(kept, sort_keys=True))
    return found


def largest_count(values: dict, *names: str) -> int | None:
    """Of these fields; upstreams differ in which of them they obey. None if no field has a count above 0."""
    return max(count_of(values, name) for name in names) or None


def token_counts(values: dict, *names: str) -> list[int] | None:
    """The counts of a usage, 0 where one is missing; None if one is no whole number from 0 on."""
    found = []
    for name in names:
        value: object = 0 if values.get(name) is None else values[name]
        if isinstance(value, float) and value == value // 1:  # which neither NaN nor infinity is
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            return None
        found.append(min(value, int(MOST)))
    return found


def usage_in(values: object, tokens_in: str, tokens_out: str, details: str) -> Usage | None:
    """The usage as OpenAI's dialects say it, by the names of its fields; None if it says nothing."""
    if not isinstance(values, dict) or (values.get(tokens_in) is None and values.get(tokens_out) is None):
        return None
    more = values.get(details)
    counts = token_counts(values, tokens_in, tokens_out)
    cached = token_counts(more if isinstance(more, dict) else {}, "cached_tokens")
    return UNREADABLE if counts is None or cached is None else Usage(counts[0], counts[1], cached[0])


def count_of(values: dict, name: str) -> int:
    """0 where there is none; numbers beyond what a record takes are that most."""
    value = values.get(name)
    return min(value, int(MOST)) if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
