"""A scripted model that answers as OpenAI's and Anthropic's APIs describe: texts, tool calls, reasoning, streams and errors."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

import uvicorn
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
ARGUMENTS = '{"location": "San Francisco"}'


def events(parts: list[dict], named: bool, end: bytes = b"") -> Response:
    def written() -> Iterator[bytes]:
        for part in parts:
            name = f"event: {part['type']}\n" if named else ""
            yield f"{name}data: {json.dumps(part)}\n\n".encode()
        yield end

    return StreamingResponse(written(), media_type="text/event-stream")


def refused(message: str) -> Response:
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": None}
    return JSONResponse({"error": error}, 400)


async def chat(request: Request) -> Response:
    body = await request.json()
    if not isinstance(body.get("messages"), list) or "model" not in body:
        return refused("model and messages are needed")
    tool = bool(body.get("tools")) and body["messages"][-1].get("role") != "tool"
    frame = {"id": "chatcmpl-1", "created": 1, "model": body["model"], "service_tier": "default"}
    function = {"name": body["tools"][0]["function"]["name"], "arguments": ARGUMENTS} if tool else {}
    calls = [{"id": "call_1", "type": "function", "function": function}]
    finish = "tool_calls" if tool else "stop"
    if not body.get("stream"):
        message = {
            "role": "assistant",
            "content": None if tool else "Hello there friend",
            "refusal": None,
            "annotations": [],
        }
        message |= {"tool_calls": calls} if tool else {}
        message |= {"reasoning_content": "15 * 37 = 555"} if body.get("reasoning_effort") else {}
        choice = {"index": 0, "message": message, "finish_reason": finish, "logprobs": None}
        return JSONResponse(frame | {"object": "chat.completion", "choices": [choice], "usage": CHAT_USAGE})
    deltas: list[tuple[dict, str | None]] = [({"role": "assistant", "content": ""}, None)]
    deltas += (
        [({"tool_calls": [{"index": 0} | calls[0]]}, None)] if tool else [({"content": w}, None) for w in ("1 ", "2")]
    )
    deltas.append(({}, finish))
    asked = (body.get("stream_options") or {}).get("include_usage")
    parts = [
        frame
        | {"object": "chat.completion.chunk"}
        | {"choices": [{"index": 0, "delta": delta, "finish_reason": reason, "logprobs": None}]}
        | ({"usage": None} if asked else {})
        for delta, reason in deltas
    ]
    if asked:
        parts.append(frame | {"object": "chat.completion.chunk", "choices": [], "usage": CHAT_USAGE})
    return events(parts, named=False, end=b"data: [DONE]\n\n")


async def messages(request: Request) -> Response:
    body = await request.json()
    if not isinstance(body.get("max_tokens"), int):
        error = {"type": "invalid_request_error", "message": "max_tokens: Field required"}
        return JSONResponse({"type": "error", "error": error, "request_id": "req_1"}, 400)
    answered = isinstance(body["messages"][-1]["content"], list) and any(
        part.get("type") == "tool_result" for part in body["messages"][-1]["content"]
    )
    tool = bool(body.get("tools")) and not answered
    text = {"type": "text", "text": "Hello there friend", "citations": None}
    use = (
        {"type": "tool_use", "id": "toolu_1", "name": body["tools"][0]["name"], "caller": {"type": "direct"}}
        if tool
        else {}
    )
    content = [use | {"input": json.loads(ARGUMENTS)}] if tool else [text]
    if body.get("thinking"):
        content.insert(0, {"type": "thinking", "thinking": "15 * 37 = 555", "signature": "c2ln"})
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": content,
        "stop_reason": "tool_use" if tool else "end_turn",
        "stop_sequence": None,
        "stop_details": None,
        "container": None,
        "usage": USAGE,
    }
    if not body.get("stream"):
        return JSONResponse(message)
    block = use | {"input": {}} if tool else text | {"text": ""}
    delta = {"type": "input_json_delta", "partial_json": ARGUMENTS} if tool else {"type": "text_delta", "text": "1 2"}
    parts = [
        {"type": "message_start", "message": message | {"content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": message["stop_reason"], "stop_sequence": None},
            "usage": {"output_tokens": 5},
        },
        {"type": "message_stop"},
    ]
    return events(parts, named=True)


def response_of(body: dict) -> dict:
    """A response as openresponses.org describes it, with every field that it requires."""
    tool = bool(body.get("tools")) and not any(
        isinstance(item, dict) and item.get("type") == "function_call_output"
        for item in (body["input"] if isinstance(body["input"], list) else [])
    )
    text = {"type": "output_text", "text": "Hello there friend", "annotations": [], "logprobs": []}
    item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [text]}
    call = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "arguments": ARGUMENTS, "status": "completed"}
    output = [call | {"name": body["tools"][0].get("name", "tool")}] if tool else [item]
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
            parts.append({"type": "response.output_text.delta", "delta": part["text"], "logprobs": []} | place)
            parts.append({"type": "response.output_text.done", "text": part["text"], "logprobs": []} | place)
            parts.append({"type": "response.content_part.done", "part": part} | place)
        elif item["type"] == "function_call":
            parts.append({"type": "response.function_call_arguments.delta", "delta": ARGUMENTS} | place)
            parts.append({"type": "response.function_call_arguments.done", "arguments": ARGUMENTS} | place)
        parts.append({"type": "response.output_item.done", "output_index": index, "item": item})
    parts.append({"type": "response.completed", "response": response})
    return events([part | {"sequence_number": number} for number, part in enumerate(parts)], named=True)


APPLICATION = Starlette(
    routes=[
        Route("/v1/chat/completions", chat, methods=["POST"]),
        Route("/v1/messages", messages, methods=["POST"]),
        Route("/v1/responses", responses, methods=["POST"]),
    ]
)

if __name__ == "__main__":
    uvicorn.run(APPLICATION, port=int(sys.argv[1]), log_level="warning")
