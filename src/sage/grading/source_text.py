"""Python source whose syntax tree can be cut and replaced by bytes, so that an edit changes nothing around it."""

from __future__ import annotations

import ast
import io
import tokenize
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


class SourceError(ValueError):
    """Error about source that is not Python; the message says where."""


class SourceText:
    """Python source with its syntax tree and the position of every node; raises SourceError if it is not Python."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.raw = source.encode()
        try:
            self.tree = ast.parse(source)
            self.code = blank_comments(source)
        except (SyntaxError, ValueError, tokenize.TokenError) as error:
            raise SourceError(f"the source is not Python ({error})") from error
        self.starts = [0, *accumulate(len(line) for line in self.raw.splitlines(keepends=True))]

    def span(self, node: ast.expr | ast.stmt | ast.ExceptHandler) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self.starts[node.lineno - 1] + node.col_offset, self.starts[node.end_lineno - 1] + node.end_col_offset

    def of(self, node: ast.expr | ast.stmt) -> str:
        start, end = self.span(node)
        return self.raw[start:end].decode()

    def position(self, offset: int) -> tuple[int, int]:
        """Returns line (from 1) and column (from 0, in bytes) of an offset in bytes, as the syntax tree counts them."""
        line = bisect_right(self.starts, offset, hi=len(self.starts) - 1)
        return line, offset - self.starts[line - 1]

    def indent(self, node: ast.stmt) -> str | None:
        """Returns the white space before a statement on its line; None if something else stands before it."""
        start = self.starts[node.lineno - 1]
        before = self.raw[start : start + node.col_offset].decode()
        return before if not before.strip() else None


def blank_comments(source: str) -> bytes:
    """Returns the bytes of the source with spaces in place of comments, so that no operator is found in one."""
    lines = source.encode().splitlines(keepends=True)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            line = token.start[0] - 1
            size = len(token.string.encode())
            start = len(token.line[: token.start[1]].encode())
            lines[line] = lines[line][:start] + b" " * size + lines[line][start + size :]
    return b"".join(lines)


def functions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, FunctionNode]]:
    """Yields (qualified name, node) for all functions, in the order of the source."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            name = f"{prefix}{node.name}"
            if isinstance(node, FUNCTIONS):
                yield name, node
            yield from functions(node, f"{name}.")
        elif isinstance(node, ast.stmt | ast.ExceptHandler):
            yield from functions(node, prefix)


def docstring_of(node: FunctionNode | ast.ClassDef | ast.Module) -> ast.stmt | None:
    first = node.body[0] if node.body else None
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        return first
    return None
