"""ReLU and its gradient move into the product that feeds them: one launch, one pass over memory."""

from __future__ import annotations

from dataclasses import replace

from handtorch.graph.node import Graph, Node, Value
from handtorch.passes.rewrite import makers, rebuilt, use_counts


def fuse_epilogues(graph: Graph) -> Graph:
    """Afterwards a product whose only reader is a ReLU, or the gradient of one, does that itself.

    The fused node stands where the reader stood, since it may need the reader's other input."""
    made, uses = makers(graph), use_counts(graph)
    gone: set[int] = set()
    nodes: list[Node] = []
    for node in graph.nodes:
        product = made.get(node.inputs[0].id) if node.inputs else None
        if (node.op in ("relu", "relu_grad") and product is not None and product.op == "matmul"
                and uses[product.outputs[0].id] == 1 and _has_room(product)):
            gone.add(product.outputs[0].id)
            node = _fused(product, node)
            made[node.outputs[0].id] = node
        nodes.append(node)
    kept = [n for n in nodes if not (n.op == "matmul" and n.outputs[0].id in gone)]
    return rebuilt(graph, kept, dict[int, Value]())


def _has_room(product: Node) -> bool:
    """The kernels do at most: bias, then one of ReLU and its gradient."""
    return not {"relu", "relu_grad"} & set(product.words("epilogue"))


def _fused(product: Node, node: Node) -> Node:
    attrs = {**product.attrs, "epilogue": (*product.words("epilogue"), node.op)}
    return replace(product, inputs=(*product.inputs, *node.inputs[1:]), outputs=node.outputs,
                   attrs=attrs)
