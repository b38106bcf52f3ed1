"""Launch geometries and one-kernel cases that several families share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from handtorch.graph.node import Value
from handtorch.kernels.case import Array, Case
from handtorch.kernels.spec import (
    Defines,
    Geometry,
    Kernel,
    Sizes,
    ceil_div,
    dividing_width,
    number,
)

KIND_OF = {"f32": 0, "i32": 1, "bool": 2}             # the macro KIND of typed kernels
_DTYPES = {"int32": "i32", "float32": "f32", "bool": "bool"}
MANY = 64                      # work-groups that keep every core or compute unit busy


def grouped(count: str) -> Callable[[Defines, Sizes], Geometry]:
    """One item per `count`, in groups of GROUP."""
    def geometry(defines: Defines, sizes: Sizes) -> Geometry:
        group = number(defines, "GROUP")
        return (ceil_div(max(int(sizes[count]), 1), group) * group,), (group,)
    return geometry


def one_each(*counts: str) -> Callable[[Defines, Sizes], Geometry]:
    """One item per combination of the counts, each a group of its own."""
    return lambda _, sizes: (tuple(int(sizes[c]) for c in counts), (1,) * len(counts))


def one_item(_: Defines, __: Sizes) -> Geometry:
    return (1,), (1,)


def axis_geometry(defines: Defines, sizes: Sizes) -> Geometry:
    """For kernels over [OUTER][REDUCE][INNER]: V columns an item, PIECES on the second axis."""
    group, pieces = number(defines, "GROUP"), int(sizes.get("PIECES", 1))
    across = int(sizes["INNER"]) // int(defines.get("V", 1))
    if number(defines, "FLAT"):
        items = across * int(sizes["OUTER"])
        return (ceil_div(items, group) * group, pieces, 1), (group, 1, 1)
    return (ceil_div(across, group) * group, pieces, int(sizes["OUTER"])), (group, 1, 1)


def axis_defines(outer: int, inner: int, *, vectors: bool = True) -> dict[str, int]:
    """V (only where the kernel has it), FLAT and GROUP for `axis_geometry`."""
    width = dividing_width(inner) if vectors else 1
    across = inner // width
    flat = int(across < 16)
    group = 16 if (across * outer if flat else across) >= 16 * (1 if width == 1 else 32) else 1
    return {**({"V": width} if vectors else {}), "FLAT": flat, "GROUP": group}


def one_case(name: str, kernel: Kernel, given: Sequence[Array], sizes: Sizes,
             expected: Mapping[int, Array], **defines: int) -> Case:
    """One launch; operands in the kernel's order, those written say only their shape."""
    values = [Value(i, a.shape, _DTYPES[a.dtype.name]) for i, a in enumerate(given)]
    access = None
    if len(values) != len(kernel.access):            # a form with fewer or more operands
        access = ["w" if i in expected else "r" for i in range(len(values))]
    step = kernel.step(values, sizes, defines, access=access)
    return Case(name, (step,), dict(enumerate(given)), expected)
