"""A small program with tests, and the task of repairing it."""

from __future__ import annotations

from sage.grading.task import Task
from sage.sim.tasks.rebuilding import make_task
from sage.sim.tasks.recipes import all_edits, step_of
from sage.sim.tasks.sources import Source
from sage.sim.tasks.suites import Prepared, Suite

MODULE = """def largest(values):
    if not values:
        raise ValueError("no values")
    best = values[0]
    for value in values:
        if value > best:
            best = value
    return best
"""
VISIBLE = """from numbers_kit.core import largest


def test_of_two():
    assert largest([1, 2]) == 2


def test_of_one():
    assert largest([7]) == 7
"""
HIDDEN = """import unittest

import pytest

from numbers_kit.core import largest


class TestLargest(unittest.TestCase):
    def test_of_three(self):
        self.assertEqual(largest([3, 9, 4]), 9)

    def test_of_none(self):
        with self.assertRaises(ValueError):
            largest([])


def test_it_refuses_none():
    with pytest.raises(ValueError, match="no values"):
        largest([])
"""
PATH = "numbers_kit/core.py"
SOURCE = Source(
    name="numbers:0",
    version="1",
    licence="Apache-2.0",
    family="numbers",
    files={
        PATH: MODULE.encode(),
        "numbers_kit/__init__.py": b"",
        "tests/test_numbers.py": VISIBLE.encode(),
        "tests/test_hidden_numbers.py": HIDDEN.encode(),
    },
    modules=(PATH,),
    tests=("tests/test_hidden_numbers.py", "tests/test_numbers.py"),
    test_roots=("tests",),
    editable=("numbers_kit",),
)
SUITE = Suite(
    source=SOURCE.name,
    source_sha256=SOURCE.sha256,
    module=PATH,
    tests=SOURCE.tests,
    visible={"tests/test_numbers.py::test_of_two": 1, "tests/test_numbers.py::test_of_one": 1},
    hidden={
        "tests/test_hidden_numbers.py::TestLargest::test_of_three": 1,
        "tests/test_hidden_numbers.py::TestLargest::test_of_none": 1,
        "tests/test_hidden_numbers.py::test_it_refuses_none": 1,
    },
    seconds=0.05,
    callers={"largest": ("tests/test_numbers.py::test_of_two", "tests/test_numbers.py::test_of_one")},
)


def broken_task() -> Task:
    """`value > best` as `value <= best`."""
    edit = next(edit for edit in all_edits(MODULE) if edit.operator == "comparison_flip")
    return make_task(Prepared(SOURCE), SUITE, [step_of(PATH, MODULE, edit)])
