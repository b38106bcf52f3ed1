"""Neighbouring point-wise ops -> regions: one launch, one pass over memory."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from handtorch.graph.node import Attr, Graph, Node, Value
from handtorch.graph.opset import OPS
from handtorch.graph.region import literal
from handtorch.passes.rewrite import makers, rebuilt, use_counts

MOST_INPUTS = 12                 # kernel arguments are few on some drivers
MOST_INSTRUCTIONS = 48           # registers too


def fuse_pointwise(graph: Graph) -> Graph:
    """Afterwards every point-wise op is part of a `pointwise` node, and every number in it a
    literal.

    An op joins its reader if nobody else reads it and it has as many elements as the reader, so
    nothing is computed twice. A constant joins every reader."""
    made, uses = makers(graph), use_counts(graph)
    regions: dict[int, _Region] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        if OPS[node.op].pointwise:
            region = _Region(node)
            for value in node.inputs:
                region.take(value, made, uses, regions)
            region.finish(node)
            regions[node.outputs[0].id] = region
            node = region.node()
        nodes.append(node)
    return rebuilt(graph, nodes, {})


@dataclass
class _Region:
    """A region while it grows; `names` says what each value is called in it."""

    last: Node
    inputs: list[Value] = field(default_factory=list)
    code: list[str] = field(default_factory=list)
    names: dict[int, str] = field(default_factory=dict)

    def take(self, value: Value, made: dict[int, Node], uses: dict[int, int],
             regions: dict[int, _Region]) -> None:
        """Make `value` available under a name: as a number, as code, or as an input."""
        if value.id in self.names:
            return
        maker = made.get(value.id)
        if maker is not None and maker.op == "fill":
            self.names[value.id] = literal(maker.number("number"), value.dtype)
            return
        inner = regions.get(value.id)
        if (inner is not None and uses[value.id] == _times(self.last, value)
                and value.size == self.last.outputs[0].size and self._fits(inner)):
            self._absorb(inner, value)
        else:
            self.names[value.id] = f"x{len(self.inputs)}"
            self.inputs.append(value)

    def _fits(self, other: _Region) -> bool:
        return (len({v.id for v in (*self.inputs, *other.inputs)}) <= MOST_INPUTS - 2
                and len(self.code) + len(other.code) < MOST_INSTRUCTIONS)

    def _absorb(self, other: _Region, value: Value) -> None:
        renamed: dict[str, str] = {}
        for i, source in enumerate(other.inputs):
            if source.id not in self.names:
                self.names[source.id] = f"x{len(self.inputs)}"
                self.inputs.append(source)
            renamed[f"x{i}"] = self.names[source.id]
        for i, line in enumerate(other.code):
            op, _, rest = line.removesuffix(")").partition("(")
            arguments = [renamed.get(a, a) for a in rest.split(",")]
            renamed[f"t{i}"] = f"t{len(self.code)}"
            self.code.append(f"{op}({','.join(arguments)})")
        self.names[value.id] = renamed[f"t{len(other.code) - 1}"]

    def finish(self, node: Node) -> None:
        arguments = ",".join(self.names[v.id] for v in node.inputs)
        self.code.append(f"{node.op}({arguments})")

    def node(self) -> Node:
        (out,) = self.last.outputs
        attrs: dict[str, Attr] = {"body": ";".join(self.code), "shape": out.shape}
        return replace(self.last, op="pointwise", inputs=tuple(self.inputs), attrs=attrs)


def _times(node: Node, value: Value) -> int:
    return sum(v.id == value.id for v in node.inputs)
