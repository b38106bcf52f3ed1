"""Every new state ends in the place of the old one, every output in a place of its own."""

from __future__ import annotations

from dataclasses import replace

from handtorch.graph.node import Graph, Node, Port, State, Value
from handtorch.graph.opset import OPS
from handtorch.passes.rewrite import makers


def settle(graph: Graph) -> Graph:
    """Afterwards every changed state is made by an in-place op on the old one, and no output is
    itself an input or a state (those live elsewhere)."""
    made, fresh = makers(graph), graph.next_id()
    nodes, states, outputs = list(graph.nodes), list[State](), list[Port]()
    for state in graph.states:
        if state.changes and not _in_place(state, made):
            new = Value(fresh, state.before.shape, state.before.dtype)
            fresh += 1
            nodes.append(Node("assign", (state.before, state.after), (new,), phase="optimizer"))
            state = replace(state, after=new)
        states.append(state)
    taken = {p.value.id for p in graph.inputs} | {
        v.id for s in states for v in (s.before, s.after)}
    for port in graph.outputs:
        if _behind_views(port.value, made).id in taken:
            copy = Value(fresh, port.value.shape, port.value.dtype)
            fresh += 1
            nodes.append(Node("copy", (port.value,), (copy,)))
            port = replace(port, value=copy)
        outputs.append(port)
    return replace(graph, nodes=tuple(nodes), states=tuple(states), outputs=tuple(outputs))


def _behind_views(value: Value, made: dict[int, Node]) -> Value:
    """The value whose bytes these are: reshaping moves nothing."""
    while (maker := made.get(value.id)) is not None and maker.op == "reshape":
        (value,) = maker.inputs
    return value


def _in_place(state: State, made: dict[int, Node]) -> bool:
    maker = made.get(state.after.id)
    if maker is None:
        return False
    return any(maker.outputs[o].id == state.after.id and maker.inputs[i].id == state.before.id
               for o, i in OPS[maker.op].in_place if o < len(maker.outputs))
