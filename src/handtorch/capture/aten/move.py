"""Views and constants."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from handtorch.capture.builder import Builder, aten
from handtorch.graph.node import Value

KEEP: tuple[str, ...] = ("t",)


@aten("t.default")
def _t(b: Builder, x: Value) -> Value:
    return b.one("transpose", (x,), order=(1, 0)) if len(x.shape) == 2 else x


@aten("permute.default")
def _permute(b: Builder, x: Value, order: Sequence[int]) -> Value:
    return b.one("transpose", (x,), order=tuple(d % len(x.shape) for d in order))


@aten("view.default", "reshape.default", "_unsafe_view.default")
def _view(b: Builder, x: Value, shape: Sequence[int]) -> Value:
    known = prod(d for d in shape if d != -1)
    return b.one("reshape", (x,), shape=tuple(x.size // known if d == -1 else d for d in shape))


@aten("full_like.default")
def _full_like(b: Builder, x: Value, number: float, *, dtype: Any = None, **_: Any) -> Value:
    kind = x.dtype if dtype is None else b.dtype(dtype)
    return b.one("fill", (), shape=x.shape, number=float(number), dtype=kind)


@aten("full.default")
def _full(b: Builder, shape: Sequence[int], number: float, *, dtype: Any = None, **_: Any
          ) -> Value:
    kind = b.number_type(number) if dtype is None else b.dtype(dtype)
    return b.one("fill", (), shape=tuple(shape), number=float(number), dtype=kind)


@aten("scalar_tensor.default")
def _scalar_tensor(b: Builder, number: float, *, dtype: Any = None, **_: Any) -> Value:
    kind = b.number_type(number) if dtype is None else b.dtype(dtype)
    return b.constant(number, kind)
