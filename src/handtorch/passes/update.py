"""The update of a weight moves into the product that is its gradient: the gradient is never stored.

For a wide linear layer it would be as large as the weight, and the largest thing alive."""

from __future__ import annotations

from handtorch.graph.node import Graph, Node, Value
from handtorch.passes.rewrite import makers, rebuilt, use_counts


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
                and not {_bytes_of(v, made) for v in product.inputs} & {v.id for v in node.inputs}):
            gone.add(product.outputs[0].id)
            node = _fused(product, node)
        nodes.append(node)
    kept = [n for n in nodes if not (n.op == "matmul" and n.outputs[0].id in gone)]
    return rebuilt(graph, kept, dict[int, Value]())


def _bytes_of(value: Value, made: dict[int, Node]) -> int:
    """The value whose memory this one shows; an update may not overwrite what its product reads."""
    while (maker := made.get(value.id)) is not None and maker.op == "reshape":
        (value,) = maker.inputs
    return value.id


def _fused(product: Node, update: Node) -> Node:
    weight, _, rate, *moments = update.inputs
    return Node("matmul_sgd", (weight, *product.inputs, rate, *moments), update.outputs,
                {**product.attrs, **update.attrs}, where=product.where, layer=product.layer,
                phase="optimizer")
