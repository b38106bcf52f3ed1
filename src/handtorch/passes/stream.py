"""A captured model as a stream: its recurrent layers go on where the last call ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from handtorch.errors import BadInput, CannotCapture
from handtorch.graph.node import Attr, Graph, Node, Port, State, Value
from handtorch.graph.opset import output_types
from handtorch.graph.region import COMPARISONS, LOGIC
from handtorch.passes.reading import LAST, RECURRENT, Along, Held, held_by, retimed, retimed_shape

# Ops that round as IEEE 754 says or not at all, so that an element has the same bits wherever it
# stands; exp and its like have other code for vectors than for the few elements left over.
_EXACT = frozenset(("add", "sub", "mul", "neg", "abs", "square", "relu", "maximum", "minimum",
                    "copy", "where", "reshape", "transpose", "slice", "expand", "cat", "take",
                    *COMPARISONS, *LOGIC))


@dataclass(frozen=True)
class Streamed:
    """A model over `time` readings, which lie along `axis` of its input; what it keeps between
    calls are the states named `kept`. `outputs` says of each result where its readings lie."""

    graph: Graph
    axis: int
    time: int
    kept: tuple[str, ...]
    held: Mapping[int, Held]

    @property
    def outputs(self) -> tuple[Held, ...]:
        return tuple(self.held.get(p.value.id) for p in self.graph.outputs)

    @property
    def rows_alike(self) -> bool:
        """Whether a reading has the same bits among any number of others, on a device where that
        is so of products. The recurrent layers run the same kernel for any number of steps."""
        return all(n.op in _EXACT or n.op in RECURRENT or n.op == "matmul"
                   for n in self.graph.nodes
                   if any(isinstance(self.held.get(v.id), Along) for v in n.outputs))

    def for_readings(self, count: int) -> Graph:
        """The same model over so many readings."""
        values = {v.id: retimed(v, self.held.get(v.id), self.time, count)
                  for v in self.graph.values()}
        nodes = tuple(self._retimed(n, values, count) for n in self.graph.nodes)

        def port(p: Port) -> Port:
            return replace(p, value=values[p.value.id])
        return Graph(nodes, tuple(map(port, self.graph.inputs)), self.graph.states,
                     tuple(map(port, self.graph.outputs)))

    def _retimed(self, node: Node, values: Mapping[int, Value], count: int) -> Node:
        held = [self.held.get(v.id) for v in (*node.inputs, *node.outputs)]
        attrs: dict[str, Attr] = dict(node.attrs)
        first, out = held[0] if node.inputs else None, held[len(node.inputs)]
        if isinstance(out, Along) and "shape" in attrs:
            attrs["shape"] = retimed_shape(node.numbers("shape"), out, self.time, count)
        if node.op == "slice" and isinstance(first, Along) and out == LAST:
            attrs["starts"] = tuple(count - 1 if axis == first.axis else start
                                    for axis, start in enumerate(node.numbers("starts")))
        made = replace(node, inputs=tuple(values[v.id] for v in node.inputs),
                       outputs=tuple(values[v.id] for v in node.outputs), attrs=attrs)
        assert output_types(made) == tuple((v.shape, v.dtype) for v in made.outputs), made
        return made


def streamed(graph: Graph) -> Streamed:
    """`graph`, a captured inference over two readings or more, with the states of its recurrent
    layers kept from call to call; refused if readings meet anywhere else."""
    layers = [n for n in graph.nodes if n.op in RECURRENT]
    if not layers:
        raise CannotCapture("a stream of a model without recurrent layers",
                            why="nothing would be kept from one reading to the next",
                            fix="ht.inference(model, example=...)")
    if len(graph.inputs) != 1:
        raise BadInput(f"a stream with {len(graph.inputs)} inputs",
                       why="readings come in as one tensor",
                       fix="one tensor with all that belongs to a reading")
    given, changed = graph.inputs[0].value, [s.name for s in graph.states if s.changes]
    if changed:
        raise CannotCapture(f"a stream of a model that changes {', '.join(changed)}",
                            why="how often would depend on how readings are cut into calls",
                            fix="a model whose forward changes no buffers and draws no random "
                                "numbers in eval mode")
    time = layers[0].inputs[0].shape[1 if layers[0].flag("batch_first") else 0]
    if time < 2:
        raise BadInput(f"an example of {time} reading",
                       why="which axis of the input holds readings cannot be seen",
                       fix="an example of two readings or more; calls may then have any number")
    axis, held = _axis(graph, given, time)
    return _with_states(graph, axis, time, held)


def _axis(graph: Graph, given: Value, time: int) -> tuple[int, Mapping[int, Held]]:
    """The axis of the input whose entries are the steps of the recurrent layers."""
    refused = CannotCapture(f"a stream of {given}", fix="one reading of the input for each step",
                            why=f"its recurrent layers run {time} steps, and no axis of the input "
                                "is that long")
    first = next(n for n in graph.nodes if n.op in RECURRENT)
    usual = 1 if first.flag("batch_first") else 0
    # An axis may only happen to be as long: what is told is what stands against the usual one.
    for axis in sorted((i for i, n in enumerate(given.shape) if n == time), key=usual.__eq__):
        try:
            return axis, held_by(graph, axis, time)
        except CannotCapture as e:
            refused = e
    raise refused


def _with_states(graph: Graph, axis: int, time: int, held: Mapping[int, Held]) -> Streamed:
    fresh, nodes, states = graph.next_id(), list[Node](), list(graph.states)
    kept: list[str] = []
    for node in graph.nodes:
        if node.op in RECURRENT:
            ends = node.outputs[1:3] if node.op == "lstm" else node.outputs[1:2]
            number = sum(n.op in RECURRENT and n.layer == node.layer for n in nodes)
            begins = []
            for name, end in zip("hc", ends, strict=False):
                begins.append(Value(fresh, end.shape, end.dtype))
                fresh += 1
                kept.append(f"{node.layer or node.op}.{name}{number}")
                states.append(State(kept[-1], "buffer", begins[-1], end))
            gx, u, *bias = node.inputs
            node = replace(node, inputs=(gx, u, *begins, *bias),
                           attrs={**node.attrs, "states": True})
        nodes.append(node)
    made = replace(graph, nodes=tuple(nodes), states=tuple(states))
    return Streamed(made, axis, time, tuple(kept), held)
