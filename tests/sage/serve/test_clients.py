"""The clients that people use, against the proxy: a turn with a tool call, streamed and not, and an error."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

from tests.sage.serve.answers import (
    CHAT,
    CHAT_STREAM,
    CHAT_TOOL_STREAM,
    MESSAGE,
    MESSAGES_STREAM,
    MESSAGES_TOOL_STREAM,
    RESPONSE,
    RESPONSES_STREAM,
    table,
)
from tests.sage.serve.scripted import Asked, Reply, proxy, stream, whole

CALL = {"id": "t1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1, "b": 2}'}}
CHAT_TOOL = CHAT | {
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": None, "tool_calls": [CALL]},
            "finish_reason": "tool_calls",
        }
    ]
}
MESSAGE_TOOL = MESSAGE | {
    "content": [{"type": "tool_use", "id": "t1", "name": "add", "input": {"a": 1, "b": 2}}],
    "stop_reason": "tool_use",
}
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}
QUESTION = {"role": "user", "content": "1 + 2?"}


def model(asked: Asked) -> Reply:
    """Asks for the tool first, and answers once it has its result."""
    text, streams = asked.body.decode(), asked.values.get("stream")
    if asked.path.startswith("/v1/responses"):
        return stream(*RESPONSES_STREAM) if streams else whole(RESPONSE)
    if asked.path.startswith("/v1/messages"):
        if "tool_result" in text:
            return stream(*MESSAGES_STREAM) if streams else whole(MESSAGE)
        return stream(*MESSAGES_TOOL_STREAM) if streams else whole(MESSAGE_TOOL)
    if '"tool"' in text:
        return stream(*CHAT_STREAM) if streams else whole(CHAT)
    return stream(*CHAT_TOOL_STREAM) if streams else whole(CHAT_TOOL)


@pytest.fixture(scope="module")
def openai() -> Any:
    """Imported here, as is the next: both take seconds, which those who only collect tests need not wait."""
    return importlib.import_module("openai")


@pytest.fixture(scope="module")
def anthropic() -> Any:
    return importlib.import_module("anthropic")


@pytest.mark.parametrize("streams", [False, True])
def test_openai_finishes_a_turn_with_a_tool_call(tmp_path: Path, streams: bool, openai: Any) -> None:
    tools = [{"type": "function", "function": {"name": "add", "parameters": SCHEMA}}]
    with proxy(tmp_path, model, table) as served, openai.OpenAI(base_url=f"{served.url}/v1", api_key="none") as client:

        def ask(messages: list) -> tuple[str | None, str]:
            """The arguments of the tool call, and the text."""
            if not streams:
                done = client.chat.completions.create(model="sage", messages=messages, tools=tools)
                calls = done.choices[0].message.tool_calls
                return calls[0].function.arguments if calls else None, done.choices[0].message.content or ""
            with client.chat.completions.stream(model="sage", messages=messages, tools=tools) as events:
                message = events.get_final_completion().choices[0].message
            return message.tool_calls[0].function.arguments if message.tool_calls else None, message.content or ""

        arguments, _ = ask([QUESTION])
        assert json.loads(arguments or "") == {"a": 1, "b": 2}
        reply = {"role": "assistant", "content": None, "tool_calls": [CALL]}
        none, text = ask([QUESTION, reply, {"role": "tool", "tool_call_id": "t1", "content": "3"}])
        assert (none, text) == (None, "Hello" if streams else "Hi")
        assert [listed.id for listed in client.models.list()] == ["sage", "first", "second"]
        assert len(served.logged()) == 2


@pytest.mark.parametrize("streams", [False, True])
def test_openai_finishes_a_response(tmp_path: Path, streams: bool, openai: Any) -> None:
    with proxy(tmp_path, model, table) as served, openai.OpenAI(base_url=f"{served.url}/v1", api_key="none") as client:
        if streams:
            events = list(client.responses.create(model="sage", input="1 + 2?", stream=True))
            assert [event.type for event in events][-1] == "response.completed"
        else:
            assert client.responses.create(model="sage", input="1 + 2?").output_text == "Hi"


@pytest.mark.parametrize("streams", [False, True])
def test_anthropic_finishes_a_turn_with_a_tool_call(tmp_path: Path, streams: bool, anthropic: Any) -> None:
    tools = [{"name": "add", "input_schema": SCHEMA}]
    with proxy(tmp_path, model, table) as served, anthropic.Anthropic(base_url=served.url, api_key="none") as client:

        def ask(messages: list) -> list:
            given = {"model": "sage", "max_tokens": 9, "messages": messages, "tools": tools}
            if not streams:
                return client.messages.create(**given).content
            with client.messages.stream(**given) as events:
                return events.get_final_message().content

        (use,) = ask([QUESTION])
        assert (use.type, use.name, use.input) == ("tool_use", "add", {"a": 1, "b": 2})
        result = {"type": "tool_result", "tool_use_id": "t1", "content": "3"}
        reply = {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "add", "input": use.input}]}
        (text,) = ask([QUESTION, reply, {"role": "user", "content": [result]}])
        assert text.text == ("Hello" if streams else "Hi")
        assert [listed.id for listed in client.models.list()] == ["sage", "first", "second"]
        assert len(served.logged()) == 2


def test_clients_do_not_try_again_what_sage_has_tried(tmp_path: Path, openai: Any, anthropic: Any) -> None:
    down = whole({"error": {"message": "down", "type": "server_error"}}, 500)
    with proxy(tmp_path, lambda _: down, table) as served:
        with (
            openai.OpenAI(base_url=f"{served.url}/v1", api_key="none") as client,
            pytest.raises(openai.InternalServerError),
        ):
            client.chat.completions.create(model="sage", messages=[QUESTION])
        with (
            anthropic.Anthropic(base_url=served.url, api_key="none") as other,
            pytest.raises(anthropic.InternalServerError),
        ):
            other.messages.create(model="sage", max_tokens=9, messages=[QUESTION])
    assert len(served.upstream.asked) == 4  # two models each


def test_clients_raise_what_breaks_inside_of_a_stream(tmp_path: Path, openai: Any, anthropic: Any) -> None:
    def cut(asked: Asked) -> Reply:
        whole_stream = model(Asked(asked.method, asked.path, asked.headers, asked.body)).parts
        return stream(*whole_stream[:4], ends="cut")

    with proxy(tmp_path, cut, table) as served:
        with openai.OpenAI(base_url=f"{served.url}/v1", api_key="none") as client:
            with pytest.raises(openai.APIError, match="broke off"):
                list(client.chat.completions.create(model="sage", messages=[QUESTION], stream=True))
            with pytest.raises(openai.APIError, match="broke off"):
                list(client.responses.create(model="sage", input="x", stream=True))
        with anthropic.Anthropic(base_url=served.url, api_key="none") as other, pytest.raises(anthropic.APIError):
            list(other.messages.create(model="sage", max_tokens=9, messages=[QUESTION], stream=True))
