"""Transposes and reshapes that cost nothing: cancelled in pairs, folded into products."""

from __future__ import annotations

from dataclasses import replace

from handtorch.graph.node import Graph, Node, Value
from handtorch.passes.rewrite import makers, rebuilt


def fold_views(graph: Graph) -> Graph:
    """Afterwards no product reads a transposed matrix: it reads the matrix with a flag set."""
    instead: dict[int, Value] = {}
    made = makers(graph)
    for node in graph.nodes:
        if node.op in ("transpose", "reshape"):
            source = _source(node, made, instead)
            if source is not None:
                instead[node.outputs[0].id] = source
    lighter = rebuilt(graph, graph.nodes, instead)
    made = makers(lighter)
    return rebuilt(lighter, [_with_flags(n, made) for n in lighter.nodes], {})


def _source(node: Node, made: dict[int, Node], instead: dict[int, Value]) -> Value | None:
    """The value that `node` gives back unchanged, if it is one."""
    (x,) = node.inputs
    x = instead.get(x.id, x)
    if node.op == "reshape":
        return x if x.shape == node.outputs[0].shape else None
    below = made.get(x.id)
    if below is not None and below.op == "transpose":
        first, second = below.numbers("order"), node.numbers("order")
        if tuple(first[i] for i in second) == tuple(range(len(first))):
            return instead.get(below.inputs[0].id, below.inputs[0])
    return None


def _with_flags(node: Node, made: dict[int, Node]) -> Node:
    if node.op != "matmul":
        return node
    inputs, attrs = list(node.inputs), dict(node.attrs)
    for i, flag in enumerate(("ta", "tb")):
        maker = made.get(inputs[i].id)
        if maker is not None and maker.op == "transpose":
            inputs[i] = maker.inputs[0]
            attrs[flag] = not node.flag(flag)
    return replace(node, inputs=tuple(inputs), attrs=attrs)
