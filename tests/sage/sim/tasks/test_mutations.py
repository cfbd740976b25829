"""Edits: what each operator does to a line, and that an edit changes its span and nothing else."""

import ast
import inspect

import pytest

from sage.grading import source_text
from sage.grading.source_text import SourceError
from sage.sim.tasks import expression_operators, mutations, statement_operators
from sage.sim.tasks.mutations import OPERATORS, Edit, apply, apply_all, edits

ANSWERS = {  # operator: source, and all that the operator makes of it
    "comparison_flip": ("x = a == b", ["x = a != b"]),
    "boundary": ("x = 0 <= a < b", ["x = 0 < a < b", "x = 0 <= a <= b"]),
    "arithmetic": ("x = (a) - (b)  # a - b", ["x = (a) + (b)  # a - b"]),
    "boolean": ("x = a and b and c", ["x = a or b and c", "x = a and b or c"]),
    "dropped_clause": ("x = a and b > 1", ["x = a", "x = (b > 1)"]),
    "negated_condition": (
        "if not a: pass\nelif f(a): pass",
        ["if a: pass\nelif f(a): pass", "if not a: pass\nelif not f(a): pass"],
    ),
    "constant": ("x = 3, True", ["x = 4, True", "x = 2, True", "x = 3, False"]),
    "changed_default": (
        "def f(a=None, *, b='é'): pass",
        ["def f(a=0, *, b='é'): pass", "def f(a=None, *, b=''): pass"],
    ),
    "swapped_arguments": ("f('é', b, *c)", ["f(b, 'é', *c)"]),
    "wrong_variable": ("def f(a, b):\n    return b", ["def f(a, b):\n    return a"]),
    "similar_call": ("x = a.lstrip(min(b))", ["x = a.rstrip(min(b))", "x = a.lstrip(max(b))"]),
    "index_off_by_one": (
        "a[-1], b[i], c[d]",
        ["a[0], b[i], c[d]", "a[-2], b[i], c[d]", "a[-1], b[i + 1], c[d]", "a[-1], b[i - 1], c[d]"],
    ),
    "offset": ("x = len(a) + 1", ["x = len(a) - 1 + 1", "x = len(a)"]),
    "slice_bound": ("x = a[:b]", ["x = a[1:b]", "x = a[:]", "x = a[:b + 1]", "x = a[:b - 1]"]),
    "removed_statement": ("x = 1\nf(x)\na.b = 2", ["x = 1\npass\na.b = 2", "x = 1\nf(x)\npass"]),
    "early_return": ("def f(a):\n    a()\n    a.b = 1", ["def f(a):\n    a()\n    return\n    a.b = 1"]),
    "loop_control": ("for a in b:\n    break", ["for a in b:\n    continue"]),
    "lost_accumulation": (
        "a += 1\nwhile b:\n    c = b",
        ["a = 1\nwhile b:\n    c = b", "a += 1\nwhile b:\n    c += b"],
    ),
    "exception_type": (
        "try: f()\nexcept (KeyError, A): raise OSError",
        ["try: f()\nexcept (IndexError, A): raise OSError", "try: f()\nexcept (KeyError, A): raise ValueError"],
    ),
}


def test_every_operator_has_an_answer() -> None:
    assert sorted(ANSWERS) == sorted(OPERATORS)


@pytest.mark.parametrize("operator", ANSWERS)
def test_an_operator_does_what_it_says(operator: str) -> None:
    source, answers = ANSWERS[operator]
    assert sorted(apply(source, edit) for edit in edits(source) if edit.operator == operator) == sorted(answers)


@pytest.mark.parametrize("module", [mutations, expression_operators, statement_operators, source_text])
def test_edits_are_minimal_python_and_the_same_each_time(module: object) -> None:
    source = inspect.getsource(module)  # type: ignore[arg-type]
    found = edits(source)
    assert found == edits(source)
    for edit in found[::7]:
        broken = apply(source, edit)
        ast.parse(broken)
        raw, new = source.encode(), broken.encode()
        assert new[: edit.start] == raw[: edit.start]
        assert new.endswith(raw[edit.end :])
        assert raw.splitlines()[edit.line - 1][edit.column :].startswith(
            edit.original.splitlines()[0].encode() if edit.original else b""
        )


def test_many_bugs_can_be_undone_by_the_same_operators() -> None:
    """What the environment relies on: a candidate edit of the broken file restores the source."""
    source = "def f(a, b):\n    if a < b and a[0] != b:\n        return max(a, b)\n    return a - b\n"
    undone = {
        edit.operator
        for edit in edits(source)
        if source in [apply(apply(source, edit), candidate) for candidate in edits(apply(source, edit))]
    }
    assert undone >= {
        "boundary",
        "comparison_flip",
        "boolean",
        "similar_call",
        "wrong_variable",
        "arithmetic",
        "index_off_by_one",
    }


def test_texts_annotations_and_decorators_are_left_alone() -> None:
    source = '@d(1)\ndef f(a: list[1]) -> g(2):\n    """3 < 4"""\n    return f"{a + 1}"\n'
    assert [edit.original for edit in edits(source)] == ['return f"{a + 1}"']


def test_several_edits_are_applied_together_unless_they_overlap() -> None:
    source = "x = a < b\ny = 1\n"
    boundary, constant = (next(e for e in edits(source) if e.operator == name) for name in ("boundary", "constant"))
    assert apply_all(source, [boundary, constant]) == "x = a <= b\ny = 0\n"
    with pytest.raises(SourceError, match="overlap"):
        apply_all(source, [boundary, boundary])


def test_an_edit_of_another_source_is_refused() -> None:
    edit: Edit = edits("x = a < b")[0]
    with pytest.raises(SourceError, match="'<' is not there"):
        apply("x = bb < a", edit)
    with pytest.raises(SourceError, match="not Python"):
        edits("def")
