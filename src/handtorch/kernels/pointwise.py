"""Point-wise kernels: C text made from an expression, one launch for a whole region.

A region is a `;`-separated list of instructions, `op(arguments)`; the n-th is called `tn`. An
argument is an input (`x0`), an earlier instruction (`t0`) or a number. The last one is the result.
All inputs are read through strides of the output's shape, so broadcasting costs an index, not a
copy. In registers a bool is an int, 0 for false (so comparisons of vectors and of scalars agree).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod

import numpy as np

from handtorch.graph.device_spec import GENERIC, DeviceSpec
from handtorch.graph.node import Shape, Value
from handtorch.graph.region import Instruction, parse, result_types
from handtorch.graph.step import Step
from handtorch.kernels.case import Case
from handtorch.kernels.geometry import MANY
from handtorch.kernels.pointwise_ops import EXPRESSIONS
from handtorch.kernels.spec import Defines, Geometry, Kernel, Sizes, ceil_div, number

WIDTH = 16
SMALL_GROUP, LARGE_GROUP = 16, 256
# Below this many items small groups share the work better between cores; above it large groups
# are up to four times faster on both CPU runtimes.
MANY_ITEMS = 32 * LARGE_GROUP
# On a CPU an item takes whole rows where they are short: elements of an item, columns at most.
ITEM, LONGEST_ROW = 16384, 2048

_C_TYPES = {"f32": "float", "i32": "int", "u32": "uint", "bool": "uchar"}
_REGISTERS = {"f32": "F", "i32": "I", "u32": "U", "bool": "I"}


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


def pointwise_step(body: str, inputs: Sequence[Value], output: Value, *,
                   spec: DeviceSpec = GENERIC, node: int = 0, flops: int = 0) -> Step:
    """One launch of `body` on `inputs`, which are x0, x1, ... ; `output` may be one of them in
    place, if it has the same shape and type."""
    shape, strides = collapse(output.shape, [v.shape for v in inputs])
    columns, rows = shape[-1], prod(shape[:-1])
    width = WIDTH
    while width > columns:
        width //= 2
    across = ceil_div(columns, width)
    group = LARGE_GROUP if across * rows >= MANY_ITEMS else SMALL_GROUP
    group_x = min(group, 1 << (across - 1).bit_length())     # short rows share a group
    defines: Defines = {
        "BODY": body, "SHAPE": "x".join(map(str, shape)), "V": width,
        "GROUP_X": group_x, "GROUP_Y": group // group_x, "EACH": 0,
        "STRIDES": ";".join(",".join(map(str, s)) for s in strides),
        "TYPES": ",".join([*(v.dtype for v in inputs), output.dtype])}
    if spec.kind == "cpu" and rows >= MANY and WIDTH <= columns <= LONGEST_ROW and \
            across * rows >= MANY_ITEMS:
        each = max(min(ITEM // columns, rows // MANY), 1)
        defines = {**defines, "GROUP_X": 1, "GROUP_Y": 1, "EACH": each}
    return POINTWISE.step([*inputs, output], {"ROWS": rows, "COLUMNS": columns}, defines,
                          node=node, flops=flops, access=["r"] * len(inputs) + ["w"])


def _geometry(defines: Defines, sizes: Sizes) -> Geometry:
    x, y = number(defines, "GROUP_X"), number(defines, "GROUP_Y")
    if each := number(defines, "EACH"):
        return (1, ceil_div(int(sizes["ROWS"]), each)), (x, y)
    across = ceil_div(int(sizes["COLUMNS"]), number(defines, "V"))
    return (ceil_div(across, x) * x, ceil_div(int(sizes["ROWS"]), y) * y), (x, y)


def _text(defines: Defines) -> str:
    """The kernel: one item per V neighbouring columns, or per EACH rows; the end of a row goes one
    by one."""
    width, each = number(defines, "V"), number(defines, "EACH")
    shape = [int(n) for n in str(defines["SHAPE"]).split("x")]
    strides = [[int(n) for n in s.split(",")] for s in str(defines["STRIDES"]).split(";") if s]
    *types, result = str(defines["TYPES"]).split(",")
    code = parse(str(defines["BODY"]))
    arguments = [f"__global const {_C_TYPES[t]} *p{i}, const uint p{i}_at"
                 for i, t in enumerate(types)]
    arguments.append(f"__global {_C_TYPES[result]} *y, const uint y_at")
    lines = [f"// pointwise: {defines['BODY']}",
             "// Generated. Layout: row-major; inputs through strides. Local memory: none.",
             f"__kernel {'__attribute__((reqd_work_group_size(1, 1, 1))) ' if each else ''}"
             f"void pointwise({', '.join(arguments)}) {{"]
    starts = [f"    const size_t out = y_at + row * {shape[-1]};",
              *(f"    const size_t x{i}_row = {_row_index(i, s, shape)};"
                for i, s in enumerate(strides))]
    vector, single = (_compute(code, types, strides, result, w) for w in (width, 1))
    loops = _by_rows if each else _by_vectors
    return "\n".join([*lines, *loops(shape, width, each, starts, vector, single), "}"])


def _by_vectors(shape: Sequence[int], width: int, each: int, starts: list[str],
                vector: list[str], single: list[str]) -> list[str]:
    columns = shape[-1]
    lines = [f"    const size_t first = get_global_id(0) * {width};",
             "    const size_t row = get_global_id(1);",
             f"    if (first >= {columns} || row >= {prod(shape[:-1])}) return;   // hangs over",
             *starts]
    if width > 1:
        lines += [f"    if (first + {width} <= {columns}) {{", *_macros(width),
                  "        const size_t c = first;", *vector, "        return;", *_undo(), "    }"]
    return [*lines, *_macros(1), f"    for (size_t c = first; c < {columns} && c < first + {width};"
            " c++) {", *single, "    }", *_undo()]


def _by_rows(shape: Sequence[int], width: int, each: int, starts: list[str], vector: list[str],
             single: list[str]) -> list[str]:
    """What is read anew in every row stays in the nearest cache, the rest streams by in order."""
    rows, columns = prod(shape[:-1]), shape[-1]
    whole = columns // width * width
    return [f"    const size_t from = get_global_id(1) * {each}, end = from + {each};",
            f"    for (size_t row = from; row < end && row < {rows}; row++) {{", *starts,
            *_macros(width), f"    for (size_t c = 0; c < {whole}; c += {width}) {{", *vector,
            "    }", *_undo(), *_macros(1), f"    for (size_t c = {whole}; c < {columns}; c++) {{",
            *single, "    }", *_undo(), "    }"]


def _macros(width: int) -> list[str]:
    """The names expressions use, for vectors or for scalars."""
    v = "" if width == 1 else str(width)
    return [f"#define F float{v}", f"#define I int{v}", f"#define U uint{v}",
            f"#define TO_F(x) convert_float{v}(x)", f"#define TO_I(x) convert_int{v}_rtz(x)"]


def _undo() -> list[str]:
    return [f"#undef {name}" for name in ("F", "I", "U", "TO_F", "TO_I")]


def _compute(code: Sequence[Instruction], types: Sequence[str], strides: Sequence[Sequence[int]],
             result: str, width: int) -> list[str]:
    lines = [f"{_REGISTERS[t]} x{i} = {_load(i, t, s[-1], width)};"
             for i, (t, s) in enumerate(zip(types, strides, strict=True))]
    for i, (step, kind) in enumerate(zip(code, result_types(code, types), strict=True)):
        text = EXPRESSIONS[step.op].format(*step.arguments, T=_REGISTERS[kind])
        lines.append(f"{_REGISTERS[kind]} t{i} = {text};")
    last = f"t{len(code) - 1}" if code else "x0"
    if result == "bool":
        last = f"convert_uchar{'' if width == 1 else width}(-({last} != 0) & 1)" if width > 1 \
            else f"({last} != 0)"
    lines.append(f"y[out + c] = {last};" if width == 1 else
                 f"vstore{width}({last}, 0, y + out + c);")
    return [f"        {line}" for line in lines]


def _row_index(i: int, strides: Sequence[int], shape: Sequence[int]) -> str:
    """Where the row of input `i` starts: the row number taken apart into its axes."""
    terms = []
    below = 1
    for size, stride in reversed(list(zip(shape[:-1], strides[:-1], strict=True))):
        if stride:
            part = f"row / {below}" if below > 1 else "row"
            whole = below * size == prod(shape[:-1])
            terms.append(f"({part}{'' if whole else f' % {size}'}) * {stride}")
        below *= size
    return " + ".join([f"p{i}_at", *reversed(terms)])


def _load(i: int, kind: str, stride: int, width: int) -> str:
    v = "" if width == 1 else str(width)
    assert stride in (0, 1), f"input {i}: stride {stride} on the last axis"
    if width > 1 and stride:
        raw = f"vload{width}(0, p{i} + x{i}_row + c)"
    else:
        raw = f"p{i}[x{i}_row{' + c' if stride else ''}]"
    if kind == "bool":
        return f"(I)(-convert_int{v if stride else ''}({raw}))"
    return raw if width == 1 or stride else f"({_REGISTERS[kind]})({raw})"


POINTWISE = Kernel("pointwise", access=("r", "w"), geometry=_geometry, text=_text,
                   defaults={"BODY": "relu(x0)", "SHAPE": "8", "STRIDES": "1", "V": 8,
                             "GROUP_X": SMALL_GROUP, "GROUP_Y": 1, "EACH": 0, "TYPES": "f32,f32"})
KERNELS = (POINTWISE,)


def cases() -> Iterator[Case]:
    rng = np.random.default_rng(7)
    shapes: list[tuple[Shape, Shape]] = [
        ((7, 33), (7, 33)), ((7, 33), (33,)), ((5, 4, 3), (4, 1)), ((), ()), ((3, 1), (1, 5)),
        ((257,), (1,))]
    for left, right in shapes:
        a, b = (np.asarray(rng.normal(size=s), "f4") for s in (left, right))
        want = np.where(a > b, np.maximum(a * b, 0) + b, 0.5)
        x, y = Value(0, left), Value(1, right)
        body = "mul(x0,x1);relu(t0);add(t1,x1);gt(x0,x1);where(t3,t2,0.5f)"
        step = pointwise_step(body, [x, y], Value(2, want.shape))
        yield Case(f"pointwise {left} {right}", (step,), {0: a, 1: b}, {2: want.astype("f8")})
    a, b = rng.normal(size=(5000, 35)).astype("f4"), rng.normal(size=35).astype("f4")
    step = pointwise_step("mul(x0,x1);relu(t0);add(t1,x1)", [Value(0, a.shape), Value(1, b.shape)],
                          Value(2, a.shape), spec=replace(GENERIC, kind="cpu"))
    yield Case("pointwise rows", (step,), {0: a, 1: b},
               {2: np.maximum(a * b, 0) + b.astype("f8")})
    for size in (5, 40):                     # bools in and out, as scalars and as vectors
        a, m = rng.normal(size=size).astype("f4"), rng.integers(0, 2, size).astype(bool)
        step = pointwise_step("gt(x0,0.0f);logical_not(x1);logical_and(t0,t1)",
                              [Value(0, (size,)), Value(1, (size,), "bool")],
                              Value(2, (size,), "bool"))
        yield Case(f"pointwise bool {size}", (step,), {0: a, 1: m},
                   {2: ((a > 0) & ~m).astype("f8")})
