"""The update of a weight moves into the product that is its gradient: the gradient is never stored.

For a wide linear layer it would be as large as the weight, and the largest thing alive."""

from __future__ import annotations

from handtorch.graph.node import Graph, Node, Value
from handtorch.passes.rewrite import behind_views, makers, rebuilt, use_counts


def fuse_updates(graph: Graph) -> Graph:
    """Afterwards a plain product whose only reader is the `sgd` of a weight of its shape is part
    of that update, and stands where the update stood."""
    made, uses = makers(graph), use_counts(graph)
    gone: set[int] = set()
    nodes: list[Node] = []
    for node in graph.nodes:
        product = made.get(node.inputs[1].id) if node.op == "sgd" else None
        if (product is not None and product.op == "matmul" and not product.words("epilogue")
                and uses[product.outputs[0].id] == 1
                and not _overwrites_its_own(product, node, made)):
            gone.add(product.outputs[0].id)
            node = _fused(product, node)
        nodes.append(node)
    kept = [n for n in nodes if not (n.op == "matmul" and n.outputs[0].id in gone)]
    return rebuilt(graph, kept, dict[int, Value]())


def _overwrites_its_own(product: Node, update: Node, made: dict[int, Node]) -> bool:
    """Whether the update would write over what the product still reads."""
    read = {behind_views(v, made).id for v in product.inputs}
    return bool(read & {v.id for v in update.inputs})


def _fused(product: Node, update: Node) -> Node:
    weight, _, rate, *moments = update.inputs
    return Node("matmul_sgd", (weight, *product.inputs, rate, *moments), update.outputs,
                {**product.attrs, **update.attrs}, where=product.where, layer=product.layer,
                phase=update.phase)
