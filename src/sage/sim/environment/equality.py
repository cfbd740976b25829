"""Comparison of compiled tasks with execution: transitions are drawn from tables and executed again."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sage.grading.grading import grade
from sage.grading.task import Task
from sage.sandbox import Backend
from sage.sim.environment.tables import MOST_FAILING, Table, TrialIndex, tree, trial_result, variant
from sage.sim.environment.trials import run_variants


class Transition(NamedTuple):
    """A trial: the index of the table, its node, and the place of the edit."""

    table: int
    node: int
    place: TrialIndex


class Disagreement(NamedTuple):
    transition: Transition
    compiled: str
    executed: str


def transitions(tables: Sequence[Table], count: int, seed: int = 0) -> list[Transition]:
    """Returns up to `count` trials drawn at random; at least half of them are at nodes that have edits already, if
    there are so many."""
    found = [
        Transition(t, n, (s, k, v))
        for t, table in enumerate(tables)
        for n, node in enumerate(table.nodes)
        for s, k, v in zip(*(node.result >= 0).nonzero(), strict=True)
    ]
    chooser = random.Random(seed)
    deep = [one for one in found if one.node > 0]
    chosen = chooser.sample(deep, min(len(deep), (count + 1) // 2))
    shallow = [one for one in found if one.node == 0]
    return chosen + chooser.sample(shallow, min(len(shallow), count - len(chosen)))


def disagreements(
    backend: Backend, tasks: Mapping[str, Task], tables: Sequence[Table], chosen: Sequence[Transition]
) -> list[Disagreement]:
    """Returns the transitions whose execution in the sandbox gives something else than the table has; `tasks` are by
    their ids."""
    found = []
    for one in chosen:
        table = tables[one.table]
        compiled, executed = of_table(table, one), of_execution(backend, tasks[table.id], table, one)
        if compiled != executed:
            found.append(Disagreement(one, compiled, executed))
    return found


def of_table(table: Table, one: Transition) -> str:
    node = table.nodes[one.node]
    result, there = int(node.result[one.place]), table.nodes[int(node.leads[one.place])]
    return outcome_text(result, there.failing, there.passes, there.solves)


def of_execution(backend: Backend, task: Task, table: Table, one: Transition) -> str:
    node = table.nodes[one.node]
    edits = variant(table, (*node.places, one.place))
    (base,) = run_variants(backend, task, [{}], list(task.visible))
    failing = [test for test in task.visible if test not in base.passed][:MOST_FAILING]
    (tried,) = run_variants(backend, task, [edits], failing)  # as a trial does; other tests may not even be found then
    left = len(failing) - len(tried.passed & set(failing))
    result = trial_result(tried, left, node.failing)
    if result not in (1, 2):
        return outcome_text(result, node.failing, node.passes, node.solves)
    (visible,) = run_variants(backend, task, [edits], list(task.visible))
    passes = left == 0 and visible.passed == frozenset(task.visible)
    return outcome_text(result, left, passes, passes and grade(backend, task, tree(task, edits)).solved)


def outcome_text(result: int, failing: int, passes: bool, solves: bool) -> str:
    return f"result {result}, {failing} failing, passes {passes}, solves {solves}"
