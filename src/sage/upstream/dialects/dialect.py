"""Base classes of the API dialects: the text of a request, token counts, error bodies, and the state of a stream."""

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
    """Tokens of one answer, as the upstream counts them; `problem` says what is wrong with the counts, and `known` is
    false if they cannot be read."""

    tokens_in: int
    tokens_out: int
    tokens_cached: int = 0  # of tokens_in
    tokens_written: int = 0  # of tokens_in, to a cache
    problem: str = ""  # with what the upstream said
    known: bool = True


UNREADABLE = Usage(0, 0, problem="the upstream's counts of tokens are not whole numbers from 0 on", known=False)


class StreamReader(ABC):
    """State of one streamed answer: its number of events with content (pings and empty pieces have none), its text, its
    usage, and whether it has ended."""

    def __init__(self, hide_usage: bool = False) -> None:
        self.hide_usage = hide_usage  # the client did not ask for what sage did
        self.contents = 0  # events with content so far
        self.ended = False
        self.usage: Usage | None = None
        self.texts: list[str] = []  # the text so far, in pieces

    def read(self, event: Event) -> bytes:
        """Returns the bytes that the client gets for an event, empty if the event is hidden from it; raises StreamError
        if the upstream reports a failure or the event cannot be understood."""
        if not event.data:
            return event.raw
        return self.read_values(event, parse_object(event.data))

    @property
    def started(self) -> bool:
        """Returns whether any event with content was read."""
        return self.contents > 0

    @abstractmethod
    def read_values(self, event: Event, values: dict) -> bytes:
        """Returns the same as `read`, for an event whose data is the JSON object `values`."""

    def at_end(self) -> bytes:
        """Returns the end mark that a closed stream lacks, or b'' if it lacks none; raises StreamError if the answer is
        incomplete."""
        if not self.ended:
            raise StreamError("the upstream closed the stream before its end")
        return b""


class Dialect(ABC):
    """One API, such as chat completions; `path` is appended to the URL of an upstream."""

    name = ""
    path = ""
    streams = True
    routed = True  # any model will do; else the one that the client names
    decides = True  # a request is a decision for the log

    @abstractmethod
    def task(self, body: dict) -> str:
        """Returns the text of the user's last messages, at most TASK_CHARACTERS characters, for the router."""

    def opening(self, body: dict) -> str:
        """Returns the user's text before the first answer, which is the same in every turn of a conversation and so
        identifies the task."""
        return first_words(body.get("messages"), body.get("system"))

    @abstractmethod
    def reader(self, body: dict) -> StreamReader:
        """Returns a new StreamReader for the streamed answer to a request."""

    def added_fields(self, body: dict) -> dict:
        """Returns fields that sage adds to a request's body; {} for most dialects."""
        return {}

    def most_output(self, body: dict) -> int | None:
        """Returns the most output tokens that the request allows; None if it sets no limit."""
        return largest_count(body, "max_tokens")

    def most_input(self, body: dict, context: int) -> int:
        """Returns the most input tokens that a request can have for a model with a context of `context` tokens."""
        return context

    @abstractmethod
    def usage(self, answer: dict) -> Usage | None:
        """Returns the token counts of a complete answer; None if it has none."""

    @abstractmethod
    def text(self, answer: dict) -> str:
        """Returns the text of a complete answer, for verifiers."""

    @abstractmethod
    def problem(self, answer: dict) -> str:
        """Returns the reason why a JSON object is not a valid answer of this dialect; '' if it is one."""

    @property
    def endpoint(self) -> str:
        """Returns the path of this dialect below /v1 of the server, such as /messages."""
        return self.path.removeprefix("/v1")

    def url(self, base: str) -> str:
        return base + self.path

    def authorization(self, key: str) -> dict[str, str]:
        return {"authorization": f"Bearer {key}"}

    def error(self, status: int, message: str, kind: str = "") -> dict:
        """Returns the body of an error answer in this dialect's form; `kind` defaults to the one that fits the HTTP
        status."""
        kind = kind or OPENAI_KINDS.get(status, "api_error" if status >= 500 else "invalid_request_error")
        return {"error": {"message": message, "type": kind, "param": None, "code": kind}}

    def error_event(self, message: str, reader: StreamReader) -> bytes:
        """Returns an error with status 502 as an event of the stream that `reader` has followed so far."""
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
    """Returns parsed JSON; raises ValueError, with a phrase that describes the data, if it is not JSON or has more than
    MOST_CONTAINERS lists and objects."""
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


def error_text(error: object) -> str:
    """Returns the message of an upstream's error, or the error as JSON if it has none, cut to MOST_SAID characters."""
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
    """Returns False if the status, code or type of an error says that the request or a rate limit caused it; True
    otherwise."""
    fields = error if isinstance(error, dict) else {}
    codes = [fields.get(name) for name in ("status", "status_code", "code")]
    if any(isinstance(code, int) and 400 <= code < 500 and code not in (401, 403) for code in codes):
        return False
    return not any(isinstance(kind, str) and kind in REQUEST_KINDS for kind in (fields.get("type"), fields.get("code")))


def in_band(error: object, event: Event) -> StreamError:
    """Returns the StreamError for an error that an upstream sent as an event of its stream."""
    return StreamError(
        error_text(error), event.raw, blames=blames_upstream(error), summary="the upstream sent an error in its stream"
    )


def not_understood(what: str, data: bytes) -> StreamError:
    return StreamError(f"{what}: {data[:80]!r}", summary=what)


def texts_of(content: object, kinds: tuple[str, ...]) -> list[str]:
    """Returns the texts of a message's content: the content itself if it is a string, else the texts of those of its
    parts whose type is in `kinds`."""
    if isinstance(content, str):
        return [content]
    parts = content if isinstance(content, list) else []
    found = [part.get("text") for part in parts if isinstance(part, dict) and part.get("type") in kinds]
    return [text for text in found if isinstance(text, str)]


def last_words(messages: object, kinds: tuple[str, ...]) -> str:
    """Returns the user's last texts that follow each other, joined by newlines and cut to TASK_CHARACTERS; skips later
    messages of models and tools, and looks at the last MOST_MESSAGES messages only."""
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
    """Returns all texts of the user before the first answer, joined by newlines; the texts of the system if there are
    none. The first message alone would be the same for every task, because clients begin with messages about the
    machine and its rules."""
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
    """Returns the texts of a message's content, and its images and files as JSON; leaves out `cache_control`, which
    moves from turn to turn."""
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
    """Returns the largest count among the named fields of a request, because upstreams differ in which of them they
    obey; None if no field has a count above 0."""
    return max(count_of(values, name) for name in names) or None


def token_counts(values: dict, *names: str) -> list[int] | None:
    """Returns the named counts of a usage, 0 for missing ones and at most MOST for each; None if a value is not a whole
    number from 0 on."""
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
    """Returns the Usage of an OpenAI usage object; `tokens_in`, `tokens_out` and `details` are the names of its fields.
    None if it has neither of the two counts, UNREADABLE if a count is no whole number."""
    if not isinstance(values, dict) or (values.get(tokens_in) is None and values.get(tokens_out) is None):
        return None
    more = values.get(details)
    counts = token_counts(values, tokens_in, tokens_out)
    cached = token_counts(more if isinstance(more, dict) else {}, "cached_tokens")
    return UNREADABLE if counts is None or cached is None else Usage(counts[0], counts[1], cached[0])


def count_of(values: dict, name: str) -> int:
    """Returns the whole number in a field, at most MOST; 0 if there is none above 0."""
    value = values.get(name)
    return min(value, int(MOST)) if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
