"""Operators that edit an expression. Each yields (start, end, replacement), in bytes, for the edits of one node."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from itertools import pairwise

from sage.grading.source_text import FUNCTIONS, SourceText

Replacement = tuple[int, int, str]
Operator = Callable[[ast.AST, SourceText, tuple[str, ...]], Iterator[Replacement]]

FLIPPED = {
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Lt: ">=",
    ast.GtE: "<",
    ast.Gt: "<=",
    ast.LtE: ">",
    ast.In: "not in",
    ast.NotIn: "in",
    ast.Is: "is not",
    ast.IsNot: "is",
}
BOUNDARY = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">"}
COMPARISON = re.compile(rb"not\s+in\b|is\s+not\b|\bin\b|\bis\b|<=|>=|==|!=|<|>")
ARITHMETIC: dict[type, tuple[str, tuple[str, ...]]] = {
    ast.Add: ("+", ("-",)),
    ast.Sub: ("-", ("+",)),
    ast.Mult: ("*", ("+", "//")),
    ast.Div: ("/", ("*", "//")),
    ast.FloorDiv: ("//", ("*", "/")),
    ast.Mod: ("%", ("//",)),
    ast.Pow: ("**", ("*",)),
    ast.BitAnd: ("&", ("|",)),
    ast.BitOr: ("|", ("&",)),
    ast.BitXor: ("^", ("|",)),
    ast.LShift: ("<<", (">>",)),
    ast.RShift: (">>", ("<<",)),
}
SIMILAR = [
    ("append", "extend"),
    ("startswith", "endswith"),
    ("lstrip", "rstrip"),
    ("find", "rfind"),
    ("index", "rindex"),
    ("split", "rsplit"),
    ("partition", "rpartition"),
    ("upper", "lower"),
    ("ljust", "rjust"),
    ("keys", "values"),
    ("union", "intersection"),
    ("issubset", "issuperset"),
    ("popleft", "pop"),
    ("appendleft", "append"),
    ("update", "setdefault"),
    ("min", "max"),
    ("any", "all"),
    ("sorted", "list"),
    ("ceil", "floor"),
    ("heappush", "heappushpop"),
    ("bisect_left", "bisect_right"),
]
OTHER_METHOD: dict[str, tuple[str, ...]] = {}
for one, other in SIMILAR:
    OTHER_METHOD[one] = (*OTHER_METHOD.get(one, ()), other)
    OTHER_METHOD[other] = (*OTHER_METHOD.get(other, ()), one)
POSITION = re.compile(
    r"^(i|j|k|n|lo|hi|(.*_)?(index|idx|pos|position|start|end|left|right|low|high|mid|first|last|stop|offset))$"
)
PLAIN = (ast.Name, ast.Attribute, ast.Call, ast.Constant, ast.Subscript)


def gap(text: SourceText, left: ast.expr, right: ast.expr) -> tuple[int, bytes]:
    start, end = text.span(left)[1], text.span(right)[0]
    return start, text.code[start:end]


def replaced_operator(
    text: SourceText, left: ast.expr, right: ast.expr, pattern: re.Pattern[bytes], new: str
) -> Replacement:
    start, between = gap(text, left, right)
    match = pattern.search(between)
    assert match, (text.of(left), between)
    return start + match.start(), start + match.end(), new


def comparisons(node: ast.AST, text: SourceText, table: dict[type, str]) -> Iterator[Replacement]:
    if isinstance(node, ast.Compare):
        operands = [node.left, *node.comparators]
        for left, kind, right in zip(operands, node.ops, operands[1:], strict=False):
            if type(kind) in table:
                yield replaced_operator(text, left, right, COMPARISON, table[type(kind)])


def comparison_flip(node: ast.AST, text: SourceText, variables: tuple[str, ...]) -> Iterator[Replacement]:
    yield from comparisons(node, text, FLIPPED)


def boundary(node: ast.AST, text: SourceText, variables: tuple[str, ...]) -> Iterator[Replacement]:
    yield from comparisons(node, text, BOUNDARY)


def is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))


def arithmetic(node: ast.AST, text: SourceText, variables: tuple[str, ...]) -> Iterator[Replacement]:
    if isinstance(node, ast.BinOp):
        left, right, suffix = node.left, node.right, ""
    elif isinstance(node, ast.AugAssign):
        left, right, suffix = node.target, node.value, "="
    else:
        return
    if type(node.op) in ARITHMETIC and not is_text(left) and not is_text(right):
        symbol, others = ARITHMETIC[type(node.op)]
        for other in others:
            pattern = re.compile(re.escape((symbol + suffix).encode()))
            yield replaced_operator(text, left, right, pattern, other + suffix)


def boolean(node: ast.AST, text: SourceText, variables: tuple[str, ...]) -> Iterator[Replacement]:
    if isinstance(node, ast.BoolOp):
        pattern, new = (rb"\band\b", "or") if isinstance(node.op, ast.And) else (rb"\bor\b", "and")
        for left, right in pairwise(node.values):
            yield replaced_operator(text, left, right, re.compile(pattern), new)


def dropped_clause(node: ast.AST, text: SourceText, variables: tuple[str, ...]) -> Iterator[Replacement]:
    """Yields `a` and `b` in place of `a and b` or `a or b`."""
    if isinstance(node, ast.BoolOp) and len(node.values) == 2:
        start, end = text.span(node)
        for kept in node.values:
            inner = text.of(kept)
            yield start, end, inner if isinstance(kept, PLAIN) else f"({inner})"


def negated_condition(node: ast.AST, text: SourceText, variables: tuple[str, ...]) -> Iterator[Replacement]:
    tests: list[ast.expr] = []
    if isinstance(node, ast.If | ast.While | ast.IfExp):
        tests = [node.test]
    elif isinstance(node, ast.comprehension):
        tests = node.ifs
    for test in tests:
        if isinstance(test, ast.Compare | ast.Constant):  # `comparison_flip` and `constant` do that
            continue
        start, end = text.span(test)
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            yield start, end, text.of(test.operand) if isinstance(test.operand, PLAIN) else f"({text.of(test.operand)})"
        else:
            yield start, end, f"not {text.of(test)}" if isinstance(test, PLAIN) else f"not ({text.of(test)})"


def is_integer(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int


def other_constants(node: ast.Constant) -> Iterator[str]:
    if isinstance(node.value, bool):
        yield str(not node.value)
    elif isinstance(node.value, int):
        yield str(node.value + 1)
        if node.value > 0:
            yield str(node.value - 1)


def constant(node: ast.AST, text: SourceText, variables: tuple[str, ...]) -> Iterator[Replacement]:
    if isinstance(node, ast.Constant):
        for other in other_constants(node):
            yield *text.span(node), other


def changed_default(node: ast.AST, text: SourceText, variables: tuple[str, ...]) -> Iterator[Replacement]:
    if not isinstance(node, FUNCTIONS):
        return
    for default in (*node.args.defaults, *node.args.kw_defaults):
        if not isinstance(default, ast.Constant):
            continue
        others = list(other_constants(default))
        if default.value is None:
            others = ["0"]
        elif isinstance(default.value, str):
            others = ["' '" if default.value == "" else "''"]
        for other in others:
            yield *text.span(default), other


def swapped_arguments(node: ast.AST, text: SourceText, variables: tuple[str, ...]) -> Iterator[Replacement]:
    pairs: list[tuple[ast.expr, ast.expr]] = []
    if isinstance(node, ast.Call):
        pairs = list(pairwise(node.args))
    elif isinstance(node, ast.BinOp) and not isinstance(node.op, ast.Add | ast.Mult) and not is_text(node.left):
        pairs = [(node.left, node.right)]
        if not all(isinstance(side, PLAIN) for side in pairs[0]):
            return
    for left, right in pairs:
        if not isinstance(left, ast.Starred) and not isinstance(right, ast.Starred):
            start, end = text.span(left)[0], text.span(right)[1]
            between = text.raw[text.span(left)[1] : text.span(right)[0]].decode()
            yield start, end, text.of(right) + between + text.of(left)


def wrong_variable(node: ast.AST, text: SourceText, variables: tuple[str, ...]) -> Iterator[Replacement]:
    """Yields the neighbours of a variable, in the order in which the function names them."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in variables:
        place = variables.index(node.id)
        for other in (place - 1, place + 1):
            if 0 <= other < len(variables):
                yield *text.span(node), variables[other]


