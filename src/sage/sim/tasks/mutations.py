"""Small edits of Python source: bugs of which tasks are made, and candidates with which a policy repairs them.

One enumeration serves both. An edit replaces a span of bytes and nothing else, so that a diff shows only the bug.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from sage.grading.source_text import FUNCTIONS, FunctionNode, SourceError, SourceText, docstring_of
from sage.sim.tasks.expression_operators import EXPRESSION_OPERATORS
from sage.sim.tasks.statement_operators import STATEMENT_OPERATORS

OPERATORS = tuple(sorted(EXPRESSION_OPERATORS | STATEMENT_OPERATORS))


@dataclass(frozen=True, kw_only=True)
class Edit:
    """A replacement of a span of source text; offsets count bytes in UTF-8."""

    operator: str
    start: int
    end: int
    original: str
    replacement: str
    line: int
    column: int
    function: str  # qualified name of the function around it; "" at the top of a module


def edits(source: str) -> list[Edit]:
    """Returns all edits of all operators, in the order of the source; the same for the same source."""
    text = SourceText(source)
    found: dict[tuple[int, int, str], Edit] = {}
    for function, node, variables in sites(text.tree):
        for name, operator in (EXPRESSION_OPERATORS | STATEMENT_OPERATORS).items():
            for start, end, replacement in operator(node, text, variables):
                original = text.raw[start:end].decode()
                if original == replacement or (start, end, replacement) in found:
                    continue
                line, column = text.position(start)
                found[start, end, replacement] = Edit(
                    operator=name,
                    start=start,
                    end=end,
                    original=original,
                    replacement=replacement,
                    line=line,
                    column=column,
                    function=function,
                )
    return [found[key] for key in sorted(found)]


def apply(source: str, edit: Edit) -> str:
    """Returns the source after an edit; raises SourceError if the edit does not fit the source."""
    raw = source.encode()
    if raw[edit.start : edit.end] != edit.original.encode():
        raise SourceError(
            f"the edit {edit.operator} of byte {edit.start} does not fit the source: {edit.original!r} is not there"
        )
    return (raw[: edit.start] + edit.replacement.encode() + raw[edit.end :]).decode()


def apply_all(source: str, several: list[Edit]) -> str:
    """Returns the source after several edits that were found in it; raises SourceError if two of them overlap."""
    ordered = sorted(several, key=lambda edit: edit.start)
    for before, after in pairwise(ordered):
        if after.start < before.end or after.start == before.start:
            raise SourceError(f"edits of bytes {before.start} and {after.start} overlap")
    for edit in reversed(ordered):
        source = apply(source, edit)
    return source


def sites(tree: ast.Module) -> Iterator[tuple[str, ast.AST, tuple[str, ...]]]:
    """Yields the nodes that may be edited, each with the function around it and the variables of that function."""
    yield from sites_below(tree, "", ())


def sites_below(
    node: ast.AST, function: str, variables: tuple[str, ...]
) -> Iterator[tuple[str, ast.AST, tuple[str, ...]]]:
    for child in children(node):
        inner, known = function, variables
        if isinstance(child, (*FUNCTIONS, ast.ClassDef)):
            inner = f"{function}.{child.name}" if function else child.name
        if isinstance(child, FUNCTIONS):
            known = variables_of(child)
        yield inner, child, known
        yield from sites_below(child, inner, known)


def children(node: ast.AST) -> Iterator[ast.AST]:
    """Yields the child nodes that have behaviour, without annotations, decorators, docstrings and base classes, and
    without f-strings, which have no exact places."""
    skipped: list[ast.AST | None] = []
    if isinstance(node, ast.arg | ast.AnnAssign):
        skipped.append(node.annotation)
    if isinstance(node, FUNCTIONS):
        skipped += [node.returns, *node.decorator_list]
    if isinstance(node, (*FUNCTIONS, ast.ClassDef, ast.Module)):
        skipped.append(docstring_of(node))
    if isinstance(node, ast.ClassDef):
        skipped += [*node.decorator_list, *node.bases]
    for child in ast.iter_child_nodes(node):
        if child not in skipped and not isinstance(child, ast.JoinedStr | ast.pattern):
            yield child


def variables_of(function: FunctionNode) -> tuple[str, ...]:
    """Returns the parameters and assigned names of a function, in the order in which they appear."""
    arguments = function.args
    names = [arg.arg for arg in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    stored = [node for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    names += [node.id for node in sorted(stored, key=lambda node: (node.lineno, node.col_offset))]
    return tuple(dict.fromkeys(name for name in names if name not in ("self", "cls")))
