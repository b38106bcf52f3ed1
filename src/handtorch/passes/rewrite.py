"""What passes share: who makes a value, who uses it, and putting a graph back together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from handtorch.graph.node import Graph, Node, Port, Value


def makers(graph: Graph) -> dict[int, Node]:
    return {v.id: n for n in graph.nodes for v in n.outputs}


def behind_views(value: Value, made: Mapping[int, Node]) -> Value:
    """The value whose bytes these are: reshaping moves nothing."""
    while (maker := made.get(value.id)) is not None and maker.op == "reshape":
        (value,) = maker.inputs
    return value


def use_counts(graph: Graph) -> dict[int, int]:
    """How often each value is read; being a result counts as a reading."""
    counts: dict[int, int] = {}
    for value in (*(v for n in graph.nodes for v in n.inputs), *graph.results()):
        counts[value.id] = counts.get(value.id, 0) + 1
    return counts


def rebuilt(graph: Graph, nodes: Iterable[Node], instead: Mapping[int, Value]) -> Graph:
    """`graph` with these nodes, every use of a key of `instead` replaced, dead nodes dropped."""
    def now(v: Value) -> Value:
        while v.id in instead:
            v = instead[v.id]
        return v

    def swapped(n: Node) -> Node:
        if not any(v.id in instead for v in n.inputs):
            return n                    # the same object: who has checked it need not do so again
        return replace(n, inputs=tuple(map(now, n.inputs)))
    whole = Graph(tuple(map(swapped, nodes)), graph.inputs,
                  tuple(replace(s, after=now(s.after)) for s in graph.states),
                  tuple(Port(p.name, now(p.value)) for p in graph.outputs))
    return without_dead(whole)


def without_dead(graph: Graph) -> Graph:
    """Nodes whose outputs nobody reads are gone, and those that only served them."""
    wanted = {v.id for v in graph.results()}
    kept: list[Node] = []
    for node in reversed(graph.nodes):
        if any(v.id in wanted for v in node.outputs):
            kept.append(node)
            wanted |= {v.id for v in node.inputs}
    return replace(graph, nodes=tuple(reversed(kept)))
