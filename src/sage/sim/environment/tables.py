"""Compiled tasks: the effect of every repair that a policy can try on the tests, found by running them all.

A node is a tree of files that trials can reach: the program as it is, and the program after edits that were kept
because more of the failing tests passed with them. The result of every trial at a node is stored, so that an
environment can answer without running anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from sage.grading.grading import grade
from sage.grading.task import Task
from sage.sandbox import Backend
from sage.sim.environment.suspects import NUM_KINDS, NUM_SLOTS, NUM_VARIANTS, Slot
from sage.sim.environment.trials import Spectrum, Variant, VariantOutcome, run_variants
from sage.sim.tasks.mutations import Edit, apply_all

NUM_NODES = 8
MOST_CHILDREN = 3  # of a node: the best ones
DEEPEST = 3  # edits
MOST_FAILING = 8  # tests that a trial runs
NOTHING, BETTER, REPAIRED, WORSE = 0, 1, 2, 3  # what a trial does to the tests that failed
ERRORS = (("AssertionError",), ("TypeError", "AttributeError"), ("IndexError", "KeyError"), ("ValueError",))
TrialIndex = tuple[int, int, int]  # slot, kind, variant


@dataclass
class Node:
    """A tree of files: the program with some edits, the tests that it passes, and the results of trials at it."""

    places: tuple[TrialIndex, ...]
    failing: int  # of the tests that failed at the beginning
    passes: bool  # all visible tests
    solves: bool  # and the hidden ones
    result: np.ndarray = field(default_factory=lambda: np.full((NUM_SLOTS, NUM_KINDS, NUM_VARIANTS), -1, np.int8))
    leads: np.ndarray = field(default_factory=lambda: np.zeros((NUM_SLOTS, NUM_KINDS, NUM_VARIANTS), np.int8))


@dataclass
class Table:
    """A compiled task. In its nodes, `result` is -1 where there is nothing to try."""

    id: str
    split: str
    level: int
    features: np.ndarray
    slots: list[Slot]
    nodes: list[Node]
    num_failing: int
    plausible: int  # a node that passes the visible tests and not the hidden ones; 0 if there is none

    def edits(self, node: int) -> list[tuple[str, Edit]]:
        return [self.edit(place) for place in self.nodes[node].places]

    def edit(self, place: TrialIndex) -> tuple[str, Edit]:
        slot, kind, variant = place
        return self.slots[slot].path, self.slots[slot].repairs[kind][variant]


def places(slots: Sequence[Slot]) -> Iterator[TrialIndex]:
    for s, slot in enumerate(slots):
        for k, repairs in enumerate(slot.repairs):
            yield from ((s, k, v) for v in range(len(repairs)))


def expand(backend: Backend, task: Task, table: Table, node: Node, failing: Sequence[str], base: Spectrum) -> None:
    """Tries every edit at a node and stores the results; the best edits that make more tests pass become nodes of the
    table."""
    todo = [place for place in places(table.slots) if not overlaps(table, node, place)]
    told = run_variants(backend, task, [variant(table, (*node.places, place)) for place in todo], failing)
    better = []
    for place, one in zip(todo, told, strict=True):
        left = len(failing) - len(one.passed & set(failing))
        node.result[place] = trial_result(one, left, node.failing)
        node.leads[place] = table.nodes.index(node)
        if node.result[place] in (BETTER, REPAIRED):
            better.append((place, left))
    better.sort(key=lambda pair: pair[1])
    for place, left in better[: min(MOST_CHILDREN, NUM_NODES - len(table.nodes))]:
        known = next((i for i, n in enumerate(table.nodes) if set(n.places) == {*node.places, place}), None)
        node.leads[place] = (
            known if known is not None else add_node(backend, task, table, (*node.places, place), left, base)
        )
    for place, _ in better:
        if node.leads[place] == table.nodes.index(node):  # no room: a policy cannot keep it, so it is not offered
            node.result[place] = -1


def overlaps(table: Table, node: Node, place: TrialIndex) -> bool:
    path, edit = table.edit(place)
    return any(
        path == other and edit.start < there.end + 1 and there.start < edit.end + 1
        for other, there in map(table.edit, node.places)
    )


def variant(table: Table, chosen: Sequence[TrialIndex]) -> Variant:
    found: dict[str, list[Edit]] = {}
    for path, edit in map(table.edit, chosen):
        found.setdefault(path, []).append(edit)
    return found


def trial_result(told: VariantOutcome, left: int, before: int) -> int:
    if told.ended or left > before:
        return WORSE
    return REPAIRED if left == 0 else BETTER if left < before else NOTHING


def add_node(
    backend: Backend, task: Task, table: Table, chosen: tuple[TrialIndex, ...], left: int, base: Spectrum
) -> int:
    passes = solves = False
    if left == 0:
        (all_visible,) = run_variants(backend, task, [variant(table, chosen)], list(task.visible))
        passes = all_visible.passed == frozenset(task.visible)
        solves = passes and grade(backend, task, tree(task, variant(table, chosen))).solved
    table.nodes.append(Node(chosen, left, passes, solves))
    if passes and not solves and not table.plausible:
        table.plausible = len(table.nodes) - 1
    return len(table.nodes) - 1


def tree(task: Task, chosen: Variant) -> dict[str, bytes]:
    """Returns the files of a task after edits."""
    changed = {path: apply_all(task.files[path].decode(), list(edits)).encode() for path, edits in chosen.items()}
    return {**task.files, **changed}


def features_of(task: Task, found: Spectrum, failing: Sequence[str], slots: Sequence[Slot]) -> np.ndarray:
    """Returns the features of a task [NUM_TASK_FEATURES] that are visible before anything is done."""
    lines = sum(task.files[path].count(b"\n") for path in {slot.path for slot in slots})
    errors = [found.errors.get(test, "") for test in failing]
    shares = [float(np.mean([error in group for error in errors])) for group in ERRORS]
    depth = float(np.mean([len(found.frames.get(test, ())) for test in failing]))
    sizes = [len(task.files), lines, len(task.visible), len(failing), len({slot.path for slot in slots})]
    logs = [float(np.log1p(size)) / 5 for size in sizes]
    return np.array([*logs, len(failing) / len(task.visible), *shares, 1 - sum(shares), depth / 5], np.float32)
