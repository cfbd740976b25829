"""Answers are right or wrong; only the form that is documented is forgiven."""

from __future__ import annotations

import pytest
from short_tasks.checking import VERIFIERS

from sage.sandbox import SandboxError, choose
from sage.verifiers.sandboxed import SandboxTests
from tests import needs

TESTS = "from answer import double\n\n\ndef test_1():\n    assert double(4) == 8\n"


@pytest.mark.parametrize(
    ("verifier", "answer", "expected", "word"),
    [
        ("number", "85", 85, "passed"),
        ("number", " 85.\n", 85, "passed"),
        ("number", "**85**", 85, "passed"),
        ("number", "```\n1,250\n```", 1250, "passed"),
        ("number", "85.0", 85, "passed"),
        ("number", "47 + 38 = 85", 85, "failed"),
        ("number", "185", 85, "failed"),
        ("number", "", 0, "failed"),
        ("number", "nan", 0, "failed"),
        ("number", "8_5", 85, "failed"),
        ("text", "`a.b@c.io`", "a.b@c.io", "passed"),
        ("text", "A.b@c.io", "a.b@c.io", "failed"),
        ("text", "2020-07-13.", "2020-07-13", "passed"),
        ("text", "The date is 2020-07-13", "2020-07-13", "failed"),
        ("word", "Positive.", "positive", "passed"),
        ("word", "positive or negative", "positive", "failed"),
        ("list", "[3, 1]", ["3", "1"], "passed"),
        ("list", "'fig', 'kiwi'", ["fig", "kiwi"], "passed"),
        ("list", "kiwi, fig", ["fig", "kiwi"], "failed"),
        ("json", '```json\n{"b": true, "a": 1}\n```', {"a": 1, "b": True}, "passed"),
        ("json", '{"a": 1, "b": 1}', {"a": 1, "b": True}, "failed"),
        ("json", '{"a": "1", "b": true}', {"a": 1, "b": True}, "failed"),
        ("json", "a: 1", {"a": 1}, "failed"),
    ],
)
def test_an_answer_is_compared_exactly(verifier: str, answer: str, expected: object, word: str) -> None:
    assert VERIFIERS[verifier](answer, expected).verdict == word


@pytest.fixture(scope="module")
def sandbox() -> None:
    if SandboxTests({"test_answer.py": TESTS}).problem():
        pytest.skip(needs.SANDBOX)


@pytest.mark.usefixtures("sandbox")
@pytest.mark.parametrize(
    ("answer", "word"),
    [
        ("Here it is:\n```python\ndef double(x):\n    return 2 * x\n```\nIt doubles.", "passed"),
        ("def double(x):\n    return x + 5", "failed"),
        ("import os\nos._exit(0)", "failed"),
    ],
)
def test_a_function_is_right_if_its_unit_tests_pass_in_a_sandbox(answer: str, word: str) -> None:
    assert VERIFIERS["tests"](answer, TESTS).verdict == word


def test_without_a_sandbox_nothing_is_run_and_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str) -> None:
        raise SandboxError("none here")

    monkeypatch.setattr(choose, "open_backend", refuse)
    monkeypatch.setattr("sage.verifiers.sandboxed.OPENED", {})
    assert VERIFIERS["tests"]("raise SystemExit(1)", TESTS).verdict == "unknown"
