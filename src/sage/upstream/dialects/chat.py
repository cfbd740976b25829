"""Dialect of OpenAI's chat completions."""

from __future__ import annotations

from sage.upstream.dialects.dialect import (
    Dialect,
    StreamReader,
    Usage,
    count_of,
    error_text,
    in_band,
    largest_count,
    last_words,
    not_understood,
    texts_of,
    usage_in,
)
from sage.upstream.sse import Event, StreamError

DONE = b"data: [DONE]\n\n"


class ChatReader(StreamReader):
    finished = False  # a reason to finish was given: what may still come is the usage

    def read(self, event: Event) -> bytes:
        if event.data.strip() == b"[DONE]":
            if not self.finished:
                raise StreamError("the upstream ended the stream without a finish_reason")
            self.ended = True
            return event.raw
        return super().read(event)

    def read_values(self, event: Event, values: dict) -> bytes:
        if values.get("error"):
            raise in_band(values["error"], event)
        choices = values.get("choices")
        for choice in choices if isinstance(choices, list) else []:
            if not isinstance(choice, dict):
                raise not_understood("a choice that is not an object", event.data)
            delta = choice.get("delta")
            if isinstance(delta, dict) and any(value for name, value in delta.items() if name != "role"):
                self.contents += 1
                self.texts += texts_of(delta.get("content"), ("text",))
            if choice.get("finish_reason"):
                self.contents += not self.finished
                self.finished = True
        if isinstance(values.get("usage"), dict):
            self.usage = usage_of(values["usage"]) or self.usage
            if self.hide_usage and not choices:
                return b""
        return event.raw

    def at_end(self) -> bytes:
        if self.finished and not self.ended:
            self.ended = True
            return DONE
        return super().at_end()


class Chat(Dialect):
    name = "chat"
    path = "/chat/completions"

    def task(self, body: dict) -> str:
        return last_words(body.get("messages"), ("text",))

    def reader(self, body: dict) -> ChatReader:
        return ChatReader(hide_usage="stream_options" in self.added_fields(body))

    def added_fields(self, body: dict) -> dict:
        """Returns `stream_options` that ask for the usage of a stream, from which its cost is computed; {} if the
        request does not stream, or asks for the usage itself."""
        options = body.get("stream_options")
        options = options if isinstance(options, dict) else {}
        if body.get("stream") is not True or options.get("include_usage") is True:
            return {}
        return {"stream_options": options | {"include_usage": True}}

    def most_output(self, body: dict) -> int | None:
        """Returns the most output tokens that a request allows for all its `n` choices together; None if it sets no
        limit."""
        most = largest_count(body, "max_completion_tokens", "max_tokens")
        return None if most is None else most * max(count_of(body, "n"), 1)

    def usage(self, answer: dict) -> Usage | None:
        return usage_of(answer.get("usage"))

    def text(self, answer: dict) -> str:
        messages = [choice.get("message") for choice in answer["choices"] if isinstance(choice, dict)]
        return "\n".join(
            text
            for message in messages
            if isinstance(message, dict)
            for text in texts_of(message.get("content"), ("text",))
        )

    def problem(self, answer: dict) -> str:
        if answer.get("error"):
            return error_text(answer["error"])
        choices = answer.get("choices")
        return "" if isinstance(choices, list) and choices else "an answer without choices"


def usage_of(values: object) -> Usage | None:
    return usage_in(values, "prompt_tokens", "completion_tokens", "prompt_tokens_details")
