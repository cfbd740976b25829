"""A server that answers as OpenAI's and Anthropic's APIs describe: texts, tool calls, reasoning, streams and errors.

What it says is in `scripted_model.py`.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator

import uvicorn
from scripted_model import Asked, Tool, said
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

CHAT_USAGE = {"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25} | {
    "completion_tokens_details": {"reasoning_tokens": 3}
}
USAGE = {
    "input_tokens": 20,
    "output_tokens": 5,
    "cache_creation": None,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 0,
    "inference_geo": None,
    "output_tokens_details": None,
    "server_tool_use": None,
    "service_tier": "standard",
}
PAUSE_S = 0.002  # after an event, so that whoever holds a stream back is seen to do so


def events(parts: list[dict], named: bool, end: bytes = b"") -> Response:
    async def written() -> AsyncIterator[bytes]:
        for part in parts:
            name = f"event: {part['type']}\n" if named else ""
            yield f"{name}data: {json.dumps(part)}\n\n".encode()
            await asyncio.sleep(PAUSE_S)
        yield end

    return StreamingResponse(written(), media_type="text/event-stream")


def pieces(text: str) -> list[str]:
    """A text as a stream has it: in words."""
    return text.split(" ", 1)[:1] + [f" {word}" for word in text.split(" ")[1:]]


def refused(message: str) -> Response:
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": None}
    return JSONResponse({"error": error}, 400)


async def chat(request: Request) -> Response:
    body = await request.json()
    if not isinstance(body.get("messages"), list) or "model" not in body:
        return refused("model and messages are needed")
    answer = said(asked_in_chat(body))
    frame = {"id": "chatcmpl-1", "created": 1, "model": body["model"], "service_tier": "default"}
    calls = [
        {"id": f"call_{number}", "type": "function", "function": {"name": name, "arguments": arguments}}
        for number, (name, arguments) in enumerate(answer.calls, start=1)
    ]
    finish = "tool_calls" if calls else "stop"
    if not body.get("stream"):
        message = {"role": "assistant", "content": answer.text or None, "refusal": None, "annotations": []}
        message |= {"tool_calls": calls} if calls else {}
        message |= {"reasoning_content": "15 * 37 = 555"} if body.get("reasoning_effort") else {}
        choice = {"index": 0, "message": message, "finish_reason": finish, "logprobs": None}
        return JSONResponse(frame | {"object": "chat.completion", "choices": [choice], "usage": CHAT_USAGE})
    deltas: list[tuple[dict, str | None]] = [({"role": "assistant", "content": ""}, None)]
    deltas += [({"content": piece}, None) for piece in pieces(answer.text) if piece]
    for index, call in enumerate(calls):
        begun = call | {"function": call["function"] | {"arguments": ""}}
        deltas.append(({"tool_calls": [{"index": index} | begun]}, None))
    for index, call in enumerate(calls):
        for piece in pieces(call["function"]["arguments"]):
            deltas.append(({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}, None))
    deltas.append(({}, finish))
    counted = (body.get("stream_options") or {}).get("include_usage")
    parts = [
        frame
        | {"object": "chat.completion.chunk"}
        | {"choices": [{"index": 0, "delta": delta, "finish_reason": reason, "logprobs": None}]}
        | ({"usage": None} if counted else {})
        for delta, reason in deltas
    ]
    if counted:
        parts.append(frame | {"object": "chat.completion.chunk", "choices": [], "usage": CHAT_USAGE})
    return events(parts, named=False, end=b"data: [DONE]\n\n")


def asked_in_chat(body: dict) -> Asked:
    functions = [tool["function"] for tool in body.get("tools") or [] if tool.get("type") == "function"]
    shape = body.get("response_format") or {}
    schema = (
        shape.get("json_schema", {}).get("schema", {"type": "object"}) if shape.get("type", "text") != "text" else None
    )
    return Asked(
        [Tool(function["name"], function.get("parameters") or {}) for function in functions],
        json.dumps(body["messages"]),
        any(message.get("role") == "tool" for message in body["messages"]),
        all_tools=body.get("tool_choice") == "required" and body.get("parallel_tool_calls") is True,
        wanted=schema,
    )


async def messages(request: Request) -> Response:
    body = await request.json()
    if not isinstance(body.get("max_tokens"), int):
        error = {"type": "invalid_request_error", "message": "max_tokens: Field required"}
        return JSONResponse({"type": "error", "error": error, "request_id": "req_1"}, 400)
    answer = said(asked_in_messages(body))
    content: list[dict] = [
        {"type": "tool_use", "id": f"toolu_{number}", "name": name, "caller": {"type": "direct"}}
        | {"input": json.loads(arguments)}
        for number, (name, arguments) in enumerate(answer.calls, start=1)
    ] or [{"type": "text", "text": answer.text, "citations": None}]
    if body.get("thinking"):
        content.insert(0, {"type": "thinking", "thinking": "15 * 37 = 555", "signature": "c2ln"})
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": content,
        "stop_reason": "tool_use" if answer.calls else "end_turn",
        "stop_sequence": None,
        "stop_details": None,
        "container": None,
        "usage": USAGE,
    }
    if not body.get("stream"):
        return JSONResponse(message)
    parts: list[dict] = [{"type": "message_start", "message": message | {"content": [], "stop_reason": None}}]
    for index, block in enumerate(content):
        empty, deltas = unfolded(block)
        parts.append({"type": "content_block_start", "index": index, "content_block": empty})
        parts += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        parts.append({"type": "content_block_stop", "index": index})
    stop = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    parts += [{"type": "message_delta", "delta": stop, "usage": {"output_tokens": 5}}, {"type": "message_stop"}]
    return events(parts, named=True)


def unfolded(block: dict) -> tuple[dict, list[dict]]:
    """A block of content as a stream has it: empty, and what is added to it."""
    if block["type"] == "tool_use":
        whole = json.dumps(block["input"])
        return block | {"input": {}}, [{"type": "input_json_delta", "partial_json": piece} for piece in pieces(whole)]
    if block["type"] == "thinking":
        signed = {"type": "signature_delta", "signature": block["signature"]}
        thought = {"type": "thinking_delta", "thinking": block["thinking"]}
        return block | {"thinking": "", "signature": ""}, [thought, signed]
    return block | {"text": ""}, [{"type": "text_delta", "text": piece} for piece in pieces(block["text"])]


def asked_in_messages(body: dict) -> Asked:
    contents = [message["content"] for message in body["messages"] if isinstance(message["content"], list)]
    return Asked(
        [Tool(tool["name"], tool["input_schema"]) for tool in body.get("tools") or [] if "input_schema" in tool],
        json.dumps(body["messages"]),
        any(part.get("type") == "tool_result" for content in contents for part in content),
    )


def asked_in_responses(body: dict) -> Asked:
    items = [item for item in body["input"] if isinstance(item, dict)] if isinstance(body["input"], list) else []
    functions = [tool for tool in body.get("tools") or [] if tool.get("type") == "function"]
    return Asked(
        [Tool(function["name"], function.get("parameters") or {}) for function in functions],
        json.dumps(body["input"]),
        any(item.get("type") == "function_call_output" for item in items),
    )


def response_of(body: dict) -> dict:
    """A response as openresponses.org describes it, with every field that it requires."""
    answer = said(asked_in_responses(body))
    text = {"type": "output_text", "text": answer.text, "annotations": [], "logprobs": []}
    item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [text]}
    output: list[dict] = [
        {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", "status": "completed"}
        | {"name": name, "arguments": arguments}
        for number, (name, arguments) in enumerate(answer.calls, start=1)
    ] or [item]
    if body.get("reasoning"):
        summary = [{"type": "summary_text", "text": "15 * 37 = 555"}]
        output.insert(0, {"type": "reasoning", "id": "rs_1", "summary": summary})
    usage = {"input_tokens": 20, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 5, "total_tokens": 25}
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "completed_at": 2,
        "status": "completed",
        "incomplete_details": None,
        "model": body["model"],
        "previous_response_id": None,
        "instructions": body.get("instructions"),
        "output": output,
        "error": None,
        "tools": [{"strict": None, "description": None, "parameters": None} | tool for tool in body.get("tools") or []],
        "tool_choice": body.get("tool_choice", "auto"),
        "truncation": "disabled",
        "parallel_tool_calls": True,
        "text": {"format": {"type": "text"}, "verbosity": "medium"},
        "top_p": 1.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "top_logprobs": 0,
        "temperature": 1.0,
        "reasoning": {"effort": None, "summary": None} | (body.get("reasoning") or {}),
        "usage": usage | {"output_tokens_details": {"reasoning_tokens": 0}},
        "max_output_tokens": body.get("max_output_tokens"),
        "max_tool_calls": None,
        "store": False,
        "background": False,
        "service_tier": "default",
        "metadata": body.get("metadata") or {},
        "safety_identifier": None,
        "prompt_cache_key": body.get("prompt_cache_key"),
    }


async def responses(request: Request) -> Response:
    body = await request.json()
    if not isinstance(body.get("input"), str | list) or "model" not in body:
        return refused("model and input are needed")
    response = response_of(body)
    if not body.get("stream"):
        return JSONResponse(response)
    begun = response | {"status": "in_progress", "output": [], "usage": None, "completed_at": None}
    parts: list[dict] = [
        {"type": "response.created", "response": begun},
        {"type": "response.in_progress", "response": begun},
    ]
    for index, item in enumerate(response["output"]):
        place = {"output_index": index, "item_id": item["id"]}
        empty = item | {"status": "in_progress"} if item["type"] != "reasoning" else item
        empty |= (
            {"content": []}
            if item["type"] == "message"
            else {"arguments": ""}
            if item["type"] == "function_call"
            else {}
        )
        parts.append({"type": "response.output_item.added", "output_index": index, "item": empty})
        if item["type"] == "message":
            part = item["content"][0]
            place |= {"content_index": 0}
            parts.append({"type": "response.content_part.added", "part": part | {"text": ""}} | place)
            parts += [
                {"type": "response.output_text.delta", "delta": piece, "logprobs": []} | place
                for piece in pieces(part["text"])
            ]
            parts.append({"type": "response.output_text.done", "text": part["text"], "logprobs": []} | place)
            parts.append({"type": "response.content_part.done", "part": part} | place)
        elif item["type"] == "function_call":
            whole = item["arguments"]
            parts += [
                {"type": "response.function_call_arguments.delta", "delta": piece} | place for piece in pieces(whole)
            ]
            parts.append({"type": "response.function_call_arguments.done", "arguments": whole} | place)
        parts.append({"type": "response.output_item.done", "output_index": index, "item": item})
    parts.append({"type": "response.completed", "response": response})
    return events([part | {"sequence_number": number} for number, part in enumerate(parts)], named=True)


async def models(request: Request) -> Response:
    return JSONResponse({"object": "list", "data": [{"id": "scripted", "object": "model", "owned_by": "nobody"}]})


APPLICATION = Starlette(
    routes=[
        Route("/v1/models", models),
        Route("/v1/chat/completions", chat, methods=["POST"]),
        Route("/v1/messages", messages, methods=["POST"]),
        Route("/v1/responses", responses, methods=["POST"]),
    ]
)

if __name__ == "__main__":
    uvicorn.run(APPLICATION, port=int(sys.argv[1]), log_level="warning")
