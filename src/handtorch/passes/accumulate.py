"""Micro-batches: gradients are added up over parts of a batch, and the update runs once.

The program of one part serves both: the update stands behind everything else (`graph/parts.py`),
so for all parts but the last one the launches before it are replayed."""

from __future__ import annotations

from dataclasses import dataclass, replace

from handtorch.errors import CannotCapture
from handtorch.graph.node import Graph, Node, State, Value
from handtorch.graph.ops.optimizers import OPS as UPDATES
from handtorch.graph.parts import ACCUMULATOR
from handtorch.passes.rewrite import makers, without_dead
from handtorch.passes.rows.at import Even
from handtorch.passes.rows.compare import Findings, compare
from handtorch.passes.rows.relation import Relation, Rows, Same, Total
from handtorch.passes.rows.scaled import scaled

_UPDATES = {op.name for op in UPDATES} - {"tick", "clear"}
_GRADIENT = 1                                       # the input of an update that is one
_VIEWS = ("reshape", "transpose", "slice")


@dataclass(frozen=True)
class Join:
    """How the results of all parts become the batch's: `kind` is

    sum, rows (put together along `axis`, in each of its `outer` parts), or last (the last part's);
    each times `scale`."""

    kind: str
    scale: float = 1.0
    axis: int = 0
    outer: int = 1


@dataclass(frozen=True)
class EvenLabels:
    """A mean that is exact if all parts have equally many labels other than `ignore`: those of
    input number `input`, seen through `views`."""

    input: int
    views: tuple[Node, ...]
    ignore: int
    where: str


@dataclass(frozen=True)
class MicroBatched:
    """`graph` is the step of one part of `parts`; a batch has `rows`. `whole` is the step of all of
    it, as captured: with that of a part it is all this was made from."""

    graph: Graph
    parts: int
    rows: int
    joins: tuple[Join, ...]
    even: tuple[EvenLabels, ...]
    whole: Graph


def rows_to_compare(rows: int, parts: int) -> int:
    """For how many rows the step is to be captured beside `rows`: those of a part, if that is more
    than one; else two, or three."""
    few = rows // parts
    return few if few > 1 else 2 if rows != 2 else 3


def micro_batched(large: Graph, small: Graph, parts: int) -> MicroBatched:
    """`large` is the step of a whole batch, `small` that of `rows_to_compare`, both as captured.

    Afterwards it is proven that steps of the parts, with one update, give what the whole batch
    gives but for rounding; or that was refused. Random numbers are others."""
    whole, large, small = large, without_dead(large), without_dead(small)
    rows, few = (g.inputs[0].value.shape[0] for g in (large, small))
    found = compare(large, small, rows, few)
    if few * parts != rows:
        small = scaled(large, small, rows, few, rows // parts)
    made, even = makers(small), list[EvenLabels]()
    for each in found.even:
        labels = _labels(small, each, made)
        even += [labels] if labels not in even else []
    joins = tuple(_join(found.known[p.value.id], parts) for p in small.outputs)
    return MicroBatched(_accumulating(small, found, parts), parts, rows, joins, tuple(even), whole)


def _join(known: Relation, parts: int) -> Join:
    if isinstance(known, Total):
        return Join("sum", scale=float(parts) ** -known.power)
    if isinstance(known, Rows):
        return Join("rows", scale=float(parts) ** -(known.power or 0), axis=known.axis,
                    outer=known.outer)
    power = known.power if isinstance(known, Same) else 0
    return Join("last", scale=float(parts) ** -(power or 0))


def _labels(graph: Graph, even: Even, made: dict[int, Node]) -> EvenLabels:
    """Labels are counted on the host, before a step: so they must come from there."""
    labels, views, where = even.labels, list[Node](), str(even.node.where or "")
    while (maker := made.get(labels.id)) is not None and maker.op in _VIEWS:
        views.insert(0, maker)
        (labels,) = maker.inputs
    numbers = {p.value.id: i for i, p in enumerate(graph.inputs)}
    if labels.id not in numbers:
        raise CannotCapture("micro-batches: a mean over labels that are computed in the step",
                            why=f"those that are {even.ignore} do not count, and how many there "
                                "are in each part is known on the device only", where=where,
                            fix="reduction='sum', divided by a number that is the same for every "
                                "batch; or the labels as an input")
    return EvenLabels(numbers[labels.id], tuple(views), even.ignore, where)


def _accumulating(graph: Graph, found: Findings, parts: int) -> Graph:
    """The graph with a state for each sum; nodes that run once read the states."""
    fresh, names = graph.next_id(), _names(graph, found)
    done: dict[int, Value] = {}
    nodes, rates, states, cleared = list[Node](), dict[float, Value](), list[State](), list[Node]()

    def value(like: Value) -> Value:
        nonlocal fresh
        fresh += 1
        return Value(fresh - 1, like.shape, like.dtype)

    for index, node in enumerate(graph.nodes):
        if index in found.late:
            node = replace(node, inputs=tuple(done.get(v.id, v) for v in node.inputs))
        nodes.append(node)
        for out in node.outputs:
            if out.id in found.cuts:
                scale = float(parts) ** -found.cuts[out.id]
                if scale not in rates:
                    rates[scale] = value(Value(0, (1,)))
                before, after, end = value(out), value(out), value(out)
                nodes.append(Node("sgd", (before, out, rates[scale]), (after,), _ADD, node.where,
                                  node.layer, "backward"))
                cleared.append(Node("clear", (after,), (end,), phase="optimizer"))
                states.append(State(names[out.id], ACCUMULATOR, before, end))
                done[out.id] = after
    fills = [Node("fill", (), (v,), {"shape": (1,), "number": scale})
             for scale, v in rates.items()]
    kept = tuple(replace(s, after=done.get(s.after.id, s.after)) for s in graph.states)
    return replace(graph, nodes=(*fills, *nodes, *cleared), states=(*kept, *states))


# sum += scale * gradient is a step of SGD upward: products do it as part of their own launch.
_ADD = {"momentum": 0.0, "decay": 0.0, "maximize": True, "nesterov": False}


def _names(graph: Graph, found: Findings) -> dict[int, str]:
    """A name for each sum, after the parameter whose gradient it becomes."""
    weights = {s.before.id: s.name for s in graph.states}
    source = {cut: cut for cut in found.cuts}
    names: dict[int, str] = {}
    for index in sorted(found.late):
        node = graph.nodes[index]
        if node.op in _UPDATES and node.inputs[_GRADIENT].id in source:
            cut, weight = source[node.inputs[_GRADIENT].id], weights.get(node.inputs[0].id)
            names.setdefault(cut, f"gradient.{weight}" if weight else f"sum{cut}")
        else:
            for out in node.outputs:
                same = [source[v.id] for v in node.inputs
                        if v.id in source and v.shape == out.shape]
                if same:
                    source[out.id] = same[0]
    return {cut: names.get(cut, f"sum{cut}") for cut in found.cuts}
