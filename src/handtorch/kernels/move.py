"""Moving data: one strided copy serves transposes, slices, padding, joins; and constants."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from handtorch.dtypes import dtype
from handtorch.graph.device_spec import GENERIC, DeviceSpec
from handtorch.graph.node import Shape, Value
from handtorch.graph.step import Step
from handtorch.kernels.case import Array, Case
from handtorch.kernels.geometry import MANY
from handtorch.kernels.spec import Defines, Geometry, Kernel, Sizes, ceil_div, number

MOST_AXES = 6
SMALL_GROUP, LARGE_GROUP = 16, 256
MANY_ITEMS = 32 * LARGE_GROUP           # fewer items share the work better in small groups
RUNS = 4 * MANY                         # items of whole rows, on a CPU
LONGEST_ROW = 16384                     # elements; longer ones are shared out


@dataclass(frozen=True)
class Axis:
    """How far one axis goes and how many elements a step along it is, on both sides."""

    count: int
    x: int
    y: int


def strides_of(shape: Shape) -> tuple[int, ...]:
    """Of a row-major tensor, in elements."""
    return tuple(prod(shape[i + 1:]) for i in range(len(shape)))


def collapsed(axes: Sequence[Axis]) -> list[Axis]:
    """Axes of one element are gone, neighbours that both sides step through alike are one."""
    found: list[Axis] = []
    for axis in axes:
        if axis.count == 1:
            continue
        last = found[-1] if found else None
        if last and (last.x, last.y) == (axis.x * axis.count, axis.y * axis.count):
            found[-1] = Axis(last.count * axis.count, axis.x, axis.y)
        else:
            found.append(axis)
    return found


def _items(defines: Defines, sizes: Sizes) -> Geometry:
    group = number(defines, "GROUP")
    return (ceil_div(int(sizes["ITEMS"]), group) * group,), (group,)


_MOVE_SCALARS = {
    "FROM": "uint", "TO": "uint", "ITEMS": "uint", "C0": "uint", "C1": "uint",
    **{f"D{i}": "uint" for i in range(MOST_AXES - 1)},
    **{f"{side}{i}": "int" for side in "XY" for i in range(MOST_AXES)}}
MOVE = Kernel("move", ("r", "w"), _items, _MOVE_SCALARS,
              {"BYTES": 4, "AXES": MOST_AXES, "V": 4, "T": 1, "FORM": 1,
               "GROUP": SMALL_GROUP})
FILL = Kernel("fill", ("w",), _items, {"COUNT": "uint", "BITS": "uint"},
              {"BYTES": 4, "GROUP": SMALL_GROUP})
ARANGE = Kernel("arange", ("w",), _items, {"COUNT": "int", "START": "int", "STEP": "int"},
                {"GROUP": SMALL_GROUP})
KERNELS = (MOVE, FILL, ARANGE)


def _group(items: int) -> int:
    return LARGE_GROUP if items >= MANY_ITEMS else SMALL_GROUP


def move_step(x: Value, y: Value, axes: Sequence[Axis], *, x_from: int = 0, y_from: int = 0,
              node: int = 0, spec: DeviceSpec = GENERIC) -> Step:
    """One launch that copies the elements `axes` name, from element `x_from` to `y_from`.

    `axes` are in the order of y, the last one the densest; at most MOST_AXES after `collapsed`."""
    order = _inner_first(collapsed(axes))
    assert len(order) <= MOST_AXES, f"{x} to {y}: {order}"
    used = len(order) if len(order) <= 3 else MOST_AXES     # few distinct kernels to compile
    form, width, rows = _form(order)
    order += [Axis(1, 0, 0)] * (MOST_AXES - len(order))
    c0, c1 = ceil_div(order[0].count, width), ceil_div(order[1].count, rows)
    others = prod(a.count for a in order[2:])
    if spec.kind == "cpu" and form == 1 and used > 1 and order[0].count <= LONGEST_ROW and \
            c0 * c1 * others >= MANY_ITEMS:
        form, c0, c1 = 3, 1, min(c1, ceil_div(RUNS, others))
    items = c0 * c1 * others
    sizes = {"FROM": x_from, "TO": y_from, "ITEMS": items, "C0": c0, "C1": c1,
             **{f"D{i}": a.count for i, a in enumerate(order[:-1])},
             **{f"X{i}": a.x for i, a in enumerate(order)},
             **{f"Y{i}": a.y for i, a in enumerate(order)}}
    defines = {"BYTES": dtype(x.dtype).size_bytes, "AXES": used, "V": width, "T": rows,
               "FORM": form, "GROUP": _group(items) if form == 1 else 1}
    return MOVE.step((x, y), sizes, defines, node=node)


def _inner_first(axes: list[Axis]) -> list[Axis]:
    """Densest axis of y first, then the densest of x among the others, then the rest."""
    if not axes:
        return [Axis(1, 1, 1)]
    first, *rest = reversed(axes)
    if abs(first.x) != 1 and rest:
        second = min(rest, key=lambda a: abs(a.x) or 1 << 31)
        rest.remove(second)
        rest.insert(0, second)
    return [first, *rest]


def _form(order: Sequence[Axis]) -> tuple[int, int, int]:
    """(form, V, T): vectors where both sides run along axis 0, else tiles of 16 x 16."""
    first = order[0]
    if (first.x, first.y) == (1, 1):
        if first.count % 16 == 0 or first.count >= 64:
            return 1, 16, 1
        return 1, 4 if first.count >= 4 else 1, 1
    turned = len(order) > 1 and order[1].x == 1 and first.y == 1
    return 2 if turned else 0, 16, 16


def fill_step(y: Value, value: float, *, node: int = 0) -> Step:
    """One launch that makes every element of `y` the number `value`."""
    kind = dtype(y.dtype)
    bits = int(np.asarray(value).astype(kind.numpy).view(f"u{kind.size_bytes}"))
    items = ceil_div(y.size, 16)
    return FILL.step((y,), {"ITEMS": items, "COUNT": y.size, "BITS": bits},
                     {"BYTES": kind.size_bytes, "GROUP": _group(items)}, node=node)


def arange_step(y: Value, start: int, step: int, *, node: int = 0) -> Step:
    return ARANGE.step((y,), {"ITEMS": y.size, "COUNT": y.size, "START": start, "STEP": step},
                       node=node)


def cases() -> Iterator[Case]:
    """Every form of the copy at sizes around its tile, and the constants."""
    rng = np.random.default_rng(3)
    for shape, order in (((5, 33), (1, 0)), ((35, 17), (1, 0)), ((1, 1), (1, 0)),
                         ((2, 17, 16), (2, 1, 0)), ((3, 4, 2, 5), (2, 1, 0, 3)),
                         ((3, 4, 19), (1, 0, 2)), ((2, 3, 2, 3, 2, 3), (4, 2, 0, 5, 3, 1))):
        yield _moved(f"move {shape} order {order}", rng.normal(size=shape).astype("f4"), order)
    for shape in ((7, 3), (70, 66)):
        yield _moved(f"move bool {shape}", rng.normal(size=shape) > 0, (1, 0))
    x = rng.normal(size=(4, 21)).astype("f4")
    for start, step, count in ((20, -1, 21), (1, 2, 10), (0, 0, 5), (2, 1, 3)):
        want = x[:, start + step * np.arange(count)]
        y = Value(1, want.shape)
        axes = (Axis(4, 21, count), Axis(count, step, 1))
        yield Case(f"move from {start} step {step}", (move_step(Value(0, x.shape), y, axes,
                                                                x_from=start),),
                   {0: x}, {1: want.astype("f8")}, 1e-12)
    yield _placed(x)
    for rows, columns in ((300, 521), (4100, 7), (8200, 3)):  # whole rows, and what is left of one
        x = rng.normal(size=(rows, columns)).astype("f4")
        axes = (Axis(rows, columns, columns + 2), Axis(columns, 1, 1))
        want = np.zeros((rows, columns + 2))
        want[:, 2:] = x
        y = Value(1, want.shape)
        yield Case(f"move rows {x.shape}", (fill_step(y, 0.0), move_step(
            Value(0, x.shape), y, axes, y_from=2, spec=replace(GENERIC, kind="cpu"))),
            {0: x}, {1: want}, 1e-12)
    for kind, size in (("f4", 17), ("i4", 32), ("?", 5)):
        y = Value(0, (size,), {"f4": "f32", "i4": "i32", "?": "bool"}[kind])
        yield Case(f"fill {y.dtype}", (fill_step(y, -3.0 if kind != "?" else 1.0),), {},
                   {0: np.full(size, -3.0 if kind != "?" else 1.0)}, 1e-12)
    yield Case("arange", (arange_step(Value(0, (19,), "i32"), 4, -3),), {},
               {0: 4.0 - 3.0 * np.arange(19)}, 1e-12)


def _moved(name: str, x: Array, order: tuple[int, ...]) -> Case:
    kind = "bool" if x.dtype == bool else "f32"
    want = x.transpose(order)
    axes = [Axis(n, strides_of(x.shape)[i], s)
            for n, i, s in zip(want.shape, order, strides_of(want.shape), strict=True)]
    step = move_step(Value(0, x.shape, kind), Value(1, want.shape, kind), axes)
    return Case(name, (step,), {0: x}, {1: want.astype("f8")}, 1e-12)


def _placed(x: Array) -> Case:
    """Into every second column of the middle rows of a larger matrix, the rest filled before."""
    rows, columns = x.shape
    y = Value(1, (rows + 2, 2 * columns))
    want = np.full(y.shape, 0.5)
    want[1:-1, ::2] = x
    axes = (Axis(rows, columns, 2 * columns), Axis(columns, 1, 2))
    return Case("move into a box", (fill_step(y, 0.5), move_step(Value(0, x.shape), y, axes,
                                                                 y_from=2 * columns)),
                {0: x}, {1: want}, 1e-12)
