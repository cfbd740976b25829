"""Later requests say how earlier answers did, where it is plain: which decision, that tests ran, and their exit code."""

from __future__ import annotations

import json

import pytest

from sage.serve.feedback.signals import RETRY, TESTS, Signals, exit_code, ran_tests

PLACE = ("team", "session-1", "chat")


def chat(command: object, result: str) -> list:
    call = {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": json.dumps({"command": command})}}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": result},
    ]


def messages(command: object, result: str) -> list:
    use = {"type": "tool_use", "id": "c1", "name": "Bash", "input": {"command": command}}
    block = {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": result}]}
    return [{"role": "assistant", "content": [use]}, {"role": "user", "content": [block]}]


def responses(command: object, result: str) -> list:
    return [
        {"type": "reasoning", "summary": []},
        {"type": "function_call", "call_id": "c1", "name": "shell", "arguments": json.dumps({"command": command})},
        {"type": "function_call_output", "call_id": "c1", "output": result},
    ]


@pytest.mark.parametrize("dialect", [chat, messages, responses])
@pytest.mark.parametrize(("code", "word"), [(0, "passed"), (1, "failed")])
def test_tests_that_an_agent_ran_are_a_verdict_on_the_answer_that_ran_them(dialect, code: int, word: str) -> None:
    signals = Signals()
    field = "input" if dialect is responses else "messages"
    first = [{"role": "user", "content": [{"type": "text", "text": "repair it", "cache_control": {"type": "x"}}]}]
    assert signals.verdicts_on_earlier(PLACE, {field: first}, {}, "d1") == []
    again = [{"role": "user", "content": [{"type": "text", "text": "repair it"}]}]  # marks of caching move
    then = [*again, *dialect("cd app && pytest -q tests/", f"Exit code: {code}\n2 tests")]
    [(decision, verdict)] = signals.verdicts_on_earlier(PLACE, {field: then}, {}, "d2")
    assert decision == "d1"
    assert (verdict.verifier, verdict.verdict) == (TESTS, word)
    assert f"exit code {code}" in verdict.source


def test_only_the_same_conversation_is_meant() -> None:
    signals = Signals()
    first = [{"role": "user", "content": "repair it"}]
    signals.verdicts_on_earlier(PLACE, {"messages": first}, {}, "d1")
    then = {"messages": [*first, *chat("pytest", "Exit code: 1")]}
    assert signals.verdicts_on_earlier(("team", "session-2", "chat"), then, {}, "x") == []
    assert signals.verdicts_on_earlier(("other", "session-1", "chat"), then, {}, "x") == []
    other = {"messages": [{"role": "user", "content": "something else"}, *chat("pytest", "Exit code: 1")]}
    assert signals.verdicts_on_earlier(PLACE, other, {}, "x") == []
    assert [decision for decision, _ in signals.verdicts_on_earlier(PLACE, then, {}, "d2")] == ["d1"]


@pytest.mark.parametrize(
    ("command", "counts"),
    [
        ("pytest", True),
        ("python -m pytest -x -q tests/test_a.py 2>&1", True),
        (["bash", "-lc", "cd /repo && uv run pytest -q"], True),
        (["pytest", "-q"], True),
        ("PYTHONPATH=src .venv/bin/python3.11 -m unittest discover", True),
        ("cargo test --all", True),
        ("go test ./...", True),
        ("npm test", True),
        ("make test", True),
        ("pytest | tail -5", False),  # the exit code would be that of tail
        ("pytest || true", False),
        ("pytest; echo done", False),
        ("pytest && git commit -m x", False),
        ("pytest $(git diff --name-only)", False),
        ("echo pytest", False),
        ("cat pytest.ini", False),
        ("pytest-benchmark compare", False),
        ("git log", False),
        (7, False),
    ],
)
def test_only_a_command_that_is_a_test_run_counts(command: object, counts: bool) -> None:
    items = [{"role": "user", "content": "x"}, *chat(command, "Exit code: 0")]
    assert (ran_tests(items) is not None) == counts


@pytest.mark.parametrize(
    ("commands", "counts"), [(["pytest"], True), (["pytest", "ls"], False), ([], False), ("pytest", False)]
)
def test_a_list_of_one_command_counts(commands: object, counts: bool) -> None:
    call = {"id": "c1", "function": {"name": "run_commands", "arguments": json.dumps({"commands": commands})}}
    result = {"role": "tool", "tool_call_id": "c1", "content": "[Command exited with code 1]"}
    items = [{"role": "user", "content": "x"}, {"role": "assistant", "tool_calls": [call]}, result]
    assert (ran_tests(items) is not None) == counts


FAILED = "F\n====\nFAIL: test_hello\n----\nRan 1 test in 0.001s\n\nFAILED (failures=1)"


@pytest.mark.parametrize(
    ("result", "code"),
    [
        ("Exit code: 0\nWall time: 1 s", 0),
        ("Exit code 1\nFAILED", 1),
        ("1 failed\nProcess exited with code 1", 1),
        ("<returncode>2</returncode>\n<output>..", 2),
        (
            f"Chunk ID: 95084d\nWall time: 0.97 seconds\nProcess exited with code 1\nTokens: 9\nOutput:\n{FAILED}",
            1,
        ),  # codex
        (f"Wall time: 2 seconds\nProcess exited with code 0\nOutput:\n{FAILED}\nExit code: 1", 0),
        (f"Command: pytest\nOutput: {FAILED}\nExit Code: 1\nSignal: 0\nProcess Group PGID: 4080", 1),  # Qwen Code
        (f"Output: {FAILED}\nExit Code: 1\nSignal: 0\nthe end", None),
        (f"Error executing tool Bash: Error (exit code 1): {FAILED}", 1),  # Continue
        (f"{FAILED}\n\nCommand exited with code 1", 1),  # pi
        (json.dumps([{"result": f"[Command exited with code 1]\n\n{FAILED}", "success": False}]), 1),  # Cline
        (json.dumps([{"result": "[Command exited with code 1]"}, {"result": "3 passed"}]), None),
        ('[{"result": 1}]', None),
        ("[{", None),
        (json.dumps([[{"result": "exit code: 1"}]]), None),
        (FAILED, None),  # opencode says no more
        ('{"output": "1 failed", "metadata": {"exit_code": 1}}', 1),
        ('{"stdout": "", "returncode": 0}', 0),
        ('{"exit_code": true}', None),
        ('{"exit_code": "0"}', None),
        ("a\nExit code: 0\nb", None),  # what a program under test wrote
        ("Exit code: 0\nExit code: 1", None),
        ("3 passed", None),
        ("", None),
    ],
)
def test_exit_codes_are_read_where_they_are_plain(result: str, code: int | None) -> None:
    assert exit_code(result) == code


def test_codes_that_are_no_verdict_of_tests_and_several_runs_say_nothing() -> None:
    first = {"role": "user", "content": "x"}
    for code in (2, 4, 5, 127, -9):  # of pytest: interrupted, usage, nothing collected; not found, killed
        assert ran_tests([first, *chat("pytest", f"Exit code: {code}")]) is None
    two = chat("pytest a", "Exit code: 1")
    call = dict(two[0]["tool_calls"][0], id="c2")
    two[0]["tool_calls"].append(call)
    assert ran_tests([first, *two, {"role": "tool", "tool_call_id": "c2", "content": "Exit code: 0"}]) is None
    assert ran_tests(chat("pytest", "Exit code: 1")) is None  # a conversation without a beginning


def test_a_retry_is_one_that_the_sdk_calls_so() -> None:
    signals = Signals()
    values = {"messages": [{"role": "user", "content": "x"}]}
    signals.verdicts_on_earlier(PLACE, values, {"x-stainless-retry-count": "0"}, "d1")
    assert signals.verdicts_on_earlier(PLACE, values, {}, "d2") == []  # the same once more may be a second sample
    [(decision, verdict)] = signals.verdicts_on_earlier(PLACE, values, {"x-stainless-retry-count": "1"}, "d3")
    assert (decision, verdict.verifier, verdict.verdict) == ("d2", RETRY, "failed")


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"messages": None},
        {"messages": "x"},
        {"messages": [None, 3, "x", []]},
        {"messages": [{"role": "assistant", "tool_calls": [{"id": 1, "function": 2}, 3]}, {"role": "tool"}]},
        {"messages": [{"role": "assistant", "content": [{"type": "tool_use", "id": "a", "input": []}]}, {}]},
        {"input": [{"type": "function_call", "call_id": "a", "arguments": "{" * 5000}, {"type": "x", "content": 1}]},
    ],
)
def test_odd_requests_say_nothing(values: dict) -> None:
    assert Signals().verdicts_on_earlier(PLACE, values, {"x-stainless-retry-count": "²"}, "d1") == []
