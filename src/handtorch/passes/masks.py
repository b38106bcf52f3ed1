"""Masks are kept as they are decided, a byte an element, and not as the floats made of them."""

from __future__ import annotations

from dataclasses import replace

from handtorch.graph.node import Graph, Node, Value
from handtorch.graph.opset import OPS
from handtorch.passes.rewrite import makers, rebuilt


def narrow_masks(graph: Graph) -> Graph:
    """Afterwards no float that follows from a bool and constants alone is read by several
    point-wise ops: each has made its own of the bool, which fusion then joins to it.

    So dropout keeps `rand < p` for the way back, and not the quotient, which has four times the
    bytes. The very same arithmetic gives the very same bits."""
    made, readers = makers(graph), _readers(graph)
    results = {v.id for v in graph.results()}
    chains: dict[int, tuple[Node, ...]] = {}
    for node in graph.nodes:
        if (chain := _chain(node, made, chains)) is not None:
            chains[node.outputs[0].id] = chain
    shared = {k for k in chains if k not in results and len(readers[k]) > 1 and all(
        OPS[r.op].pointwise and r.outputs[0].size == chains[k][-1].outputs[0].size
        for r in readers[k])}
    fresh, nodes = graph.next_id(), list[Node]()
    for node in graph.nodes:
        own: dict[int, Value] = {}
        for value in dict.fromkeys(node.inputs):
            if value.id in shared and node.outputs[0].id not in chains:
                for link in chains[value.id]:
                    (out,) = link.outputs
                    copied = replace(out, id=fresh)
                    nodes.append(replace(link, inputs=tuple(own.get(v.id, v) for v in link.inputs),
                                         outputs=(copied,)))
                    own[out.id], fresh = copied, fresh + 1
        nodes.append(replace(node, inputs=tuple(own.get(v.id, v) for v in node.inputs)))
    return rebuilt(graph, nodes, {})


def _readers(graph: Graph) -> dict[int, list[Node]]:
    found: dict[int, list[Node]] = {v.id: [] for v in graph.values()}
    for node in graph.nodes:
        for value in dict.fromkeys(node.inputs):
            found[value.id].append(node)
    return found


def _chain(node: Node, made: dict[int, Node], chains: dict[int, tuple[Node, ...]]
           ) -> tuple[Node, ...] | None:
    """The nodes from a bool to this one's float, if nothing else than constants comes in."""
    if not OPS[node.op].pointwise or node.outputs[0].dtype != "f32":
        return None
    given = {v.id: v for v in node.inputs
             if (maker := made.get(v.id)) is None or maker.op != "fill"}
    if len(given) != 1:
        return None
    (value,) = given.values()
    if value.size != node.outputs[0].size:
        return None
    if node.op == "bool_to_f32" and value.dtype == "bool":
        return (node,)
    before = chains.get(value.id)
    return None if before is None else (*before, node)
