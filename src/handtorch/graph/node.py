"""Value, Node and Graph: what a captured step is, before any device is known.

A Graph is functional: every Value is written once. State that lasts from step to step (weights,
momenta, learning rates, running statistics) appears as a pair `before`, `after`; the plan gives
both the same place, so that on the device an update happens in place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from types import MappingProxyType

from handtorch.dtypes import dtype

Attr = int | float | str | bool | tuple["Attr", ...]
Shape = tuple[int, ...]

# An accumulator is zero between steps: what micro-batches add up in it, the update clears.
ROLES = ("parameter", "buffer", "optimizer", "hyper", "rng", "constant", "accumulator")
PHASES = ("forward", "backward", "recompute", "optimizer")


@dataclass(frozen=True)
class Value:
    """One tensor, contiguous in row-major order, written exactly once."""

    id: int
    shape: Shape
    dtype: str = "f32"

    @cached_property                      # asked for in every call, where microseconds count
    def size(self) -> int:
        return prod(self.shape)

    @cached_property
    def nbytes(self) -> int:
        return self.size * dtype(self.dtype).size_bytes

    def __str__(self) -> str:
        return f"%{self.id} {self.dtype}[{','.join(map(str, self.shape))}]"


@dataclass(frozen=True)
class Where:
    """The user's own source line that a node comes from."""

    file: str
    line: int
    text: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}  {self.text}".rstrip()


@dataclass(frozen=True)
class Node:
    """One operation of the closed op set (`opset.OPS`)."""

    op: str
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    attrs: Mapping[str, Attr] = field(default_factory=dict)
    where: Where | None = None
    layer: str = ""
    phase: str = "forward"

    def __post_init__(self) -> None:
        object.__setattr__(self, "attrs", MappingProxyType(dict(sorted(self.attrs.items()))))

    def __reduce__(self) -> tuple[type[Node], tuple[object, ...]]:
        """A mapping that is only a view cannot cross to another process; what it shows can."""
        return Node, (self.op, self.inputs, self.outputs, dict(self.attrs), self.where, self.layer,
                      self.phase)

    def flag(self, name: str) -> bool:
        return bool(self.attrs.get(name, False))

    def number(self, name: str, default: float | None = None) -> float:
        found = self.attrs.get(name, default)
        assert isinstance(found, int | float), f"{self.op} has no number {name!r}"
        return float(found)

    def numbers(self, name: str) -> tuple[int, ...]:
        found = self.attrs.get(name, ())
        assert isinstance(found, tuple)
        assert all(isinstance(n, int) for n in found)
        return tuple(n for n in found if isinstance(n, int))

    def words(self, name: str) -> tuple[str, ...]:
        found = self.attrs.get(name, ())
        assert isinstance(found, tuple)
        return tuple(str(w) for w in found)


@dataclass(frozen=True)
class Port:
    """A named value at the edge of the graph: a batch input or a result."""

    name: str
    value: Value


@dataclass(frozen=True)
class State:
    """A tensor that stays on the device between steps.

    `order` are the axes of torch's tensor in the order in which the device holds them, which is
    how `before` and `after` have them; () as they are."""

    name: str
    role: str
    before: Value
    after: Value
    order: tuple[int, ...] = ()

    @property
    def changes(self) -> bool:
        return self.before.id != self.after.id


@dataclass(frozen=True)
class Graph:
    """Nodes in an order that respects their data; edges are the Values themselves."""

    nodes: tuple[Node, ...]
    inputs: tuple[Port, ...]
    states: tuple[State, ...]
    outputs: tuple[Port, ...]

    def values(self) -> Iterator[Value]:
        """Every value once, in order of first appearance."""
        seen: set[int] = set()
        edge = [p.value for p in self.inputs] + [s.before for s in self.states]
        for value in edge + [v for n in self.nodes for v in (*n.inputs, *n.outputs)]:
            if value.id not in seen:
                seen.add(value.id)
                yield value

    def next_id(self) -> int:
        return 1 + max((v.id for v in self.values()), default=-1)

    def results(self) -> tuple[Value, ...]:
        """What must exist when the step ends: outputs and new states."""
        return (*(p.value for p in self.outputs), *(s.after for s in self.states))
