"""Directed graphs as a dict of lists: orders, layers, cycles and shortest ways."""

from __future__ import annotations

import heapq
import random
from collections import deque

CHOICES = {"TOLL": (0, 1, 2)}
TOLL = 0


def nodes_of(graph: dict[str, list[str]]) -> list[str]:
    """All nodes, those without an own entry too, sorted."""
    found = set(graph)
    for others in graph.values():
        found.update(others)
    return sorted(found)


def topological(graph: dict[str, list[str]]) -> list[str]:
    """Every node before those it points to; the smallest first where there is a choice."""
    waiting = dict.fromkeys(nodes_of(graph), 0)
    for others in graph.values():
        for other in others:
            waiting[other] += 1
    ready = [node for node, count in waiting.items() if count == 0]
    heapq.heapify(ready)
    order = []
    while ready:
        node = heapq.heappop(ready)
        order.append(node)
        for other in graph.get(node, []):
            waiting[other] -= 1
            if waiting[other] == 0:
                heapq.heappush(ready, other)
    if len(order) < len(waiting):
        raise ValueError("the graph has a cycle")
    return order


def topological__scanning(graph: dict[str, list[str]]) -> list[str]:
    """Every node before those it points to; the smallest first where there is a choice."""
    left, order = nodes_of(graph), []
    while left:
        for node in left:
            if not any(node in graph.get(other, []) for other in left):
                break
        else:
            raise ValueError("the graph has a cycle")
        left.remove(node)
        order.append(node)
    return order


def layers(graph: dict[str, list[str]]) -> list[list[str]]:
    """Nodes by the length of the longest way that leads to them."""
    depth = dict.fromkeys(nodes_of(graph), 0)
    for node in topological(graph):
        for other in graph.get(node, []):
            depth[other] = max(depth[other], depth[node] + 1)
    found: list[list[str]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for node in sorted(depth):
        found[depth[node]].append(node)
    return found


def reachable(graph: dict[str, list[str]], start: str) -> list[str]:
    """All nodes to which a way leads, the start too, sorted."""
    seen, queue = {start}, deque([start])
    while queue:
        for other in graph.get(queue.popleft(), []):
            if other not in seen:
                seen.add(other)
                queue.append(other)
    return sorted(seen)


def reachable__recursive(graph: dict[str, list[str]], start: str) -> list[str]:
    """All nodes to which a way leads, the start too, sorted."""
    seen: set[str] = set()

    def visit(node: str) -> None:
        if node in seen:
            return
        seen.add(node)
        for other in graph.get(node, []):
            visit(other)

    visit(start)
    return sorted(seen)


def cycle_groups(graph: dict[str, list[str]]) -> list[list[str]]:
    """Groups of at least two nodes that reach each other."""
    ways = {node: set(reachable(graph, node)) for node in nodes_of(graph)}
    groups, seen = [], set()
    for node in sorted(ways):
        group = [other for other in sorted(ways[node]) if node in ways[other]]
        if len(group) > 1 and node not in seen:
            groups.append(group)
            seen.update(group)
    return groups


def cheapest(edges: list[tuple[str, str, int]], start: str, goal: str) -> int | None:
    """The smallest cost of a way, with TOLL for every node between; None without a way."""
    graph: dict[str, list[tuple[str, int]]] = {}
    for source, target, cost in edges:
        graph.setdefault(source, []).append((target, cost))
    best = {start: 0}
    queue = [(0, start)]
    while queue:
        cost, node = heapq.heappop(queue)
        if node == goal:
            return cost
        if cost > best[node]:
            continue
        for other, step in graph.get(node, []):
            total = cost + step + (TOLL if node != start else 0)
            if other not in best or total < best[other]:
                best[other] = total
                heapq.heappush(queue, (total, other))
    return None


def without_shortcuts(graph: dict[str, list[str]]) -> dict[str, list[str]]:
    """The edges of an acyclic graph that no longer way replaces."""
    topological(graph)
    kept = {}
    for node in sorted(graph):
        targets = sorted(set(graph[node]))
        longer = {far for near in targets for far in reachable(graph, near) if far != near}
        kept[node] = [target for target in targets if target not in longer]
    return kept


def arguments_topological(rng: random.Random) -> tuple:
    names = rng.sample("abcdefgh", rng.randint(2, 7))
    ordered = rng.random() < 0.8
    graph: dict[str, list[str]] = {}
    for _ in range(rng.randint(1, 10)):
        one, other = rng.sample(range(len(names)), 2)
        if ordered and one > other:
            one, other = other, one
        graph.setdefault(names[one], [])
        if names[other] not in graph[names[one]]:
            graph[names[one]].append(names[other])
    return (graph,)


def arguments_layers(rng: random.Random) -> tuple:
    return arguments_topological(rng)


def arguments_reachable(rng: random.Random) -> tuple:
    return *arguments_topological(rng), rng.choice("abcd")


def arguments_cycle_groups(rng: random.Random) -> tuple:
    return ({name: sorted(rng.sample("abcdef", rng.randint(0, 2))) for name in "abcdef"},)


def arguments_cheapest(rng: random.Random) -> tuple:
    edges = [(*rng.sample("abcdef", 2), rng.randint(1, 9)) for _ in range(rng.randint(2, 12))]
    return edges, *rng.sample("abcdef", 2)


def arguments_without_shortcuts(rng: random.Random) -> tuple:
    return arguments_topological(rng)
