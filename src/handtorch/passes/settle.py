"""Every new state ends in the place of the old one, every output in a place of its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from handtorch.graph.node import Graph, Node, Port, State, Value
from handtorch.graph.opset import OPS
from handtorch.passes.rewrite import behind_views, makers


def settle(graph: Graph) -> Graph:
    """Afterwards every changed state is made by in-place ops on the old one, no update destroys
    what something after it reads, and no output is itself an input or a state (those live
    elsewhere)."""
    graph = _spared(graph)
    made, fresh = makers(graph), graph.next_id()
    newer = {old.id: new for n in graph.nodes for new, old in _in_place(n)}
    nodes, states, outputs = list(graph.nodes), list[State](), list[Port]()
    for state in graph.states:
        last = state.before
        while last.id in newer:
            last = newer[last.id]
        if state.after.id != last.id:
            new = Value(fresh, last.shape, last.dtype)
            fresh += 1
            nodes.append(Node("assign", (last, state.after), (new,), phase="optimizer"))
            state = replace(state, after=new)
        states.append(state)
    taken = {p.value.id for p in graph.inputs} | {
        v.id for s in states for v in (s.before, s.after)}
    for port in graph.outputs:
        if behind_views(port.value, made).id in taken:
            copy = Value(fresh, port.value.shape, port.value.dtype)
            fresh += 1
            nodes.append(Node("copy", (port.value,), (copy,)))
            port = replace(port, value=copy)
        outputs.append(port)
    return replace(graph, nodes=tuple(nodes), states=tuple(states), outputs=tuple(outputs))


def _in_place(node: Node) -> Iterator[tuple[Value, Value]]:
    """(new, old) of everything the node overwrites."""
    for o, i in OPS[node.op].in_place:
        if o < len(node.outputs):
            yield node.outputs[o], node.inputs[i]


def _spared(graph: Graph) -> Graph:
    """An update works on a copy if its own result leads to another use of the old value.

    So a step may try an update, look at the result and take it back."""
    readers = _readers(graph)
    kept = {s.before.id for s in graph.states if not s.changes}
    nodes, fresh = list[Node](), graph.next_id()
    for index, node in enumerate(graph.nodes):
        for _, old in _in_place(node):
            later = {r for r in readers.get(old.id, ()) if r > index}
            if old.id in kept or (later and later & _led_to(index, graph, readers)):
                copy = Value(fresh, old.shape, old.dtype)
                fresh += 1
                nodes.append(Node("copy", (old,), (copy,), where=node.where, phase=node.phase))
                node = replace(node, inputs=tuple(copy if v == old else v for v in node.inputs))
        nodes.append(node)
    return replace(graph, nodes=tuple(nodes))


def _readers(graph: Graph) -> dict[int, set[int]]:
    """The nodes that read each value, also through a reshape."""
    readers: dict[int, set[int]] = {}
    for index, node in reversed(list(enumerate(graph.nodes))):
        through = readers.get(node.outputs[0].id, set()) if node.op == "reshape" else set()
        for value in node.inputs:
            readers.setdefault(value.id, set()).update({index}, through)
    return readers


def _led_to(index: int, graph: Graph, readers: dict[int, set[int]]) -> set[int]:
    """Every node that the results of this one reach."""
    reached, todo = set[int](), [index]
    while todo:
        for value in graph.nodes[todo.pop()].outputs:
            new = readers.get(value.id, set()) - reached
            reached |= new
            todo += new
    return reached
