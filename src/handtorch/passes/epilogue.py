"""What follows a product or a convolution moves into it: one launch, one pass over memory less."""

from __future__ import annotations

from dataclasses import replace

from handtorch.graph.node import Graph, Node, Value
from handtorch.passes.rewrite import makers, rebuilt, use_counts

# What the kernels of an op can do to a result, in the order in which they do it.
_CONV = ("bias", "add", "relu", "relu_grad")
_ORDER = {"matmul": ("bias", "relu", "relu_grad"), "conv": _CONV, "conv_grad_input": _CONV}


def fuse_epilogues(graph: Graph) -> Graph:
    """Afterwards a product whose only reader is a ReLU, the gradient of one, or (convolutions) a
    sum with a tensor of its shape, does that itself.

    The fused node stands where the product stood if the reader's other inputs are there by then,
    so that what the product reads is free as early as before; else where the reader stood. Of two
    convolutions that are added up the later one does it."""
    made, uses = makers(graph), use_counts(graph)
    at: dict[int, int] = {}                       # where in `nodes` each value is made
    nodes: list[Node | None] = []
    for node in graph.nodes:
        able = [v for v in _results(node) if uses[v.id] == 1 and v.id in at
                and _has_room(made[v.id], node)]
        if able:
            value = max(able, key=lambda v: at[v.id])
            place = at[value.id]
            node = _fused(made[value.id], node, value)
            made[node.outputs[0].id] = node
            nodes[place] = None
            if all(at.get(v.id, -1) < place for v in node.inputs):
                nodes[place] = node
                at[node.outputs[0].id] = place
                continue
        at |= {v.id: len(nodes) for v in node.outputs}
        nodes.append(node)
    return rebuilt(graph, [n for n in nodes if n is not None], dict[int, Value]())


def _results(node: Node) -> tuple[Value, ...]:
    """Which inputs the node may be applied to before they are stored."""
    if node.op in ("relu", "relu_grad"):
        return node.inputs[:1]
    alike = node.op == "add" and len({(v.shape, v.dtype) for v in node.inputs}) == 1
    return node.inputs if alike else ()


def _has_room(product: Node, node: Node) -> bool:
    """Whether all that the product does already comes before what `node` does."""
    order = _ORDER.get(product.op, ())
    return node.op in order and not {*order[order.index(node.op):]} & {*product.words("epilogue")}


def _fused(product: Node, node: Node, value: Value) -> Node:
    attrs = {**product.attrs, "epilogue": (*product.words("epilogue"), node.op)}
    others = tuple(v for v in node.inputs if v.id != value.id)
    return replace(product, inputs=(*product.inputs, *others), outputs=node.outputs, attrs=attrs)
