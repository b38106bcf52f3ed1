"""Point-wise kernels: C text made from an expression, one launch for a whole region.

A region is a list of instructions in order, `op(arguments)`; an argument is an input (`x0`), an
earlier instruction (`t0`) or a number. All inputs are read through strides of the output's shape,
so broadcasting costs an index, not a copy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

import numpy as np

from handtorch.graph.node import Shape, Value
from handtorch.graph.step import Step
from handtorch.kernels.case import Case
from handtorch.kernels.spec import Defines, Geometry, Kernel, Sizes, ceil_div, number

# How each op reads in C; {0}, {1}, ... are its arguments, all of them floats of width V.
EXPRESSIONS = {
    "add": "{0} + {1}",
    "sub": "{0} - {1}",
    "mul": "{0} * {1}",
    "scale": "{0} * {1}",
    "relu": "select({0}, (F)(0.0f), {0} <= 0.0f)",      # unlike fmax, lets NaN through
    "relu_grad": "select((F)(0.0f), {0}, {1} > 0.0f)",
    "copy": "{0}",
}

WIDTH = 16
SMALL_GROUP, LARGE_GROUP = 16, 256
# Below this many items small groups share the work better between cores; above it large groups
# are up to four times faster on both CPU runtimes.
MANY_ITEMS = 32 * LARGE_GROUP


def collapse(shape: Shape, inputs: Sequence[Shape]) -> tuple[Shape, list[tuple[int, ...]]]:
    """Join neighbouring axes that every input steps through alike.

    Gives the shortened output shape and, for each input, its element stride on each axis (0 where
    it is stretched)."""
    rank = len(shape)
    strides = []
    for given in inputs:
        padded = (1,) * (rank - len(given)) + given
        strides.append([0 if d == 1 else prod(padded[i + 1:]) for i, d in enumerate(padded)])
    axes: list[tuple[int, list[int]]] = []
    for i, size in enumerate(shape):
        here = [s[i] for s in strides]
        if size == 1:
            continue
        if axes and all(o == h * size for o, h in zip(axes[-1][1], here, strict=True)):
            axes[-1] = (axes[-1][0] * size, here)
        else:
            axes.append((size, here))
    if not axes:
        axes = [(1, [0] * len(inputs))]
    return tuple(a[0] for a in axes), [tuple(a[1][i] for a in axes) for i in range(len(inputs))]


def pointwise_step(body: str, inputs: Sequence[Value], output: Value, *, node: int = 0,
                   flops: int = 0, in_place: bool = False) -> Step:
    """One launch of `body`, a `;`-separated list like `t0=mul(x0,x1);t1=relu(t0)`.

    With `in_place` the output takes the place of the first input, which is read through it."""
    shape, strides = collapse(output.shape, [v.shape for v in inputs])
    columns, rows = shape[-1], prod(shape[:-1])
    width = WIDTH
    while width > columns:
        width //= 2
    group = LARGE_GROUP if ceil_div(columns, width) * rows >= MANY_ITEMS else SMALL_GROUP
    defines: Defines = {
        "BODY": body, "SHAPE": "x".join(map(str, shape)), "V": width, "GROUP": group,
        "STRIDES": ";".join(",".join(map(str, s)) for s in strides),
        "IN_PLACE": int(in_place)}
    read = inputs[1:] if in_place else inputs
    return POINTWISE.step([*read, output], {"ROWS": rows, "COLUMNS": columns}, defines, node=node,
                          flops=flops, access=["r"] * len(read) + ["rw" if in_place else "w"])


def _geometry(defines: Defines, sizes: Sizes) -> Geometry:
    group = number(defines, "GROUP")
    across = ceil_div(int(sizes["COLUMNS"]), number(defines, "V"))
    return (ceil_div(across, group) * group, int(sizes["ROWS"])), (group, 1)


def _text(defines: Defines) -> str:
    """The kernel: one item per V neighbouring columns; the end of a row goes one by one."""
    width = number(defines, "V")
    shape = [int(n) for n in str(defines["SHAPE"]).split("x")]
    strides = [[int(n) for n in s.split(",")] for s in str(defines["STRIDES"]).split(";")]
    in_place = bool(defines["IN_PLACE"])
    names = [f"x{i}" for i in range(len(strides))]
    arguments = [f"__global const float *{n}_p, const uint {n}_at"
                 for n in (names[1:] if in_place else names)]
    arguments.append("__global float *y, const uint y_at")
    vector = "float" if width == 1 else f"float{width}"
    lines = ["// pointwise: " + str(defines["BODY"]),
             "// Generated. Layout: row-major; inputs through strides. Local memory: none.",
             f"#define F {vector}",
             f"__kernel void pointwise({', '.join(arguments)}) {{",
             f"    const size_t columns = {shape[-1]};",
             f"    const size_t first = get_global_id(0) * {width};",
             "    if (first >= columns) return;     // the last group may hang over the edge",
             "    const size_t row = get_global_id(1);",
             "    const size_t out = y_at + row * columns;"]
    lines += [f"    const size_t {n}_row = {_row_index(n, s, shape, in_place)};"
              for n, s in zip(names, strides, strict=True)]
    compute = [f"F {n} = {_load(n, s[-1], width, in_place)};"
               for n, s in zip(names, strides, strict=True)]
    result = ""
    for line in str(defines["BODY"]).split(";"):
        result, _, call = line.partition("=")
        op, _, rest = call.rstrip(")").partition("(")
        compute.append(f"F {result} = {EXPRESSIONS[op].format(*rest.split(','))};")
    if width > 1:
        lines += [f"    if (first + {width} <= columns) {{",
                  "        const size_t c = first;", *(f"        {c}" for c in compute),
                  f"        vstore{width}({result}, 0, y + out + c);", "        return;", "    }"]
        lines += ["#undef F", "#define F float"]
        compute = [f"F {n} = {_load(n, s[-1], 1, in_place)};"
                   for n, s in zip(names, strides, strict=True)] + compute[len(names):]
    lines += [f"    for (size_t c = first; c < columns && c < first + {width}; c++) {{",
              *(f"        {c}" for c in compute), f"        y[out + c] = {result};", "    }", "}"]
    return "\n".join(lines)


def _row_index(name: str, strides: Sequence[int], shape: Sequence[int], in_place: bool) -> str:
    """Where the row of input `name` starts: the row number taken apart into its axes."""
    terms = []
    below = 1
    for size, stride in reversed(list(zip(shape[:-1], strides[:-1], strict=True))):
        if stride:
            part = f"row / {below}" if below > 1 else "row"
            whole = below * size == prod(shape[:-1])
            terms.append(f"({part}{'' if whole else f' % {size}'}) * {stride}")
        below *= size
    start = "y_at" if in_place and name == "x0" else f"{name}_at"
    return " + ".join([start, *reversed(terms)])


def _load(name: str, stride: int, width: int, in_place: bool) -> str:
    source = "y" if in_place and name == "x0" else f"{name}_p"
    if stride == 0:
        return f"(F)({source}[{name}_row])" if width > 1 else f"{source}[{name}_row]"
    assert stride == 1, f"{name}: stride {stride} on the last axis"
    return f"vload{width}(0, {source} + {name}_row + c)" if width > 1 else (
        f"{source}[{name}_row + c]")


POINTWISE = Kernel("pointwise", access=("r", "w"), geometry=_geometry, text=_text,
                   defaults={"BODY": "t0=copy(x0)", "SHAPE": "8", "STRIDES": "1", "V": 8,
                             "GROUP": SMALL_GROUP, "IN_PLACE": 0})
KERNELS = (POINTWISE,)


def cases() -> Iterator[Case]:
    rng = np.random.default_rng(7)
    shapes: list[tuple[Shape, Shape]] = [
        ((7, 33), (7, 33)), ((7, 33), (33,)), ((5, 4, 3), (4, 1)), ((), ()), ((3, 1), (1, 5)),
        ((257,), (1,))]
    for left, right in shapes:
        a, b = (np.asarray(rng.normal(size=s), "f4") for s in (left, right))
        want = np.maximum(a * b, 0) + b
        x, y = Value(0, left), Value(1, right)
        out = Value(2, want.shape)
        step = pointwise_step("t0=mul(x0,x1);t1=relu(t0);t2=add(t1,x1)", [x, y], out)
        yield Case(f"pointwise {left} {right}", (step,), {0: a, 1: b}, {2: want.astype("f8")})
    a, b = (np.asarray(rng.normal(size=(9, 20)), "f4") for _ in "ab")
    step = pointwise_step("t0=relu_grad(x0,x1)", [Value(0, (9, 20)), Value(1, (9, 20))],
                          Value(2, (9, 20)), in_place=True)
    yield Case("pointwise in place", (step,), {2: a, 1: b}, {2: np.where(b > 0, a, 0.0)})
