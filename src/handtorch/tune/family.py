"""Family: what tuning must know of one kind of problem. All else is the same for all of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Generic, TypeVar

from handtorch.graph.device_spec import DeviceSpec
from handtorch.graph.node import Node, Shape, Value
from handtorch.kernels.gemm_tiles import Tile
from handtorch.kernels.variant import Problem, Variant

P = TypeVar("P", bound=Problem)
PLAIN = "plain"                   # the work that is timed
EPILOGUE = "epilogue"             # the same with bias, ReLU and, for products, a mask
UPDATE = "update"                 # as a gradient that updates its weight


class Family(ABC, Generic[P]):
    """The lowering of a problem is that of its node (`lower/`), its right answer that of the
    reference (`runtime/ref`) in float64."""

    @abstractmethod
    def usual(self) -> tuple[P, ...]:
        """What is worth tuning if nobody says what they need."""

    @abstractmethod
    def node(self, problem: P, work: str) -> Node:
        """The problem as a node of a graph, alone or with more to do."""

    def works(self, variant: Variant) -> tuple[str, ...]:
        """All that a variant must be right in before it is chosen: `PLAIN` first."""
        return (PLAIN,)

    @abstractmethod
    def from_table(self, form: str, problem: P, spec: DeviceSpec) -> Iterable[Variant]:
        """Good ones of this form, the best first, some of which may not fit."""

    @abstractmethod
    def space(self, form: str) -> Mapping[str, Sequence[int]]:
        """The values worth trying of each macro but the work-group's, in order."""

    def groups(self, form: str, spec: DeviceSpec) -> Sequence[tuple[int, int]]:
        """Work-groups worth trying; none if the form's are always of one item."""
        return ()

    @abstractmethod
    def outputs(self, problem: P) -> tuple[int, int]:
        """Rows and columns that items share among them."""

    @abstractmethod
    def smallest(self, problem: P, variant: Variant) -> P:
        """A problem that the variant computes in next to no time, or the problem itself."""


def make_node(op: str, given: Sequence[Shape], made: Sequence[Shape], **attrs: object) -> Node:
    """Values are numbered: what is given first."""
    values = [Value(i, tuple(shape)) for i, shape in enumerate((*given, *made))]
    return Node(op, tuple(values[:len(given)]), tuple(values[len(given):]),
                attrs)  # type: ignore[arg-type]  # each family gives what its op knows


def cheapest(tiles: Sequence[Tile], rows: int, columns: int, spec: DeviceSpec, depth: int
             ) -> list[dict[str, int]]:
    """The macros of the table's tiles, the cheapest for this shape first."""
    ordered = sorted(tiles, key=lambda t: t.cost(rows, columns, spec.compute_units, depth))
    return [dict(t.defines) for t in ordered]
