"""Well-formedness of a Graph, run after capture and after every pass."""

from __future__ import annotations

from handtorch.graph.node import PHASES, ROLES, Graph, Node
from handtorch.graph.opset import OPS, output_types
from handtorch.graph.text import node_text


def check(graph: Graph, after: str, sound: dict[int, Node] | None = None) -> None:
    """Asserts, naming the stage `after` which it broke:

    - every op is in the op set and its outputs have the shapes and types the op set says;
    - every value is written once, before it is read, and keeps one shape and type;
    - every result exists; states keep their shape and type; roles and phases are known words.

    `sound` are the nodes, by their `id`, that an earlier check has seen: most passes leave most of
    them as they are, and what an op says of its outputs need not be asked again."""
    sound = {} if sound is None else sound

    def line(node: Node) -> str:
        return f"after {after}: {node_text(node)}"
    known = {p.value.id: p.value for p in graph.inputs}
    known |= {s.before.id: s.before for s in graph.states}
    for node in graph.nodes:
        for value in node.inputs:
            assert known.get(value.id) == value, f"{line(node)}: {value} is not written yet"
        if sound.get(id(node)) is not node:
            assert node.op in OPS, f"{line(node)}: unknown op"
            assert node.phase in PHASES, f"{line(node)}: unknown phase"
            types = output_types(node)
            assert types == tuple((v.shape, v.dtype) for v in node.outputs), (
                f"{line(node)}: gives {types}")
            sound[id(node)] = node
        for value in node.outputs:
            assert value.id not in known, f"{line(node)}: {value} is written twice"
            known[value.id] = value
    for state in graph.states:
        assert state.role in ROLES, state
        assert (state.before.shape, state.before.dtype) == (state.after.shape, state.after.dtype), (
            f"after {after}: {state.name} changes from {state.before} to {state.after}")
    for value in graph.results():
        assert known.get(value.id) == value, f"after {after}: result {value} is never written"
