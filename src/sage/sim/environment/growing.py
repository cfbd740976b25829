"""Tables that are compiled only as far as needed; nodes are expanded one after another, in the order of a whole
table."""

from __future__ import annotations

from dataclasses import dataclass

from sage.grading.task import Task
from sage.sandbox import Backend
from sage.sim.environment.rules import ORACLE
from sage.sim.environment.suspects import slots_of
from sage.sim.environment.tables import (
    DEEPEST,
    MOST_FAILING,
    NUM_NODES,
    Node,
    Table,
    expand,
    features_of,
    tree,
    variant,
)
from sage.sim.environment.trials import Spectrum, spectrum


@dataclass
class Growth:
    """A table that is being compiled, with the number of its expanded nodes.

    The trials that a node offers depend on all trials there, and on the nodes before it, because there is room for the
    best only. So a node is expanded as a whole and after those before it, and a part of a table equals the same part of
    a whole one.
    """

    backend: Backend
    task: Task
    table: Table
    failing: list[str]
    found: Spectrum
    expanded: int = 0

    def expand(self, through: int = NUM_NODES - 1) -> bool:
        """Tries everything at the nodes up to number `through`; returns whether there was anything to do."""
        before = self.expanded
        while self.expanded < min(through + 1, len(self.table.nodes)):
            node = self.table.nodes[self.expanded]
            if node.failing and len(node.places) < DEEPEST:
                expand(self.backend, self.task, self.table, node, self.failing, self.found)
            self.expanded += 1
        return self.expanded > before

    def files(self, node: int) -> dict[str, bytes]:
        """Returns the files of node number `node`, or those of the known repair for ORACLE."""
        if node == ORACLE:
            return self.task.repaired()
        return tree(self.task, variant(self.table, self.table.nodes[node].places))


def compiled(backend: Backend, task: Task) -> Table | None:
    """Returns the whole compiled table of a task; None if nothing can be localised in the task."""
    growth = begun(backend, task)
    if growth is None:
        return None
    growth.expand()
    return growth.table


def begun(backend: Backend, task: Task) -> Growth | None:
    """Returns a Growth with the first node of the task's table only; None if nothing can be localised in the task."""
    found = spectrum(backend, task)
    slots = slots_of(task.files, found, list(task.visible))
    failing = [test for test in task.visible if test not in found.passed][:MOST_FAILING]
    if not slots or not failing:
        return None
    start = Node((), len(failing), passes=False, solves=False)
    features = features_of(task, found, failing, slots)
    table = Table(task.id, task.split, task.level, features, slots, [start], len(failing), 0)
    return Growth(backend, task, table, failing, found)
