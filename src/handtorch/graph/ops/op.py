"""What the op set says of an op, and the shape rules families share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from handtorch.graph.node import Node, Shape

Types = tuple[tuple[Shape, str], ...]


@dataclass(frozen=True)
class Op:
    """`result` gives (shape, dtype) of each output, `flops` the arithmetic of one run.

    `in_place` pairs (output, input): on the device that output takes that input's place."""

    name: str
    result: Callable[[Node], Types]
    flops: Callable[[Node], int]
    pointwise: bool = False
    in_place: tuple[tuple[int, int], ...] = ()


def broadcast(shapes: list[Shape]) -> Shape:
    """NumPy's rule: align at the right, 1 stretches."""
    rank = max(map(len, shapes))
    padded = [(1,) * (rank - len(s)) + s for s in shapes]
    out = tuple(max(dims) if 0 not in dims else 0 for dims in zip(*padded, strict=True))
    for shape in padded:
        assert all(d in (1, o) for d, o in zip(shape, out, strict=True)), f"{shapes} do not match"
    return out


def like(index: int) -> Callable[[Node], Types]:
    """The only output has the shape and type of that input."""
    return lambda n: ((n.inputs[index].shape, n.inputs[index].dtype),)


def shape_attr(node: Node) -> Types:
    """The only output is f32 of the attribute `shape`."""
    return ((node.numbers("shape"), "f32"),)


def per_element(times: int, index: int = 0) -> Callable[[Node], int]:
    """`times` operations for each element of that input."""
    return lambda n: times * n.inputs[index].size


def no_flops(_: Node) -> int:
    return 0
