"""Builder and registry: how an ATen op becomes nodes of ours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from inspect import signature
from typing import Any, TypeVar

import torch
from torch.fx import Node as FxNode

from handtorch.capture.lines import Origin
from handtorch.errors import UnsupportedOp
from handtorch.graph.node import Attr, Node, Shape, State, Value
from handtorch.graph.ops.random import RNG_SHAPE
from handtorch.graph.opset import output_types

DTYPES = {torch.float32: "f32", torch.int32: "i32", torch.int64: "i32", torch.bool: "bool"}

# The kernels of these take it for granted that there is something to add up.
_OF_SOMETHING = ("matmul", "bmm", "nll_loss", "nll_loss_grad")

# A converted op: one value, or several with None for outputs nobody here has a use for.
Result = Value | tuple[Value | None, ...]


@dataclass
class Builder:
    """Collects nodes while the fx graph is walked."""

    nodes: list[Node] = field(default_factory=list)
    env: dict[FxNode, Result] = field(default_factory=dict)
    count: int = 0
    origin: Origin = field(default_factory=lambda: Origin(None, "", "forward"))
    rng: Value | None = None
    streams: int = 0

    def value(self, shape: Shape, dtype: str) -> Value:
        self.count += 1
        return Value(self.count - 1, tuple(shape), dtype)

    def emit(self, op: str, inputs: Sequence[Value], **attrs: Attr) -> tuple[Value, ...]:
        draft = Node(op, tuple(inputs), (), attrs)
        outs = tuple(self.value(shape, kind) for shape, kind in output_types(draft))
        empty = next((v for v in inputs if not v.size), None)
        if op in _OF_SOMETHING and empty is not None and any(v.size for v in outs):
            raise self.refuse(f"{op} of a tensor of shape {list(empty.shape)}", "it is empty",
                              "slices and layers without sides of 0")
        o = self.origin
        self.nodes.append(Node(op, tuple(inputs), outs, attrs, o.where, o.layer, o.phase))
        return outs

    def one(self, op: str, inputs: Sequence[Value], **attrs: Attr) -> Value:
        (out,) = self.emit(op, inputs, **attrs)
        return out

    def constant(self, number: float, dtype: str) -> Value:
        """A number as a value of no dimensions; regions take it in as a literal."""
        if dtype == "i32" and not -2**31 <= number < 2**31:
            raise self.refuse(f"the number {number} in a tensor of integers",
                              "the device has 32 bits for them", "a smaller number, or float32")
        return self.one("fill", (), shape=(), number=float(number), dtype=dtype)

    def random(self, op: str, **attrs: Attr) -> Value:
        """A node of random numbers; each has a stream of its own, all read one state."""
        if self.rng is None:
            self.rng = self.value(RNG_SHAPE, "u32")
        self.streams += 1
        return self.one(op, (self.rng,), stream=self.streams - 1, **attrs)

    def number_type(self, number: Any) -> str:
        """The type PyTorch gives a plain number."""
        if isinstance(number, bool):
            return "bool"
        return "i32" if isinstance(number, int) else "f32"

    def cast(self, x: Value, dtype: str) -> Value:
        if x.dtype == dtype:
            return x
        op = "to_bool" if dtype == "bool" else f"to_{dtype}"
        return self.one(f"bool_{op}" if x.dtype == "bool" else op, (x,))

    def same_type(self, x: Any, y: Any) -> tuple[Value, Value]:
        """Both as values of one type: a number takes the other's, int meets float in float."""
        kinds = [v.dtype for v in (x, y) if isinstance(v, Value)]
        number = next((v for v in (x, y) if not isinstance(v, Value)), None)
        target = max(kinds, key=("bool", "i32", "u32", "f32").index)
        if isinstance(number, float) or (target == "bool" and number is not None):
            target = "f32" if isinstance(number, float) else "i32"
        left, right = (self.cast(v, target) if isinstance(v, Value) else self.constant(v, target)
                       for v in (x, y))
        return left, right

    def dtype(self, kind: Any) -> str:
        """Our name for a torch dtype; refuses what has none."""
        if kind not in DTYPES:
            raise self.refuse(f"a tensor of {str(kind).removeprefix('torch.')}",
                              "HandTorch computes in float32 and int32",
                              "model.float() and inputs.float()")
        return DTYPES[kind]

    def refuse(self, what: str, why: str = "", fix: str = "") -> UnsupportedOp:
        return UnsupportedOp(what, why=why, where=str(self.origin.where or ""), fix=fix)


def random_states(b: Builder) -> list[State]:
    """The state of the random numbers, moved on once a step; none if there are none."""
    if b.rng is None:
        return []
    b.origin = Origin(None, "", "optimizer")
    return [State("rng", "rng", b.rng, b.one("rng_next", (b.rng,)))]


Converter = Callable[..., Result]
C = TypeVar("C", bound=Converter)
CONVERTERS: dict[str, Converter] = {}


def aten(*names: str) -> Callable[[C], C]:
    """Registers for these overloads; a function for several is told which by `op`."""
    def register(fn: C) -> C:
        for name in names:
            op = name.partition(".")[0].removeprefix("_")
            CONVERTERS[name] = partial(fn, op=op) if "op" in signature(fn).parameters else fn
        return fn
    return register
