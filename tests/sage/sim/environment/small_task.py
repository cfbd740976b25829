"""A task with two bugs, small enough to be compiled in a test."""

from __future__ import annotations

from sage.grading.task import Task

PROGRAM = b"""\
def clamp(value, low, high):
    if value >= low:
        return low
    if value > high:
        return high
    return value


def span(values):
    if not values:
        return 0
    return max(values) + min(values)


def double(value):
    return value * 2
"""
REPAIRED = PROGRAM.replace(b"value >= low", b"value < low").replace(b"max(values) + min", b"max(values) - min")
VISIBLE = b"""\
from calc import clamp, double, span


def test_below():
    assert clamp(-5, 0, 10) == 0


def test_inside():
    assert clamp(5, 0, 10) == 5


def test_above():
    assert clamp(15, 0, 10) == 10


def test_span():
    assert span([3, 9]) == 6


def test_double():
    assert double(4) == 8
"""
HIDDEN = b"""

def test_edges():
    assert [clamp(x, 1, 3) for x in range(5)] == [1, 1, 2, 3, 3]


def test_spans():
    assert [span(x) for x in ([], [4], [-2, 2])] == [0, 0, 4]
"""
NAMES = ("test_below", "test_inside", "test_above", "test_span", "test_double")
TASK = Task(
    id="small",
    family="mutation",
    level=2,
    split="train",
    instruction="Make the tests pass.",
    files={"calc.py": PROGRAM, "test_calc.py": VISIBLE},
    editable=("calc.py",),
    test_roots=("test_calc.py",),
    tests=("test_calc.py",),
    visible={f"test_calc.py::{name}": 1 for name in NAMES},
    hidden={"test_calc.py::test_edges": 1, "test_calc.py::test_spans": 1},
    graded={"test_calc.py": VISIBLE + HIDDEN},
    oracle={"calc.py": REPAIRED},
    seconds=0.1,
)
