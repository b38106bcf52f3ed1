"""The gradients of a recurrent layer's weights that have a factor in common become one node, so
that a device may read that factor once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from handtorch.graph.node import Graph, Node, Value
from handtorch.passes.rewrite import behind_views, makers

GRADIENTS = ("lstm_grad", "gru_grad", "rnn_grad")
MOST = 2                            # products with the same factor: of the inputs, of the states


def join_weight_gradients(graph: Graph) -> Graph:
    """Afterwards the products d^T x and the sum over d's rows, for each d that the gradient of a
    recurrent layer gives, are one node, which stands where the last of them stood."""
    if not any(n.op in GRADIENTS for n in graph.nodes):
        return graph
    made = makers(graph)
    found: dict[int, list[int]] = {}
    for index, node in enumerate(graph.nodes):
        d = _factor(node, made)
        if d is not None:
            found.setdefault(d.id, []).append(index)
    instead: dict[int, tuple[Node, ...]] = {}
    fresh = graph.next_id()
    for indices in found.values():
        members = [graph.nodes[i] for i in indices]
        if _can_join(members, graph.nodes[indices[0]:indices[-1]]):
            nodes = _joined(members, fresh)
            fresh += 1
            instead |= dict.fromkeys(indices, ()) | {indices[-1]: nodes}
    return Graph(tuple(n for i, node in enumerate(graph.nodes) for n in instead.get(i, (node,))),
                 graph.inputs, graph.states, graph.outputs)


def _factor(node: Node, made: Mapping[int, Node]) -> Value | None:
    """The d of a node that could be joined, as its layer's gradient gave it."""
    if not (_is_product(node) or _is_sum(node)):
        return None
    d = behind_views(node.inputs[0], made)
    maker = made.get(d.id)
    recurrent = maker is not None and maker.op in GRADIENTS
    return d if recurrent and node.inputs[0].shape[-1] == d.shape[-1] else None


def _is_product(node: Node) -> bool:
    return (node.op == "matmul" and node.flag("ta") and not node.flag("tb")
            and not node.words("epilogue"))


def _is_sum(node: Node) -> bool:
    """Over all rows, of the numbers as they are."""
    return (node.op == "sum" and node.number("scale", 1) == 1 and not node.attrs.get("of")
            and node.numbers("axes") == tuple(range(len(node.inputs[0].shape) - 1)))


def _can_join(members: list[Node], until: tuple[Node, ...]) -> bool:
    products, sums = sum(map(_is_product, members)), sum(map(_is_sum, members))
    read = {v.id for n in until for v in n.inputs}
    early = any(v.id in read for n in members for v in n.outputs)
    return 1 <= products <= MOST and sums <= 1 and products + sums > 1 and not early


def _joined(members: list[Node], fresh: int) -> tuple[Node, ...]:
    """The one node, and the shape that somebody expects of the sum."""
    products, sums = list(filter(_is_product, members)), list(filter(_is_sum, members))
    first, views = products[0], list[Node]()
    d, outs = first.inputs[0], [n.outputs[0] for n in products]
    for node in sums:
        (total,) = node.outputs
        if total.shape != (d.shape[1],):                      # with keepdim
            total = Value(fresh, (d.shape[1],))
            views.append(replace(node, op="reshape", inputs=(total,),
                                 attrs={"shape": node.outputs[0].shape}))
        outs.append(total)
    return (replace(first, op="weights_grad", inputs=(d, *(n.inputs[1] for n in products)),
                    outputs=tuple(outs), attrs={"sums": bool(sums)}), *views)
