"""Conditions of triggers, such as `task_complexity_score > 0.8 and past_failures >= 1`, checked when they are read."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sage.orchestrator.nearest import nearest
from sage.policies.features import VARIABLES, trigger_variable

OPERATORS: dict[type[ast.cmpop], Callable[[np.ndarray, float], np.ndarray]] = {
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
GRAMMAR = "write VARIABLE > NUMBER (or >=, <, <=, ==, !=), joined by `and` or `or`"


class TriggerError(ValueError):
    """Error about a condition that cannot be evaluated; the message names the part, and the known names."""


@dataclass(frozen=True)
class VariableComparison:
    variable: str
    compare: Callable[[np.ndarray, float], np.ndarray]
    number: float

    def holds(self, features: np.ndarray) -> np.ndarray:
        values = trigger_variable(self.variable, features)
        # A value that is not known triggers nothing, `!=` included.
        return self.compare(values, self.number) & ~np.isnan(values)


@dataclass(frozen=True)
class Combination:
    every: bool
    parts: tuple[VariableComparison | Combination, ...]

    def holds(self, features: np.ndarray) -> np.ndarray:
        held = [part.holds(features) for part in self.parts]
        return np.all(held, axis=0) if self.every else np.any(held, axis=0)


@dataclass(frozen=True)
class Condition:
    """A condition on features, such as `past_failures >= 1 and probe_verified == 0`, parsed from `text`."""

    text: str
    tree: VariableComparison | Combination

    @classmethod
    def parse(cls, text: object) -> Condition:
        if not isinstance(text, str):
            raise TriggerError(f"{text!r} is not a condition: {GRAMMAR}")
        try:
            tree = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise TriggerError(f"{text!r} is not a condition: {GRAMMAR}") from error
        return cls(text, build(tree, text))

    def holds(self, features: np.ndarray) -> np.ndarray:
        """Returns bool [n]: True for rows of features [n, NAMES] that meet the condition; unknown values meet none."""
        return self.tree.holds(features)


def build(node: ast.expr, text: str) -> VariableComparison | Combination:
    if isinstance(node, ast.BoolOp):
        return Combination(isinstance(node.op, ast.And), tuple(build(value, text) for value in node.values))
    if not isinstance(node, ast.Compare) or len(node.ops) != 1:
        raise TriggerError(f"{ast.unparse(node)!r} in {text!r} is not understood: {GRAMMAR}")
    left, symbol, right = node.left, node.ops[0], node.comparators[0]
    if type(symbol) not in OPERATORS:
        raise TriggerError(f"the operator of {ast.unparse(node)!r} in {text!r} is not known: {GRAMMAR}")
    if not isinstance(left, ast.Name):
        raise TriggerError(f"{ast.unparse(left)!r} in {text!r} is not a variable: choose from {', '.join(VARIABLES)}")
    if left.id not in VARIABLES:
        raise TriggerError(f"{left.id!r} in {text!r} is not a variable: {nearest(left.id, VARIABLES)}")
    return VariableComparison(left.id, OPERATORS[type(symbol)], number(right, text))


def number(node: ast.expr, text: str) -> float:
    sign = 1.0
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        node, sign = node.operand, -1.0
    if not isinstance(node, ast.Constant) or isinstance(node.value, bool) or not isinstance(node.value, int | float):
        raise TriggerError(f"{ast.unparse(node)!r} in {text!r} is not a number: {GRAMMAR}")
    return sign * node.value
