"""Suspicious statements, ranked by the tests that run them, and the edits that could repair each."""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sage.sim.environment.naturalness import Language
from sage.sim.environment.trials import Spectrum
from sage.sim.tasks.mutations import Edit, edits

NUM_SLOTS = 16
NUM_VARIANTS = 4
KINDS: dict[str, tuple[str, ...]] = {  # of repairs, and the operators of each
    "comparison": ("comparison_flip", "boundary"),
    "condition": ("negated_condition",),
    "boolean": ("boolean", "dropped_clause"),
    "arithmetic": ("arithmetic", "offset", "lost_accumulation"),
    "constant": ("constant", "changed_default"),
    "index": ("index_off_by_one", "slice_bound"),
    "variable": ("wrong_variable",),
    "call": ("similar_call",),
    "arguments": ("swapped_arguments",),
    "statement": ("removed_statement",),
    "flow": ("early_return", "loop_control"),
    "exception": ("exception_type",),
}
KIND_OF = {operator: index for index, operators in enumerate(KINDS.values()) for operator in operators}
NUM_KINDS = len(KINDS)
LOOKS = ("ochiai", "tarantula", "in tracebacks", "where tests failed", "share of failed", "share of passed")
SYNTAX: dict[str, tuple[type[ast.AST], ...]] = {  # what inspecting a statement shows
    "compares": (ast.Compare,),
    "calculates": (ast.BinOp, ast.UnaryOp, ast.AugAssign),
    "combines": (ast.BoolOp,),
    "calls": (ast.Call,),
    "indexes": (ast.Subscript,),
    "has constants": (ast.Constant,),
    "returns": (ast.Return, ast.Yield),
    "branches": (ast.If, ast.While, ast.For, ast.IfExp),
}


@dataclass(frozen=True)
class Slot:
    """A statement with the features that localising and inspecting it show, and the edits of each kind."""

    path: str
    line: int
    looks: tuple[float, ...]
    syntax: tuple[float, ...]
    repairs: tuple[tuple[Edit, ...], ...]  # by kind, what makes the program most usual first
    gains: tuple[tuple[float, ...], ...]  # how much it does so


def slots_of(files: Mapping[str, bytes], found: Spectrum, visible: Sequence[str]) -> list[Slot]:
    """Returns up to NUM_SLOTS statements that an edit could repair, the most suspicious first."""
    failed = [test for test in visible if test not in found.passed]
    ran = {place for test in failed for place in found.lines.get(test, ())}
    candidates: dict[tuple[str, ast.stmt], list[Edit]] = {}
    for path in sorted({path for path, _ in ran}):
        source = files[path].decode()
        statements = statements_by_line(ast.parse(source))
        for edit in edits(source):
            statement = statements.get(edit.line)
            if statement is not None and (path, statement.lineno) in ran:
                candidates.setdefault((path, statement), []).append(edit)
    looks = {(path, at): looks_of((path, at.lineno), found, failed, visible) for path, at in candidates}
    ranked = sorted(looks, key=lambda one: (*(-look for look in looks[one]), one[0], one[1].lineno))[:NUM_SLOTS]
    language = Language(files)
    return [slot_of(path, at, looks[path, at], candidates[path, at], language) for path, at in ranked]


def slot_of(
    path: str, statement: ast.stmt, looks: tuple[float, ...], candidates: Sequence[Edit], language: Language
) -> Slot:
    by_kind: list[list[tuple[float, Edit]]] = [[] for _ in KINDS]
    for edit in candidates:
        by_kind[KIND_OF[edit.operator]].append((language.gain(path, edit), edit))
    best = [sorted(found, key=lambda one: -one[0])[:NUM_VARIANTS] for found in by_kind]
    return Slot(
        path,
        statement.lineno,
        looks,
        syntax_of(statement),
        repairs=tuple(tuple(edit for _, edit in found) for found in best),
        gains=tuple(tuple(gain for gain, _ in found) for found in best),
    )


def statements_by_line(tree: ast.Module) -> dict[int, ast.stmt]:
    """Returns the innermost statement around each line."""
    found: dict[int, ast.stmt] = {}
    for node in ast.walk(tree):  # outer ones come first
        if isinstance(node, ast.stmt):
            found |= dict.fromkeys(range(node.lineno, (node.end_lineno or node.lineno) + 1), node)
    return found


def looks_of(
    place: tuple[str, int], found: Spectrum, failed: Sequence[str], visible: Sequence[str]
) -> tuple[float, ...]:
    """Returns the values of LOOKS for a (path, line), from the tests that ran it; `failed` and `visible` are names of
    tests."""
    passed = [test for test in visible if test in found.passed]
    by_failed = sum(place in found.lines.get(test, ()) for test in failed)
    by_passed = sum(place in found.lines.get(test, ()) for test in passed)
    failed_share, passed_share = by_failed / max(len(failed), 1), by_passed / max(len(passed), 1)
    ochiai = by_failed / math.sqrt(max(len(failed) * (by_failed + by_passed), 1))
    tarantula = failed_share / (failed_share + passed_share) if by_failed else 0.0
    frames = [found.frames.get(test, ()) for test in failed]
    in_traces = float(np.mean([place in trace for trace in frames])) if frames else 0.0
    at_end = float(np.mean([bool(trace) and trace[-1] == place for trace in frames])) if frames else 0.0
    return ochiai, tarantula, in_traces, at_end, failed_share, passed_share


def syntax_of(statement: ast.stmt) -> tuple[float, ...]:
    """Returns 1.0 for each entry of SYNTAX that the statement contains, else 0.0; statements inside of it do not
    count."""
    own: list[ast.AST] = [statement]
    for node in own:
        own += [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.stmt)]
    return tuple(float(any(isinstance(node, kinds) for node in own)) for kinds in SYNTAX.values())
