"""Kernel: what a `.cl` file computes, needs and how it is launched; the one home of geometry.

A kernel's arguments are always: for each operand a pointer and a `uint` element offset, then the
scalars. So every tensor may lie anywhere in an arena, or in a buffer of its own when checked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from handtorch.graph.node import Value
from handtorch.graph.step import Define, Operand, Scalar, Step

Defines = Mapping[str, int | str]
Sizes = Mapping[str, int | float]
Geometry = tuple[tuple[int, ...], tuple[int, ...]]   # global size, local size


def no_local_memory(_: Defines) -> int:
    return 0


@dataclass(frozen=True)
class Kernel:
    """The specification of one kernel.

    `name` is its function and, unless `text` generates the source, its file `name.cl`.
    `access` has one of "r", "w", "rw" per operand; `scalars` maps each scalar to its C type.
    `defaults` gives every macro a legal value (the file repeats them, so that it compiles alone).
    `space` lists the values worth trying when tuning.
    """

    name: str
    access: tuple[str, ...]
    geometry: Callable[[Defines, Sizes], Geometry]
    scalars: Mapping[str, str] = field(default_factory=dict)
    defaults: Defines = field(default_factory=dict)
    space: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    local_bytes: Callable[[Defines], int] = no_local_memory
    text: Callable[[Defines], str] | None = None

    def step(self, values: Sequence[Value], sizes: Sizes | None = None,
             defines: Defines | None = None, *, node: int = 0, flops: int = 0,
             access: Sequence[str] | None = None) -> Step:
        """The launch of this kernel on `values`; bytes are each operand once per access."""
        sizes = dict(sizes or {})
        macros: dict[str, int | str] = {**self.defaults, **(defines or {})}
        modes = tuple(access or self.access)
        assert len(values) == len(modes), f"{self.name}: {len(values)} operands"
        assert sizes.keys() >= self.scalars.keys(), f"{self.name}: needs {list(self.scalars)}"
        operands = tuple(Operand(v, a) for v, a in zip(values, modes, strict=True))
        global_size, local_size = self.geometry(macros, sizes)
        scalars: tuple[Scalar, ...] = tuple((kind, sizes[n]) for n, kind in self.scalars.items())
        pairs: tuple[Define, ...] = tuple(sorted(macros.items()))
        moved = sum(o.value.nbytes * len(o.access) for o in operands)
        return Step(self.name, operands, global_size, local_size, pairs, scalars, node=node,
                    flops=flops, bytes=moved)


def ceil_div(a: int, b: int) -> int:
    return -(-a // b)


def round_up(n: int, multiple: int) -> int:
    return ceil_div(n, multiple) * multiple


def dividing_width(n: int) -> int:
    """The widest vector that divides `n`."""
    return next(v for v in (16, 8, 4, 2, 1) if n % v == 0)


def number(defines: Defines, name: str) -> int:
    """A macro that must be a whole number."""
    found = defines[name]
    assert isinstance(found, int), f"{name} = {found!r}"
    return found
