"""Verifiers of answers; they forgive only form: spaces, one code fence, quotes or emphasis, and a final full stop.

Code that a model wrote is never run on the host: functions go through `sage.verifiers.sandboxed`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import cast

from sage.verifiers.sandboxed import SandboxTests
from sage.verifiers.verifier import Answer, Opinion
from short_tasks.task import ShortTask

FENCE = re.compile(r"\A```\w*\n(.*?)\n?```\Z", re.DOTALL)
AROUND = "\"'`*"
TESTS_FILE = "test_answer.py"
TEST_SECONDS = 5.0  # of processor time, for tests that take milliseconds
NUMBER = re.compile(r"-?\d+(\.\d+)?\Z")


def verdict(task: ShortTask, text: str) -> Opinion:
    """Returns `passed` or `failed`; `unknown` only where a sandbox is missing or broke."""
    return VERIFIERS[task.verifier](text, task.expected)


def bare(text: str) -> str:
    """Returns the answer without spaces around it, a code fence, quotes, emphasis, and a final full stop."""
    text = text.strip()
    if fenced := FENCE.match(text):
        text = fenced[1].strip()
    return text.removesuffix(".").strip(AROUND).removesuffix(".").strip()


def same_text(text: str, expected: object) -> Opinion:
    """Passes the expected text."""
    return opinion(bare(text) == expected)


def same_word(text: str, expected: object) -> Opinion:
    """Passes the expected word in upper or lower case."""
    return opinion(bare(text).lower() == str(expected).lower())


def same_number(text: str, expected: object) -> Opinion:
    """Passes the expected number, however it is written: 1,250 equals 1250, and 2.50 equals 2.5."""
    found = bare(text).replace(",", "")
    return opinion(bool(NUMBER.match(found)) and float(found) == expected)


def same_list(text: str, expected: object) -> Opinion:
    """Passes the expected items in order, separated by commas; brackets around them are forgiven."""
    found = [item.strip().strip(AROUND) for item in bare(text).strip("[]").split(",")]
    return opinion(found == expected)


def same_json(text: str, expected: object) -> Opinion:
    """Passes the expected JSON value, whatever its spaces and the order of its keys; 1 and true differ."""
    text = text.strip()
    fenced = FENCE.match(text)
    try:
        found = json.loads(fenced[1] if fenced else text)
    except ValueError:
        return opinion(False)
    return opinion(json.dumps(found, sort_keys=True) == json.dumps(expected, sort_keys=True))


def passes_tests(text: str, expected: object) -> Opinion:
    """Passes Python code (with or without a code fence) that passes its unit tests in a sandbox."""
    tests = SandboxTests({TESTS_FILE: cast("str", expected)}, time_limit_s=TEST_SECONDS)
    return tests.verify(Answer(text=text))


def opinion(passed: bool) -> Opinion:
    return Opinion("passed" if passed else "failed", "compared with the expected answer")


VERIFIERS: dict[str, Callable[[str, object], Opinion]] = {
    "text": same_text,
    "word": same_word,
    "number": same_number,
    "list": same_list,
    "json": same_json,
    "tests": passes_tests,
}
