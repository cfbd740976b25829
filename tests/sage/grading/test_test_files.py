"""Test files: hidden tests cannot be read, and assertions are not deceived."""

from __future__ import annotations

import random

import pytest

from sage.grading.test_files import guarded, is_hidden, with_canaries, without_hidden

SOURCE = '''"""Tests."""
from __future__ import annotations
import unittest

def helper():
    return 1

@mark
def test_one():
    assert helper() == 1

class TestAll(unittest.TestCase):
    def test_two(self):
        pass

class TestMore(unittest.TestCase):
    def test_three(self):
        pass

    def test_four(self):
        pass
'''


def hidden_tests() -> set[str]:
    return {name for name in ("test_one", "test_two", "test_three", "test_four") if is_hidden("p", "t.py", name, 0.45)}


def test_hidden_tests_are_cut_out_and_the_rest_is_python() -> None:
    hidden = hidden_tests()
    assert 0 < len(hidden) < 4
    seen = without_hidden(SOURCE.encode(), "p", "t.py", 0.45)
    assert seen is not None
    compile(seen, "t.py", "exec")
    for name in ("test_one", "test_two", "test_three", "test_four"):
        assert (f"def {name}(".encode() in seen) == (name not in hidden)
    assert b"def helper" in seen


def test_files_without_a_test_to_see_are_left_out() -> None:
    assert without_hidden(SOURCE.encode(), "p", "t.py", 1.0) is None
    assert without_hidden(SOURCE.encode(), "p", "tests/test_hidden_x.py", 0.0) is None
    assert without_hidden(SOURCE.encode(), "p", "t.py", 0.0) == SOURCE.encode()


class Anything:
    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


def run(code: str, value: object) -> None:
    names: dict = {"value": value}
    exec(guarded(code.encode()), names)
    names["test"]()


@pytest.mark.parametrize(
    "check",
    [
        "assert value == 3",
        "assert 3 == value",
        "assert value in [3]",
        "assert value == 3 and True",
        "__import__('unittest').TestCase().assertEqual(value, 3)",
        "__import__('unittest').TestCase().assertEqual(first=3, second=3) or __import__('unittest').TestCase().assertTrue(value == 3)",
    ],
)
def test_what_is_equal_to_everything_passes_no_assertion(check: str) -> None:
    code = f"from __future__ import annotations\ndef test():\n    {check}\n"
    run(code, 3)
    with pytest.raises(AssertionError, match="equal to everything"):
        run(code, Anything())


def test_a_failing_assertion_shows_what_was_compared() -> None:
    with pytest.raises(AssertionError, match=r"\[1\] is not \[2\]"):
        run("def test():\n    assert value == [2]\n", [1])


def test_canaries_fail_and_are_named_like_the_tests() -> None:
    content, names = with_canaries(guarded(b"def test_sums():\n    assert 1 == 1\n"), random.Random(1))
    module: dict = {}
    exec(content, module)
    assert len(set(names)) == 6
    assert all("test_sums_" in name for name in names)
    for name in names:
        case, _, function = name.rpartition("::")
        run_one = getattr(module[case](function), function) if case else module[function]
        with pytest.raises((AssertionError, pytest.fail.Exception)):
            run_one()
