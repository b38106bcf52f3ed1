"""A step for one row more or less: from captures for two numbers of rows that of a third.

For a batch of one row torch takes shortcuts (nothing to stretch, nothing to add up), so its capture
could not be set against another; what grows with the rows is known without it."""

from __future__ import annotations

from dataclasses import replace
from math import isclose

from handtorch.graph.node import Attr, Graph, Node, Shape, Value


def scaled(large: Graph, small: Graph, rows: int, few: int, wanted: int) -> Graph:
    """`small` for `wanted` rows. `compare` has found that the two are one step, so that every size
    is so many times the number of rows, and every number so many times it or a part of it."""
    size = _Size(rows, few, wanted)

    def value(a: Value, b: Value) -> Value:
        return replace(b, shape=size.shape(a.shape, b.shape))

    def node(a: Node, b: Node) -> Node:
        return replace(b, inputs=tuple(map(value, a.inputs, b.inputs)),
                       outputs=tuple(map(value, a.outputs, b.outputs)),
                       attrs={k: size.attr(a.attrs[k], v) for k, v in b.attrs.items()})

    inputs = tuple(replace(b, value=value(a.value, b.value))
                   for a, b in zip(large.inputs, small.inputs, strict=True))
    outputs = tuple(replace(b, value=value(a.value, b.value))
                    for a, b in zip(large.outputs, small.outputs, strict=True))
    return replace(small, nodes=tuple(map(node, large.nodes, small.nodes)), inputs=inputs,
                   outputs=outputs)


class _Size:
    """What is `a` for `rows` rows and `b` for `few` of them, for `wanted`."""

    def __init__(self, rows: int, few: int, wanted: int) -> None:
        self._rows, self._few, self._wanted = rows, few, wanted

    def shape(self, a: Shape, b: Shape) -> Shape:
        return tuple(self._whole(x, y) for x, y in zip(a, b, strict=True))

    def _whole(self, a: int, b: int) -> int:
        if a == b:
            return b
        assert a * self._few == b * self._rows and b % self._few == 0, (a, b)
        return b // self._few * self._wanted

    def attr(self, a: Attr, b: Attr) -> Attr:
        if a == b:
            return b
        if isinstance(a, tuple) and isinstance(b, tuple):
            return tuple(self.attr(x, y) for x, y in zip(a, b, strict=True))
        if isinstance(a, int) and isinstance(b, int):
            return self._whole(a, b)
        assert isinstance(a, float) and isinstance(b, float), (a, b)
        for power in (-2, -1, 1, 2):
            if isclose(b, a * (self._few / self._rows) ** power, rel_tol=1e-9):
                return b * (self._wanted / self._few) ** power
        raise AssertionError((a, b))