def similar_call(node: ast.AST, text: SourceText, variables: tuple[str, ...]) -> Iterator[Replacement]:
    if not isinstance(node, ast.Call):
        return
    function = node.func
    if isinstance(function, ast.Name):
        start, end, name = *text.span(function), function.id
    elif isinstance(function, ast.Attribute):
        end, name = text.span(function)[1], function.attr
        start = end - len(name.encode())
    else:
        return
    for other in OTHER_METHOD.get(name, ()):
        yield start, end, other


def shifted(text: SourceText, node: ast.expr) -> Iterator[Replacement]:
    """Yields an expression plus one and minus one."""
    if isinstance(node, ast.Constant):
        yield from ((*text.span(node), other) for other in other_constants(node))
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and is_integer(node.operand):
        value = -int(text.of(node.operand), 0)
        yield from ((*text.span(node), str(value + step)) for step in (1, -1))
    else:
        inner = text.of(node) if isinstance(node, PLAIN) else f"({text.of(node)})"
        yield from ((*text.span(node), f"{inner} {step} 1") for step in "+-")


def index_off_by_one(node: ast.AST, text: SourceText, variables: tuple[str, ...]) -> Iterator[Replacement]:
    if isinstance(node, ast.Subscript):
        index = node.slice
        negative = isinstance(index, ast.UnaryOp) and is_integer(index.operand)
        if is_integer(index) or negative or (isinstance(index, ast.Name) and POSITION.match(index.id)):
            yield from shifted(text, index)


def offset(node: ast.AST, text: SourceText, variables: tuple[str, ...]) -> Iterator[Replacement]:
    """Yields `x` for `x + 1` or another whole number, and `range` and `len` off by one."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub) and is_integer(node.right):
        yield *text.span(node), text.of(node.left)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        if node.func.id == "range" and not any(isinstance(argument, ast.Starred) for argument in node.args):
            for argument in node.args[:2]:
                yield from shifted(text, argument)
        elif node.func.id == "len":
            yield *text.span(node), f"{text.of(node)} - 1"


def slice_bound(node: ast.AST, text: SourceText, variables: tuple[str, ...]) -> Iterator[Replacement]:
    if not isinstance(node, ast.Slice):
        return
    start = text.starts[node.lineno - 1] + node.col_offset
    for bound in (node.lower, node.upper):
        if bound is not None:
            yield *text.span(bound), ""
            yield from shifted(text, bound)
    if node.lower is None:
        yield start, start, "1"
    if node.upper is None:
        behind = start if node.lower is None else text.span(node.lower)[1]
        colon = text.code.index(b":", behind) + 1
        yield colon, colon, "-1"


EXPRESSION_OPERATORS: dict[str, Operator] = {
    operator.__name__: operator
    for operator in (  # where two give the same edit, it belongs to the first
        boundary,
        comparison_flip,
        arithmetic,
        boolean,
        dropped_clause,
        negated_condition,
        changed_default,
        index_off_by_one,
        slice_bound,
        offset,
        constant,
        swapped_arguments,
        wrong_variable,
        similar_call,
    )
}
