"""The tools of an agent: their descriptions for models, their costs, and checks of their arguments."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from typing import TYPE_CHECKING, TypedDict

from sage.sim.environment import rules
from sage.verifiers.json_schema import compile_schema, first_problem
from sage.workspace.workspace import ToolError

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator

PATH = {"type": "string", "description": "Relative path of a file, such as package/module.py."}


@dataclass(frozen=True, kw_only=True)
class Tool:
    """A function that an agent may call."""

    name: str
    description: str
    properties: Mapping[str, Mapping[str, object]] = field(default_factory=dict)  # JSON Schema of each argument
    required: tuple[str, ...] = ()
    cost: float = 0.0  # in the currency of the rules

    @property
    def parameters(self) -> dict[str, object]:
        """Returns the JSON Schema of the arguments."""
        needed = {"required": list(self.required)} if self.required else {}
        return {"type": "object", "properties": dict(self.properties), **needed, "additionalProperties": False}


SUBMIT = Tool(
    name="submit",
    description="Hands in the files as they are and ends the task. Visible and hidden tests then grade them.",
    cost=rules.COSTS["submit"],
)
GIVE_UP = Tool(name="give_up", description="Ends the task without handing anything in.", cost=rules.COSTS["stop"])
LAST = (SUBMIT, GIVE_UP)  # end the episode, and are possible when the budget is spent
RUN_TESTS = Tool(
    name="run_tests",
    description="Runs the visible tests in a sandbox and shows what fails, with tracebacks. All of them without names, which costs "
    f"{rules.COSTS['run']}; some of them cost {rules.COST_TRY}.",
    properties={
        "names": {
            "type": "array",
            "items": {"type": "string"},
            "description": "Tests such as test_module.py::test_name, names of test functions, or test files.",
        }
    },
    cost=rules.COSTS["run"],
)
TOOLS = (
    Tool(
        name="list_files", description="Lists all files with their numbers of lines, and which of them may be changed."
    ),
    Tool(
        name="read_file",
        description="Shows lines of a file. Each is printed after its number and a tab, which are not part of the file.",
        properties={
            "path": PATH,
            "start": {"type": "integer", "minimum": 1, "description": "The first line; 1 if not given."},
            "end": {"type": "integer", "minimum": 1, "description": "The last line; the end of the file if not given."},
        },
        required=("path",),
        cost=rules.COST_INSPECT,
    ),
    Tool(
        name="search",
        description="Finds the lines of all files that match a regular expression of Python.",
        properties={"pattern": {"type": "string", "minLength": 1, "maxLength": 1000}},
        required=("pattern",),
        cost=rules.COST_INSPECT,
    ),
    Tool(
        name="edit",
        description="Replaces a text in a file by another. The old text must occur exactly once, white space included; add "
        "lines around it if it occurs more often.",
        properties={"path": PATH, "old": {"type": "string", "minLength": 1}, "new": {"type": "string"}},
        required=("path", "old", "new"),
    ),
    Tool(
        name="write_file",
        description="Writes a whole file: one that may be changed, or a new Python file in a folder that may be changed.",
        properties={"path": PATH, "content": {"type": "string"}},
        required=("path", "content"),
    ),
    Tool(
        name="revert",
        description="Brings a file back to how it was at the beginning, or all files if no path is given.",
        properties={"path": PATH},
        cost=rules.COSTS["revert"],
    ),
    RUN_TESTS,
    Tool(
        name="localise",
        description="Runs the visible tests with a tracer and shows the lines that failing tests run and passing ones do not, the "
        "most suspicious first.",
        cost=rules.COSTS["localise"],
    ),
    SUBMIT,
    GIVE_UP,
)
BY_NAME = {tool.name: tool for tool in TOOLS}


@cache
def validator_of(name: str) -> Draft202012Validator:
    """Returns the validator of a tool's arguments."""
    return compile_schema(BY_NAME[name].parameters, name)


class Description(TypedDict):
    """The name and description of a tool, with the JSON Schema of its arguments."""

    name: str
    description: str
    parameters: dict[str, object]


class OpenAITool(TypedDict):
    type: str
    function: Description


class AnthropicTool(TypedDict):
    name: str
    description: str
    input_schema: dict[str, object]


def descriptions() -> list[Description]:
    """Returns the description of every tool, with its cost in words."""
    return [
        {
            "name": tool.name,
            "description": f"{tool.description} {cost_of(tool)}".rstrip(),
            "parameters": tool.parameters,
        }
        for tool in TOOLS
    ]


def cost_of(tool: Tool) -> str:
    return "" if tool is RUN_TESTS else f"Costs {tool.cost:g}." if tool.cost else "Free."


def openai_tools() -> list[OpenAITool]:
    """Returns all tools in the form of `tools=` of a chat completion."""
    return [{"type": "function", "function": one} for one in descriptions()]


def anthropic_tools() -> list[AnthropicTool]:
    """Returns all tools in the form of `tools=` of a message."""
    return [
        {"name": one["name"], "description": one["description"], "input_schema": one["parameters"]}
        for one in descriptions()
    ]


def checked_call(name: object, arguments: object) -> tuple[Tool, dict]:
    """Returns the tool of a call and its arguments, which may be the JSON text that models write; raises ToolError if
    there is no such tool, or if the arguments do not fit it."""
    if not isinstance(name, str) or name not in BY_NAME:
        close = get_close_matches(str(name)[:100], BY_NAME, n=1)
        hint = f"did you mean {close[0]}? " if close else ""
        raise ToolError(f"there is no tool {str(name)[:100]!r}: {hint}use {', '.join(BY_NAME)}")
    tool = BY_NAME[name]
    if isinstance(arguments, str):
        arguments = parse_json(arguments, f"the arguments of {name}") if arguments.strip() else {}
    given = {} if arguments is None else arguments
    takes = f"{name} takes {', '.join(tool.properties) or 'no arguments'}"
    if not isinstance(given, dict):
        raise ToolError(f"the arguments of {name} are no JSON object: {takes}")
    given = {
        key: value for key, value in given.items() if value is not None
    }  # models write null for what they leave out
    if problem := first_problem(validator_of(name), given, "arguments"):
        raise ToolError(f"{problem}: {takes}")
    return tool, given


def parse_json(text: str, place: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ToolError(f"{place} are not JSON ({str(error)[:100]})") from error
