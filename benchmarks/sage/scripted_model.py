"""What the scripted model of `conformant_upstream.py` says: a tool call first, and an answer once its result is there."""

from __future__ import annotations

import json
import re
from typing import NamedTuple

COMMAND = "python3 -m unittest hello_test"
TEST = """import unittest


class Hello(unittest.TestCase):
    def test_hello(self):
        self.fail(f"{6 * 7}-from-the-tool")
"""  # as hello_test.py, for COMMAND
PRINTED = "42-from-the-tool"  # by whoever really ran the command
ANSWER = f"The tool said {PRINTED}"
GREETING = "Hello there friend"  # where no tool has said anything
COMMAND_FIELDS = frozenset({"command", "commands", "cmd"})  # of the tools that run one
FINISHING_TOOL = "final_answer"  # with which smolagents ends a turn
FINISHING_COMMAND = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"  # with which mini-swe-agent does
EDIT_RULES = "*SEARCH/REPLACE* block"  # in the prompt of aider, which edits files as its model's text says
EDIT = f"hello.py\n```python\n<<<<<<< SEARCH\n=======\nprint({GREETING!r})\n>>>>>>> REPLACE\n```\n"


class Tool(NamedTuple):
    name: str
    schema: dict  # of its arguments


class Asked(NamedTuple):
    """A request, in whichever dialect."""

    tools: list[Tool]
    words: str  # of all messages, as JSON
    has_result: bool  # of a tool
    all_tools: bool = False  # the client wants several calls at once
    wanted: dict | None = None  # the schema that an answer must have


class Said(NamedTuple):
    """Texts stand alone; calls, each a name with its arguments, do too."""

    text: str = ""
    calls: tuple[tuple[str, str], ...] = ()


def said(asked: Asked) -> Said:
    tools = asked.tools
    if asked.has_result or PRINTED in asked.words:  # some agents report results as words of the user
        last = next((tool for tool in tools if tool.name == FINISHING_TOOL), None)
        if last is not None:
            return Said(calls=(call_of(last, text_of(asked)),))
        if tools and FINISHING_COMMAND in asked.words and asked.words.count(PRINTED) == 1:
            return Said(calls=(call_of(tools[0], f"{FINISHING_COMMAND}; echo '{ANSWER}'"),))
        return Said(text_of(asked))
    if asked.all_tools:
        return Said(calls=tuple(call_of(tool) for tool in tools))
    if tools:
        return Said(calls=(call_of(next(filter(runs_commands, tools), tools[0])),))
    return Said(text_of(asked))


def text_of(asked: Asked) -> str:
    if asked.wanted is not None:
        return json.dumps(example(asked.wanted))
    if PRINTED in asked.words:
        return ANSWER
    if EDIT_RULES in asked.words:
        return EDIT
    told = re.search(r"reply exactly (\w+)", asked.words)
    return told[1] if told else GREETING


def runs_commands(tool: Tool) -> bool:
    return not COMMAND_FIELDS.isdisjoint(tool.schema.get("required", ()))


def call_of(tool: Tool, text: str = COMMAND) -> tuple[str, str]:
    return tool.name, json.dumps(example(tool.schema, text))


def example(schema: dict, text: str = COMMAND, name: str = "") -> object:
    """A value as a JSON schema wants it. Texts that are no command are short, as many tools show them to the user."""
    kind = schema.get("type")
    kind = next((one for one in kind if one != "null"), "null") if isinstance(kind, list) else kind
    choices = schema.get("enum") or schema.get("anyOf") or schema.get("oneOf")
    if choices:
        return example(choices[0], text, name) if isinstance(choices[0], dict) else choices[0]
    if kind == "object" or "properties" in schema:
        known, needed = schema.get("properties", {}), schema.get("required", [])
        return {key: example(value, text, key) for key, value in known.items() if key in needed}
    if kind == "array":
        shell = name in ("command", "cmd")  # the words of one command
        return ["bash", "-c", text] if shell else [example(schema.get("items", {}), text, name)]
    if kind in ("integer", "number"):
        return schema.get("minimum", 1)
    if kind == "boolean":
        return False
    return text if name in COMMAND_FIELDS | {"answer"} else "hello"
