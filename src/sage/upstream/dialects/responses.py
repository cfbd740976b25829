"""Dialect of OpenAI's responses API."""

from __future__ import annotations

from sage.upstream.dialects.dialect import (
    Dialect,
    StreamReader,
    Usage,
    count_of,
    dumps,
    error_text,
    first_words,
    in_band,
    largest_count,
    last_words,
    texts_of,
    usage_in,
)
from sage.upstream.sse import Event

BEFORE_CONTENT = {"response.created", "response.in_progress", "response.queued"}  # and others, which no response sends
ENDS = {"response.completed", "response.incomplete"}


class ResponsesReader(StreamReader):
    def __init__(self) -> None:
        super().__init__()
        self.response: dict = {}  # as the upstream last described it
        self.number = 0  # of the last event

    def read_values(self, event: Event, values: dict) -> bytes:
        kind = values.get("type")
        self.number = max(self.number, count_of(values, "sequence_number"))
        if isinstance(values.get("response"), dict):
            self.response = values["response"]
        if kind == "response.failed":
            raise in_band(self.response.get("error"), event)
        if kind == "error" or values.get("error"):
            raise in_band(values.get("error") or values, event)
        if kind in ENDS:
            self.contents, self.ended = self.contents + 1, True
            self.usage = usage_of(self.response)
            self.texts = ["\n".join(texts_in(self.response))]
        elif isinstance(kind, str) and kind.startswith("response.") and kind not in BEFORE_CONTENT:
            self.contents += values.get("delta", True) != ""
        return event.raw


class Responses(Dialect):
    name = "responses"
    path = "/responses"

    def task(self, body: dict) -> str:
        return last_words(messages_of(body), ("input_text", "text"))

    def opening(self, body: dict) -> str:
        return first_words(messages_of(body), body.get("instructions"))

    def reader(self, body: dict) -> ResponsesReader:
        return ResponsesReader()

    def most_output(self, body: dict) -> int | None:
        return largest_count(body, "max_output_tokens")

    def usage(self, answer: dict) -> Usage | None:
        return usage_of(answer)

    def text(self, answer: dict) -> str:
        return "\n".join(texts_in(answer))

    def problem(self, answer: dict) -> str:
        if answer.get("error") or answer.get("status") == "failed":
            return error_text(answer.get("error") or "the response failed")
        return "" if isinstance(answer.get("output"), list) else "an answer without output"

    def error_event(self, message: str, reader: StreamReader) -> bytes:
        """Returns a `response.failed` event; the error is in its field `error`, which SDKs read, and in the response,
        which agents read."""
        assert isinstance(reader, ResponsesReader)
        error = self.error(502, message)["error"]
        failed = reader.response | {
            "status": "failed",
            "error": {"code": "server_error", "message": message},
            "object": "response",
        }
        event = {"type": "response.failed", "sequence_number": reader.number + 1, "response": failed, "error": error}
        try:
            return b"event: response.failed\ndata: " + dumps(event) + b"\n\n"
        except RecursionError:  # of levels that the upstream's response has
            reader.response = {}
            return self.error_event(message, reader)


def usage_of(response: dict) -> Usage | None:
    return usage_in(response.get("usage"), "input_tokens", "output_tokens", "input_tokens_details")


def messages_of(body: dict) -> object:
    """Returns the input of a request; a plain text becomes one message of the user."""
    given = body.get("input")
    return [{"role": "user", "content": given}] if isinstance(given, str) else given


def texts_in(response: dict) -> list[str]:
    """Returns the output texts of a response's messages; [] if there are none."""
    output = response.get("output")
    items = [item for item in output if isinstance(item, dict)] if isinstance(output, list) else []
    return [text for item in items for text in texts_of(item.get("content"), ("output_text",))]
