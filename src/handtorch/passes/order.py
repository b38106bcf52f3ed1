"""The order of nodes: legal for in-place updates, and each update as soon as it can be.

An update overwrites a value that others may still have to read; it must come after all of them.
Coming right after them frees its gradient early, which is most of what order can do for memory."""

from __future__ import annotations

import heapq
from dataclasses import replace

from handtorch.graph.node import Graph, Node
from handtorch.graph.opset import OPS
from handtorch.graph.parts import update_part


def order(graph: Graph) -> Graph:
    """Afterwards every in-place node stands right after the last node it has to wait for; all
    others keep their order. What runs once for many micro-batches stands behind all else."""
    needs = _needs(graph)
    needed_by: dict[int, list[int]] = {}
    left = [len(n) for n in needs]
    for index, before in enumerate(needs):
        for other in before:
            needed_by.setdefault(other, []).append(index)
    once = update_part(graph)
    first = [(i in once, not _overwritten(n))                 # False sorts first: updates
             for i, n in enumerate(graph.nodes)]
    ready = [(first[i], i) for i, count in enumerate(left) if not count]
    heapq.heapify(ready)
    placed: list[Node] = []
    while ready:
        _, index = heapq.heappop(ready)
        placed.append(graph.nodes[index])
        for other in needed_by.get(index, ()):
            left[other] -= 1
            if not left[other]:
                heapq.heappush(ready, (first[other], other))
    assert len(placed) == len(graph.nodes), "an update waits for a node that waits for it"
    return replace(graph, nodes=tuple(placed))


def _needs(graph: Graph) -> list[set[int]]:
    """For each node the indices of those before it: makers of what it reads, and readers of what
    it overwrites."""
    maker = {v.id: i for i, n in enumerate(graph.nodes) for v in n.outputs}
    readers: dict[int, list[int]] = {}
    for index, node in enumerate(graph.nodes):
        for value in node.inputs:
            readers.setdefault(value.id, []).append(index)
    views = _views(graph)
    needs = []
    for index, node in enumerate(graph.nodes):
        before = {maker[v.id] for v in node.inputs if v.id in maker}
        for lost in _overwritten(node):
            before |= {r for v in views.get(lost, [lost]) for r in readers.get(v, ())}
        needs.append(before - {index})
    return needs


def _overwritten(node: Node) -> list[int]:
    return [node.inputs[i].id for o, i in OPS[node.op].in_place if o < len(node.outputs)]


def _views(graph: Graph) -> dict[int, list[int]]:
    """For each value, all values that share its bytes: itself and its reshapes."""
    root: dict[int, int] = {}
    groups: dict[int, list[int]] = {}
    for node in graph.nodes:
        if node.op == "reshape":
            source, view = node.inputs[0].id, node.outputs[0].id
            root[view] = root.get(source, source)
            groups.setdefault(root[view], [root[view]]).append(view)
    return {v: group for group in groups.values() for v in group}
