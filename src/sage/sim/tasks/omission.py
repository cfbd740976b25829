"""Edits that leave something out: the body of a function, a branch, a check, the handling of an error."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from sage.grading.source_text import FUNCTIONS, SourceText, docstring_of
from sage.sim.tasks.expression_operators import Replacement
from sage.sim.tasks.mutations import Edit, sites

OMISSIONS = ("omitted_body", "omitted_branch", "omitted_check", "omitted_else", "omitted_handler")
LONGEST_BODY = 30  # lines


def omissions(source: str) -> list[Edit]:
    """Returns all edits that leave something out, in the order of the source."""
    text = SourceText(source)
    found = []
    for function, node, _ in sites(text.tree):
        for operator, start, end, replacement in (*bodies(node, text), *branches(node, text), *handlers(node, text)):
            original = text.raw[start:end].decode()
            if original.count("\n") < LONGEST_BODY:
                line, column = text.position(start)
                place = {"start": start, "end": end, "line": line, "column": column}
                found.append(
                    Edit(operator=operator, original=original, replacement=replacement, function=function, **place)
                )
    return sorted(found, key=lambda edit: (edit.start, edit.end, edit.operator))


def bodies(node: ast.AST, text: SourceText) -> Iterator[tuple[str, *Replacement]]:
    if isinstance(node, FUNCTIONS):
        body = node.body[1:] if docstring_of(node) else node.body
        if body and text.indent(body[0]) is not None and not isinstance(body[0], ast.Pass):
            yield "omitted_body", first_byte(body[0], text), text.span(body[-1])[1], "raise NotImplementedError"


def first_byte(node: ast.stmt, text: SourceText) -> int:
    """Returns the byte offset at which a statement begins, its decorators included."""
    decorators = node.decorator_list if isinstance(node, (*FUNCTIONS, ast.ClassDef)) else []
    return text.span(node)[0] if not decorators else text.span(decorators[0])[0] - 1


def branches(node: ast.AST, text: SourceText) -> Iterator[tuple[str, *Replacement]]:
    if not isinstance(node, ast.If):
        return
    start, end = text.span(node)
    written_as_if = text.raw[start:].startswith(b"if")  # and not as elif
    if not node.orelse and written_as_if and text.indent(node) is not None:
        check = isinstance(node.body[-1], ast.Raise)
        yield "omitted_check" if check else "omitted_branch", start, end, "pass"
    elif node.orelse and not (len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If)):
        yield "omitted_else", text.span(node.body[-1])[1], end, ""


def handlers(node: ast.AST, text: SourceText) -> Iterator[tuple[str, *Replacement]]:
    if isinstance(node, ast.Try) and node.handlers:
        for handler in node.handlers:
            first, last = handler.body[0], handler.body[-1]
            if text.indent(first) is not None and not isinstance(first, ast.Raise):
                yield "omitted_handler", text.span(first)[0], text.span(last)[1], "raise"
