"""The two parts of a step that adds up gradients over micro-batches.

One runs for each micro-batch; the other, the update, once, after the last of them. Which node
belongs where follows from the graph alone, so that no pass has to carry it along."""

from __future__ import annotations

from handtorch.graph.node import Graph
from handtorch.graph.opset import OPS

ACCUMULATOR = "accumulator"


def update_part(graph: Graph) -> frozenset[int]:
    """The indices of the nodes that run once; none if the graph has no accumulators.

    For each micro-batch runs what adds to an accumulator, what moves random numbers on, what makes
    an output that no update is behind, and all that these need."""
    sums = {s.before.id for s in graph.states if s.role == ACCUMULATOR}
    if not sums:
        return frozenset()
    moved = {s.after.id for s in graph.states if s.role == "rng"}
    maker = {v.id: i for i, n in enumerate(graph.nodes) for v in n.outputs}
    after, todo = _behind_updates(graph, sums, moved), list[int]()
    for index, node in enumerate(graph.nodes):
        if any(v.id in sums for v in node.inputs) or any(v.id in moved for v in node.outputs):
            todo.append(index)
    todo += [maker[p.value.id] for p in graph.outputs
             if p.value.id in maker and maker[p.value.id] not in after]
    each: set[int] = set()
    while todo:
        index = todo.pop()
        if index not in each:
            each.add(index)
            todo += [maker[v.id] for v in graph.nodes[index].inputs if v.id in maker]
    return frozenset(range(len(graph.nodes))) - each


def _behind_updates(graph: Graph, sums: set[int], moved: set[int]) -> set[int]:
    """Nodes that read, however far behind, a finished sum or a new state."""
    states = {s.before.id for s in graph.states}
    done: set[int] = set()
    found: set[int] = set()
    for index, node in enumerate(graph.nodes):
        over = {node.inputs[i].id for o, i in OPS[node.op].in_place if o < len(node.outputs)}
        late = any(v.id in done for v in node.inputs)
        if late or (over & states and not any(v.id in moved for v in node.outputs)):
            done |= {v.id for v in node.outputs}
        if late or (over & (states - sums) and not any(v.id in moved for v in node.outputs)):
            found.add(index)
    return found
