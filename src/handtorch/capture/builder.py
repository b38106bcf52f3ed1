"""Builder and registry: how an ATen op becomes nodes of ours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from inspect import signature

from torch.fx import Node as FxNode

from handtorch.capture.lines import Origin
from handtorch.errors import UnsupportedOp
from handtorch.graph.node import Attr, Node, Shape, Value
from handtorch.graph.opset import output_types

# A converted op: one value, or several with None for outputs nobody here has a use for.
Result = Value | tuple[Value | None, ...]


@dataclass
class Builder:
    """Collects nodes while the fx graph is walked."""

    nodes: list[Node] = field(default_factory=list)
    env: dict[FxNode, Result] = field(default_factory=dict)
    count: int = 0
    origin: Origin = field(default_factory=lambda: Origin(None, "", "forward"))

    def value(self, shape: Shape, dtype: str) -> Value:
        self.count += 1
        return Value(self.count - 1, tuple(shape), dtype)

    def emit(self, op: str, inputs: Sequence[Value], **attrs: Attr) -> tuple[Value, ...]:
        draft = Node(op, tuple(inputs), (), attrs)
        outs = tuple(self.value(shape, kind) for shape, kind in output_types(draft))
        o = self.origin
        self.nodes.append(Node(op, tuple(inputs), outs, attrs, o.where, o.layer, o.phase))
        return outs

    def one(self, op: str, inputs: Sequence[Value], **attrs: Attr) -> Value:
        (out,) = self.emit(op, inputs, **attrs)
        return out

    def refuse(self, what: str, why: str = "", fix: str = "") -> UnsupportedOp:
        return UnsupportedOp(what, why=why, where=str(self.origin.where or ""), fix=fix)


Converter = Callable[..., Result]
CONVERTERS: dict[str, Converter] = {}


def aten(*names: str) -> Callable[[Converter], Converter]:
    """Registers for these overloads; a function for several is told which by `op`."""
    def register(fn: Converter) -> Converter:
        for name in names:
            op = name.partition(".")[0].removeprefix("_")
            CONVERTERS[name] = partial(fn, op=op) if "op" in signature(fn).parameters else fn
        return fn
    return register
