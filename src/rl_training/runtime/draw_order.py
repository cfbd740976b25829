"""A compiler pass that keeps random draws in the program's order, which torch does by itself from 2.13 on.

Without it the scheduler moves draws that do not depend on each other wherever it likes (pytorch issue 181136).
"""

from __future__ import annotations

import operator
from itertools import pairwise

import torch
from torch.fx import Graph, Node


class DrawsInOrder(torch._inductor.custom_graph_pass.CustomGraphPass):
    """A compiler pass that makes every random operator of a graph wait for the one before it."""

    def __call__(self, graph: Graph) -> None:
        seeded = torch.Tag.nondeterministic_seeded
        draws = [n for n in graph.nodes if n.op == "call_function" and seeded in getattr(n.target, "tags", ())]
        after = {later: torch.utils._ordered_set.OrderedSet([result(earlier)]) for earlier, later in pairwise(draws)}
        torch._inductor.fx_passes.control_dependencies.preserve_node_ordering(graph, after)

    def uuid(self) -> bytes:
        """Returns a hash of this file, which is a part of the key under which compiled code is kept."""
        return torch._inductor.custom_graph_pass.get_hash_for_files((__file__,))


def result(draw: Node) -> Node:
    """Returns the node that holds a random operator's tensor; if it has several, inserts a node for the first one."""
    given = draw.meta["val"]
    if isinstance(given, torch.Tensor):
        return draw
    with draw.graph.inserting_after(draw):
        first = draw.graph.call_function(operator.getitem, (draw, 0))
    first.meta["val"] = given[0]
    return first
