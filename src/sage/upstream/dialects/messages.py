"""Dialect of Anthropic's messages API, and of its endpoint that counts tokens."""

from __future__ import annotations

from sage.upstream.dialects.dialect import (
    UNREADABLE,
    Dialect,
    StreamReader,
    Usage,
    dumps,
    error_text,
    in_band,
    last_words,
    texts_of,
    token_counts,
)
from sage.upstream.sse import Event, StreamError

VERSION = "2023-06-01"  # of the API, where a client names none
KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}


class MessagesReader(StreamReader):
    def __init__(self) -> None:
        super().__init__()
        self.counts: dict = {}  # all that was said of the usage

    def read_values(self, event: Event, values: dict) -> bytes:
        kind = values.get("type")
        if kind == "error":
            raise in_band(values.get("error"), event)
        if kind == "message_start" and isinstance(values.get("message"), dict):
            self.count(values["message"].get("usage"))
        elif kind == "message_delta":
            self.contents += 1
            self.count(values.get("usage"))
        elif kind == "message_stop":
            if not self.started:
                raise StreamError("the upstream ended the stream before its content")
            self.ended = True
        elif is_content(kind, values):
            self.contents += 1
            self.texts += texts_of([values.get("delta")], ("text_delta",))
        return event.raw

    def count(self, usage: object) -> None:
        if isinstance(usage, dict):
            self.counts |= {name: value for name, value in usage.items() if value is not None}
            self.usage = usage_of(self.counts)


class Messages(Dialect):
    name = "messages"
    path = "/v1/messages"

    def task(self, body: dict) -> str:
        return last_words(body.get("messages"), ("text",))

    def reader(self, body: dict) -> MessagesReader:
        return MessagesReader()

    def url(self, base: str) -> str:
        """Returns the address of the endpoint; `base` may end with /v1, as for OpenAI's SDKs, or not, as for
        Anthropic's."""
        return base.removesuffix("/v1") + self.path

    def authorization(self, key: str) -> dict[str, str]:
        return {"x-api-key": key}

    def usage(self, answer: dict) -> Usage | None:
        return usage_of(answer.get("usage"))

    def text(self, answer: dict) -> str:
        return "\n".join(texts_of(answer["content"], ("text",)))

    def problem(self, answer: dict) -> str:
        if answer.get("type") == "error":
            return error_text(answer.get("error"))
        return "" if isinstance(answer.get("content"), list) else "an answer without content"

    def error(self, status: int, message: str, kind: str = "") -> dict:
        kind = kind or KINDS.get(status, "api_error" if status >= 500 else "invalid_request_error")
        return {"type": "error", "error": {"type": kind, "message": message}}

    def error_event(self, message: str, reader: StreamReader) -> bytes:
        return b"event: error\ndata: " + dumps(self.error(502, message)) + b"\n\n"


class CountTokens(Messages):
    """Dialect of /v1/messages/count_tokens, which costs nothing and logs no decision."""

    path = "/v1/messages/count_tokens"
    streams = False
    decides = False

    def problem(self, answer: dict) -> str:
        if answer.get("type") == "error":
            return error_text(answer.get("error"))
        return "" if isinstance(answer.get("input_tokens"), int) else "an answer without input_tokens"


def is_content(kind: object, values: dict) -> bool:
    """Returns whether an event of type `kind` holds a piece of the answer; thinking is one."""
    if kind == "content_block_delta":
        delta = values.get("delta")
        return isinstance(delta, dict) and any(value for name, value in delta.items() if name != "type")
    return kind == "content_block_start" and not is_empty(values)


def is_empty(values: dict) -> bool:
    """Returns whether a content block starts without text, thinking, or the name of a tool."""
    block = values.get("content_block")
    return isinstance(block, dict) and not (block.get("text") or block.get("thinking")) and "name" not in block


def usage_of(values: object) -> Usage | None:
    if not isinstance(values, dict) or (values.get("input_tokens") is None and values.get("output_tokens") is None):
        return None
    counts = token_counts(
        values, "input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"
    )
    if counts is None:
        return UNREADABLE
    uncached, tokens_out, read, written = counts
    return Usage(uncached + read + written, tokens_out, read, written)
