"""Dialect of OpenAI's embeddings, which are neither streamed nor routed to another model."""

from __future__ import annotations

from sage.upstream.dialects.dialect import TASK_CHARACTERS, Dialect, StreamReader, Usage, error_text, usage_in


class Embeddings(Dialect):
    name = "embeddings"
    path = "/embeddings"
    streams = False
    routed = False  # vectors of two models cannot be compared

    def task(self, body: dict) -> str:
        given = body.get("input")
        texts = [given] if isinstance(given, str) else given if isinstance(given, list) else []
        return "\n".join(text for text in texts if isinstance(text, str))[:TASK_CHARACTERS]

    def opening(self, body: dict) -> str:
        return self.task(body)

    def reader(self, body: dict) -> StreamReader:
        raise AssertionError("embeddings are never streamed")

    def most_output(self, body: dict) -> int:
        return 0

    def most_input(self, body: dict, context: int) -> int:
        """Returns `context` tokens for every text of the input, because each is embedded by itself."""
        given = body.get("input")
        several = isinstance(given, list) and not all(isinstance(token, int) for token in given)
        return context * (len(given) if several else 1)

    def usage(self, answer: dict) -> Usage | None:
        return usage_in(answer.get("usage"), "prompt_tokens", "completion_tokens", "prompt_tokens_details")

    def text(self, answer: dict) -> str:
        raise AssertionError("embeddings say nothing that a verifier could judge")

    def problem(self, answer: dict) -> str:
        if answer.get("error"):
            return error_text(answer["error"])
        return "" if isinstance(answer.get("data"), list) else "an answer without data"
