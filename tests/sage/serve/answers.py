"""Answers in the three dialects, whole and as streams, and the tables that tests serve with."""

from __future__ import annotations

import json

CHAT = {
    "id": "c1",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 1000, "completion_tokens": 100, "prompt_tokens_details": {"cached_tokens": 400}},
}
MESSAGE = {
    "id": "m1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [{"type": "text", "text": "Hi"}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {
        "input_tokens": 500,
        "output_tokens": 100,
        "cache_read_input_tokens": 400,
        "cache_creation_input_tokens": 100,
    },
}
RESPONSE = {
    "id": "r1",
    "object": "response",
    "created_at": 1,
    "status": "completed",
    "error": None,
    "model": "m",
    "output": [
        {
            "type": "message",
            "id": "o1",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "Hi", "annotations": []}],
        }
    ],
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
    "usage": {
        "input_tokens": 1000,
        "input_tokens_details": {"cached_tokens": 400},
        "output_tokens": 100,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 1100,
    },
}


def data(values: dict) -> bytes:
    return b"data: " + json.dumps(values).encode() + b"\n\n"


def event(values: dict) -> bytes:
    return b"event: " + values["type"].encode() + b"\n" + data(values)


def chunk(delta: dict, finish: str | None = None, **more: object) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return data({"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]} | more)


DONE = b"data: [DONE]\n\n"
USAGE = data(
    {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [], "usage": CHAT["usage"]}
)


def tool_delta(**given: object) -> dict:
    return {"tool_calls": [{"index": 0} | given]}


CHAT_STREAM = (
    chunk({"role": "assistant", "content": ""}),
    chunk({"content": "Hel"}),
    chunk({"content": "lo"}),
    chunk({}, "stop"),
    USAGE,
    DONE,
)
CHAT_TOOL_STREAM = (
    chunk({"role": "assistant", "content": None}),
    chunk(tool_delta(id="t1", type="function", function={"name": "add", "arguments": ""})),
    chunk(tool_delta(function={"arguments": '{"a": 1,'})),
    chunk(tool_delta(function={"arguments": ' "b": 2}'})),
    chunk({}, "tool_calls"),
    USAGE,
    DONE,
)
MESSAGES_STREAM = (
    event({"type": "message_start", "message": MESSAGE | {"content": [], "stop_reason": None}}),
    event({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
    event({"type": "ping"}),
    event({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hello"}}),
    event({"type": "content_block_stop", "index": 0}),
    event({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 100}}),
    event({"type": "message_stop"}),
)
MESSAGES_TOOL_STREAM = (
    event({"type": "message_start", "message": MESSAGE | {"content": [], "stop_reason": None}}),
    event(
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "tool_use", "id": "t1", "name": "add", "input": {}},
        }
    ),
    event(
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "input_json_delta", "partial_json": '{"a": 1, "b": 2}'},
        }
    ),
    event({"type": "content_block_stop", "index": 0}),
    event({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 100}}),
    event({"type": "message_stop"}),
)
STARTED = RESPONSE | {"status": "in_progress", "output": [], "usage": None}
RESPONSES_STREAM = tuple(
    event(values | {"sequence_number": number})
    for number, values in enumerate(
        (
            {"type": "response.created", "response": STARTED},
            {"type": "response.in_progress", "response": STARTED},
            {
                "type": "response.output_item.added",
                "output_index": 0,
                "item": RESPONSE["output"][0] | {"content": [], "status": "in_progress"},
            },
            {
                "type": "response.output_text.delta",
                "item_id": "o1",
                "output_index": 0,
                "content_index": 0,
                "delta": "Hi",
            },
            {"type": "response.output_item.done", "output_index": 0, "item": RESPONSE["output"][0]},
            {"type": "response.completed", "response": RESPONSE},
        )
    )
)
STREAMS = {"chat": CHAT_STREAM, "messages": MESSAGES_STREAM, "responses": RESPONSES_STREAM}
WHOLE = {"chat": CHAT, "messages": MESSAGE, "responses": RESPONSE}
PATHS = {"chat": "/v1/chat/completions", "messages": "/v1/messages", "responses": "/v1/responses"}
ASK = [{"role": "user", "content": "fix the parser"}]
BODIES = {
    "chat": {"model": "any", "messages": ASK},
    "messages": {"model": "any", "max_tokens": 100, "messages": ASK},
    "responses": {"model": "any", "input": "fix the parser"},
}


def table(url: str, *, serve: str = "{retries: 0}", timeouts: str = "first_byte_s: 5", more: str = "") -> str:
    """Two models behind one URL; `first` is chosen, `second` is its fallback."""
    models = "\n".join(
        f"  {name}: {{input_usd_per_mtok: 10, output_usd_per_mtok: 100, cached_input_usd_per_mtok: 1, "
        f"cache_write_usd_per_mtok: 20, upstream: {{url: '{url}', model: {name}-there, key_env: UP_KEY, "
        f"dialects: [chat, messages, responses, embeddings], {timeouts}}}}}"
        for name in ("first", "second")
    )
    return f"models:\n{models}\nroles: {{default: {{primary: first, fallback: second}}}}\nserve: {serve}\n{more}"
