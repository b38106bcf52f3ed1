"""The traced step in our op set. What has no converter is refused by name."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from torch.fx import Node as FxNode

from handtorch.capture.builder import CONVERTERS, DTYPES, Builder, Result
from handtorch.capture.trace import Traced
from handtorch.errors import CannotCapture
from handtorch.graph.node import Graph, Port, State, Value


def to_graph(traced: Traced, names: Sequence[str]) -> Graph:
    """The traced step in our op set; `names` are the batch inputs' names."""
    b = Builder()
    places = [n for n in traced.graph.graph.nodes if n.op == "placeholder"]
    for place in places:
        b.env[place] = b.value(place.meta["val"].shape, _dtype(place))
    for node in traced.graph.graph.nodes:
        if node.op == "call_function":
            b.origin = node.meta.get("origin", b.origin)
            b.env[node] = _convert(b, node)
    (output,) = [n for n in traced.graph.graph.nodes if n.op == "output"]
    results, values, moments = output.args[0]
    return Graph(tuple(b.nodes), _inputs(b, places, names), _states(b, traced, places, values,
                                                                   moments),
                 tuple(Port(f"out{i}" if i else "loss", _single(b, n))
                       for i, n in enumerate(results)))


def _inputs(b: Builder, places: Sequence[FxNode], names: Sequence[str]) -> tuple[Port, ...]:
    batch = places[len(places) - len(names):]
    return tuple(Port(n, _single(b, p)) for n, p in zip(names, batch, strict=True))


def _states(b: Builder, traced: Traced, places: Sequence[FxNode], values: Sequence[FxNode],
            moments: Sequence[FxNode]) -> tuple[State, ...]:
    kinds = [(s.name, s.role) for s in traced.slots]
    kinds += [(m.name, "optimizer") for m in traced.moments]
    kinds += [(r, "hyper") for r in traced.rates]
    rates = places[len(values) + len(moments):len(kinds)]
    after = [*values, *moments, *rates]
    return tuple(State(name, role, _single(b, before), _single(b, new))
                 for (name, role), before, new in
                 zip(kinds, places[:len(kinds)], after, strict=True))


def _single(b: Builder, node: FxNode) -> Value:
    found = b.env[node]
    assert isinstance(found, Value), node
    return found


def _dtype(node: FxNode) -> str:
    kind = node.meta["val"].dtype
    if kind not in DTYPES:
        raise CannotCapture(f"a tensor of {str(kind).removeprefix('torch.')}",
                            why="HandTorch computes in float32 and int32",
                            fix="model.float() and inputs.float()")
    return DTYPES[kind]


def _convert(b: Builder, node: FxNode) -> Result:
    target = node.target
    if target is operator.getitem:
        whole = b.env[node.args[0]]  # type: ignore[index]
        assert isinstance(whole, tuple)
        part = whole[node.args[1]]  # type: ignore[index]
        return part if part is not None else ()
    name = str(target).partition(".")[2]
    if str(target).startswith("profiler."):
        return ()
    if name not in CONVERTERS:
        raise b.refuse(f"aten.{name.partition('.')[0]}",
                       "HandTorch has no such operation and never runs one elsewhere in secret",
                       "another formulation; the op set is in graph/opset.py")

    def known(x: Any) -> Any:
        return b.env[x] if isinstance(x, FxNode) else x
    args = [[known(y) for y in x] if isinstance(x, list | tuple) else known(x) for x in node.args]
    return CONVERTERS[name](b, *args, **{k: known(v) for k, v in node.kwargs.items()})
