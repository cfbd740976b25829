"""The board of clients: what its scripted model says, and which clients the page and verify_local.sh name."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PROGRAMS = ROOT / "benchmarks" / "sage"
SHELL = {"type": "object", "properties": {"command": {"type": "string"}, "wait": {"type": "boolean"}}}


def test_the_model_asks_for_a_command_and_answers_only_with_what_it_printed() -> None:
    from scripted_model import ANSWER, COMMAND, GREETING, PRINTED, TEST, Asked, Tool, said

    tools = [
        Tool("read", {"properties": {"path": {}}, "required": ["path"]}),
        Tool("sh", SHELL | {"required": ["command"]}),
    ]
    ((name, arguments),) = said(Asked(tools, "hello", has_result=False)).calls
    assert (name, json.loads(arguments)) == ("sh", {"command": COMMAND})
    assert PRINTED not in COMMAND + TEST  # or an agent that runs nothing could finish
    assert said(Asked(tools, f"... {PRINTED} ...", has_result=True)).text == ANSWER
    assert said(Asked(tools, "it was not allowed", has_result=True)).text == GREETING


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (
            {"type": "object", "properties": {"cmd": {"type": "array"}}, "required": ["cmd"]},
            {"cmd": ["bash", "-c", "x"]},
        ),
        (
            {"properties": {"commands": {"type": "array", "items": {"type": "string"}}}, "required": ["commands"]},
            {"commands": ["x"]},
        ),
        ({"type": ["null", "integer"], "minimum": 3}, 3),
        ({"anyOf": [{"enum": ["fast", "slow"]}, {"type": "null"}]}, "fast"),
        ({"type": "object", "properties": {"a": {"type": "string"}}}, {}),  # what is not needed is left out
    ],
)
def test_arguments_are_as_their_schema_wants_them(schema: dict, value: object) -> None:
    from scripted_model import example

    assert example(schema, "x") == value


def test_what_is_named_elsewhere_is_a_client_of_the_board() -> None:
    from client_programs import CLIENTS

    options = [client.option for client in CLIENTS]
    assert len(set(options)) == len(options)
    found = json.loads((PROGRAMS / "results" / "serve_clients.json").read_text())
    assert set(found) <= {client.name for client in CLIENTS}  # the page shows no other ones
    (agents,) = re.findall(r"for agent in (.*); do", (ROOT / "scripts" / "verify_local.sh").read_text())
    assert {agent.partition(":")[0] for agent in agents.split()} <= set(options)


def test_an_unfinished_client_is_told_as_such() -> None:
    from serve_tables import clients_table

    found = {"version": "1.2", "finished": False, "decisions": 0, "with_session": 0, "verdicts": [], "requests": {}}
    line = next(line for line in clients_table({"codex": found}).splitlines() if line.startswith("| codex"))
    assert line.startswith("| codex | 1.2: not finished | - | no | no |")
