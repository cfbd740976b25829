"""Operators that edit a statement. Each yields (start, end, replacement), in bytes, for the edits of one node."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from sage.grading.source_text import FUNCTIONS, SourceText, docstring_of
from sage.sim.tasks.expression_operators import ARITHMETIC, Operator, Replacement, replaced_operator

OTHER_EXCEPTION = {
    "KeyError": "IndexError",
    "IndexError": "KeyError",
    "ValueError": "TypeError",
    "TypeError": "ValueError",
    "AttributeError": "KeyError",
    "StopIteration": "IndexError",
    "LookupError": "ValueError",
    "OSError": "ValueError",
    "RuntimeError": "ValueError",
    "NotImplementedError": "TypeError",
    "OverflowError": "ValueError",
    "ZeroDivisionError": "ValueError",
    "ImportError": "AttributeError",
    "UnicodeDecodeError": "TypeError",
    "UnicodeEncodeError": "TypeError",
}
REMOVABLE = (ast.Return, ast.Raise, ast.Continue, ast.Break, ast.AugAssign, ast.Delete)


def removed_statement(node: ast.AST, text: SourceText, variables: tuple[str, ...]) -> Iterator[Replacement]:
    """Yields `pass` in place of a call, a return or the like, or an assignment that binds no name; removing a binding
    only shows a NameError."""
    called = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    stored = isinstance(node, ast.Assign) and not any(isinstance(target, ast.Name) for target in node.targets)
    if isinstance(node, ast.stmt) and (called or stored or isinstance(node, REMOVABLE)):
        yield *text.span(node), "pass"


def early_return(node: ast.AST, text: SourceText, variables: tuple[str, ...]) -> Iterator[Replacement]:
    """Yields a return before the last statement of a function, or of a loop in it."""
    if isinstance(node, (*FUNCTIONS, ast.For, ast.While)) and variables:
        body = node.body[1:] if isinstance(node, FUNCTIONS) and docstring_of(node) else node.body
        last = body[-1] if body else None
        if last is None or (
            isinstance(node, FUNCTIONS) and (len(body) == 1 or isinstance(last, ast.Return | ast.Raise))
        ):
            return
        indent = text.indent(last)
        decorated = isinstance(last, (*FUNCTIONS, ast.ClassDef)) and last.decorator_list
        if indent is not None and not decorated:
            start = text.span(last)[0]
            yield start, start, f"return\n{indent}"


def loop_control(node: ast.AST, text: SourceText, variables: tuple[str, ...]) -> Iterator[Replacement]:
    if isinstance(node, ast.Break | ast.Continue):
        yield *text.span(node), "continue" if isinstance(node, ast.Break) else "break"


def lost_accumulation(node: ast.AST, text: SourceText, variables: tuple[str, ...]) -> Iterator[Replacement]:
    """Yields `x = y` for `x += y`, and the reverse in loops."""
    if isinstance(node, ast.AugAssign) and type(node.op) in ARITHMETIC:
        pattern = re.compile(re.escape(ARITHMETIC[type(node.op)][0].encode()) + b"=")
        yield replaced_operator(text, node.target, node.value, pattern, "=")
    if isinstance(node, ast.For | ast.While):
        for statement in node.body:
            if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
                target = statement.targets[0]
                if isinstance(target, ast.Name | ast.Attribute | ast.Subscript):
                    yield replaced_operator(text, target, statement.value, re.compile(b"="), "+=")


def exception_type(node: ast.AST, text: SourceText, variables: tuple[str, ...]) -> Iterator[Replacement]:
    names: list[ast.expr] = []
    if isinstance(node, ast.ExceptHandler) and node.type is not None:
        names = list(node.type.elts) if isinstance(node.type, ast.Tuple) else [node.type]
    elif isinstance(node, ast.Raise) and node.exc is not None:
        names = [node.exc.func if isinstance(node.exc, ast.Call) else node.exc]
    for name in names:
        if isinstance(name, ast.Name) and name.id in OTHER_EXCEPTION:
            yield *text.span(name), OTHER_EXCEPTION[name.id]


STATEMENT_OPERATORS: dict[str, Operator] = {
    operator.__name__: operator
    for operator in (removed_statement, early_return, loop_control, lost_accumulation, exception_type)
}
