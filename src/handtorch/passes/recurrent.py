"""The product that feeds a recurrent layer becomes part of it, so that a device may do both in one
launch."""

from __future__ import annotations

from dataclasses import replace

from handtorch.graph.node import Graph, Node, Value
from handtorch.passes.reading import RECURRENT
from handtorch.passes.rewrite import makers, rebuilt, use_counts


def fuse_input_products(graph: Graph) -> Graph:
    """Afterwards a recurrent layer whose gx is a product x w^T, perhaps with a bias, that nobody
    else reads is one node with that product. Lowering decides for the device whether it is one
    launch."""
    if not any(n.op in RECURRENT for n in graph.nodes):
        return graph
    made, uses = makers(graph), use_counts(graph)

    def fed(node: Node) -> Node:
        gx = node.inputs[0]
        while (product := made.get(gx.id)) is not None and uses[gx.id] == 1:
            if product.op != "reshape":
                return _joined(node, product) if _feeds(product) else node
            (gx,) = product.inputs
        return node
    nodes = [fed(n) if n.op in RECURRENT else n for n in graph.nodes]
    return rebuilt(graph, nodes, dict[int, Value]())


def _feeds(product: Node) -> bool:
    plain = product.op == "matmul" and product.flag("tb") and not product.flag("ta")
    return plain and product.words("epilogue") in ((), ("bias",))


def _joined(node: Node, product: Node) -> Node:
    gx, *rest = node.inputs
    return replace(node, op=f"{node.op}_layer", inputs=(*product.inputs, *rest), attrs={
        **node.attrs, "time": gx.shape[1 if node.flag("batch_first") else 0],
        "input_bias": bool(product.words("epilogue"))})
