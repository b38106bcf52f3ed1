"""The traced step in our op set. What has no converter is refused by name."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Node as FxNode

from handtorch.capture.builder import CONVERTERS, DTYPES, Builder, Result, random_states
from handtorch.capture.trace import Traced
from handtorch.errors import CannotCapture
from handtorch.graph.node import Graph, Port, State, Value


def to_graph(traced: Traced, names: Sequence[str]) -> Graph:
    """The traced step in our op set; `names` are the batch inputs' names."""
    b, constants = Builder(), list[State]()
    places = [n for n in traced.graph.graph.nodes if n.op == "placeholder"]
    for place in places:
        b.env[place] = b.value(place.meta["val"].shape, _dtype(place))
    for node in traced.graph.graph.nodes:
        if node.op == "get_attr":
            b.env[node] = _constant(b, traced, node, constants)
        elif node.op == "call_function":
            b.origin = node.meta.get("origin", b.origin)
            b.env[node] = _convert(b, node)
    (output,) = [n for n in traced.graph.graph.nodes if n.op == "output"]
    results, values, moments = output.args[0]
    read = {v.id for n in b.nodes for v in n.inputs}
    states = [s for s in _states(b, traced, places, values, moments)
              if s.role != "optimizer" or s.changes or s.before.id in read]
    _refuse_leftovers(b, traced, places[len(places) - len(names) - len(traced.gradients):])
    states += [*constants, *random_states(b)]
    ports = tuple(Port(name, _single(b, n))
                  for name, n in zip(traced.outputs.names, results, strict=True))
    _refuse_empty(b, ports)
    return Graph(tuple(b.nodes), _inputs(b, places, names), tuple(states), ports)


def _constant(b: Builder, traced: Traced, node: FxNode, states: list[State]) -> Value:
    """A tensor made from Python numbers in the step: one number is a fill, more are a state."""
    tensor = getattr(traced.graph, str(node.target))
    kind = b.dtype(tensor.dtype)
    if tensor.numel() == 1:
        return b.one("fill", (), shape=tuple(tensor.shape), number=float(tensor), dtype=kind)
    value = b.value(tensor.shape, kind)
    states.append(State(str(node.target), "constant", value, value))
    return value


def _inputs(b: Builder, places: Sequence[FxNode], names: Sequence[str]) -> tuple[Port, ...]:
    batch = places[len(places) - len(names):]
    return tuple(Port(n, _single(b, p)) for n, p in zip(names, batch, strict=True))


def _states(b: Builder, traced: Traced, places: Sequence[FxNode], values: Sequence[FxNode],
            moments: Sequence[FxNode]) -> list[State]:
    kinds = [(s.name, s.role) for s in traced.slots]
    kinds += [(m.name, "optimizer") for m in traced.moments]
    kinds += [(r, "hyper") for r in traced.rates]
    rates = places[len(values) + len(moments):len(kinds)]
    after = [*values, *moments, *rates]
    return [State(name, role, _single(b, before), _single(b, new))
            for (name, role), before, new in
            zip(kinds, places[:len(kinds)], after, strict=True)]


def _refuse_leftovers(b: Builder, traced: Traced, places: Sequence[FxNode]) -> None:
    """A gradient of an earlier call may be cleared or overwritten, but not read."""
    stale = {_single(b, p).id: name
             for name, p in zip(traced.gradients, places, strict=False)}
    for node in b.nodes:
        if name := next((stale[v.id] for v in node.inputs if v.id in stale), None):
            raise CannotCapture(f"the gradient of {name} from an earlier call",
                                why="the step adds to it before it is cleared",
                                where=str(node.where or ""),
                                fix="optimizer.zero_grad() in the step, before backward()")


def _refuse_empty(b: Builder, ports: Sequence[Port]) -> None:
    for port in ports:
        if not port.value.size:
            made = next((n for n in b.nodes if port.value in n.outputs), None)
            raise CannotCapture(f"{port.name} is empty, of shape {list(port.value.shape)}",
                                why="there is nothing to compute and to hand back",
                                where=str(made.where if made and made.where else ""),
                                fix="slices and layers without sides of 0")


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
        if any(isinstance(d, torch.SymInt) for d in getattr(node.meta.get("val"), "shape", ())):
            raise b.refuse(f"aten.{name.partition('.')[0]}", "the size of its result depends on "
                           "data, and the device's memory is planned before",
                           "all elements and a mask: torch.where(mask, x, other)")
        raise b.refuse(f"aten.{name.partition('.')[0]}",
                       "HandTorch has no such operation and never runs one elsewhere in secret",
                       "another formulation; docs/how-to/add-an-op.md says how to add one")

    def known(x: Any) -> Any:
        return b.env[x] if isinstance(x, FxNode) else x
    args = [[known(y) for y in x] if isinstance(x, list | tuple) else known(x) for x in node.args]
    return CONVERTERS[name](b, *args, **{k: known(v) for k, v in node.kwargs.items()})
