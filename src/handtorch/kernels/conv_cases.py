"""Cases of the convolutions: every kernel, for wide vectors, narrow ones and work-groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any

import numpy as np

from handtorch.graph.device_spec import GENERIC
from handtorch.graph.node import Value
from handtorch.graph.step import Step
from handtorch.kernels.case import Array, Case
from handtorch.kernels.conv_epilogue import Epilogue
from handtorch.kernels.conv_launches import Launches
from handtorch.kernels.conv_shapes import Conv, Pair, forward_sizes, grad_input_sizes
from handtorch.kernels.conv_specs import PACK
from handtorch.kernels.conv_tiles import ConvPass
from handtorch.kernels.spec import ceil_div
from handtorch.kernels.winograd import Winograd, is_right, weight_steps

_X, _W, _Y, _BIAS, _MORE, _MASK, _SCRATCH = range(7)
_WIDE = replace(GENERIC, name="wide", kind="cpu", float_width=16)
_NARROW = replace(GENERIC, name="narrow", kind="cpu", float_width=4)
_ONE: Pair = (1, 1)
PASSES = ("forward", "grad_input", "grad_weight")


def _conv(n: int, groups: int, inner: int, outer: int, x: Pair, kernel: Pair, stride: Pair = _ONE,
          padding: Pair = (0, 0), dilation: Pair = _ONE) -> Conv:
    y = [(s + 2 * p - d * (k - 1) - 1) // step + 1 for s, p, d, k, step in
         zip(x, padding, dilation, kernel, stride, strict=True)]
    return Conv(n, groups, inner, outer, x, (y[0], y[1]), kernel, stride, padding, dilation)


SHAPES = (
    _conv(1, 1, 3, 5, (4, 5), (3, 3), padding=_ONE),
    _conv(2, 1, 2, 17, (5, 4), (3, 2), (2, 1), _ONE, (1, 2)),
    _conv(2, 2, 3, 4, (1, 9), (1, 3), (1, 2), (0, 1)),
    _conv(2, 1, 5, 6, (2, 3), _ONE),
    _conv(1, 1, 1, 66, (3, 3), (2, 2), (3, 2), _ONE),
    _conv(1, 1, 1, 1, _ONE, _ONE),
    _conv(2, 3, 1, 1, (3, 19), (3, 3), padding=_ONE),             # depthwise: rows of 16 and 3
    _conv(1, 2, 2, 1, (5, 37), (3, 3), (2, 2), _ONE),
    _conv(2, 2, 1, 3, (4, 7), (2, 3), (1, 3), (1, 2), (2, 1)),
    replace(_conv(2, 1, 4, 5, (2, 4), _ONE), y=(2, 3)),           # transposed, output padding
    replace(_conv(2, 1, 1, 1, (2, 3), _ONE), y=(1, 3)),
    _conv(1, 16, 1, 1, (5, 6), (3, 3), (2, 2), _ONE),
    _conv(2, 6, 1, 1, (4, 3), (3, 2), padding=_ONE, dilation=(1, 2)),
    _conv(2, 1, 7, 67, (4, 4), (3, 3), padding=_ONE),
    _conv(9, 1, 6, 32, (3, 2), (3, 3), padding=_ONE),             # images first, dot products
    _conv(2, 1, 3, 16, (6, 5), (3, 2), (2, 1), (0, 0)),
    _conv(2, 2, 5, 16, (5, 4), (3, 3), (2, 2), _ONE),
    _conv(2, 32, 1, 1, (6, 21), (5, 5), (2, 3), (2, 2)),          # depthwise, five taps at a time
    _conv(1, 1, 16, 133, (17, 5), (1, 2)),                        # weight gradient: packed
    _conv(2, 1, 33, 9, (5, 4), (3, 2), (2, 1), _ONE, (1, 2)),     # the same, turned
    _conv(1, 2, 16, 17, (3, 3), (2, 2), padding=_ONE),
    _conv(1, 1, 130, 256, (1, 3), (1, 1)),                        # packed, dy copied
    _conv(1, 1, 199, 70, (1, 3), (1, 2)),                         # its last block moved up
    _conv(2, 1, 40, 2, (3, 3), (2, 1)),                           # turned, two rows
    _conv(3, 61, 1, 1, (9, 7), (5, 3), padding=(2, 1), dilation=(2, 1)),  # 3 lines of taps, then 2
)


def cases() -> Iterator[Case]:
    for number, conv in enumerate(SHAPES):
        for spec in (_WIDE, _NARROW, GENERIC) if number < 3 else (_WIDE,):
            yield from passes(f"{spec.name} {number}", Launches(conv, spec, scratch()))
    for number in (0, 6, 11, 13, 14):            # edges of panels, depthwise ones, dot products
        launches = Launches(SHAPES[number], _WIDE, scratch())
        name, conv = f"whole epilogue {number}", launches.conv
        yield _sliding(f"conv {name}", launches.forward, _X, _Y, conv, whole=True)
        yield _sliding(f"conv grad_input {name}", launches.grad_input, _Y, _X, conv, whole=True)
    yield from _winograds()
    for case in passes("rows ahead", Launches(SHAPES[11], _WIDE, scratch()), ("grad_weight",)):
        first, *rest = case.steps                # FAR is the last of its scalars
        ahead = replace(first, scalars=(*first.scalars[:-1], ("int", 1)))
        yield replace(case, steps=(ahead, *rest))
    yield from _near_taps()
    yield from _packs()


def _near_taps() -> Iterator[Case]:
    """Odd rows, the last vector moved, several vectors an item, chunks that end within a picture;
    pictures that are smaller than what is beside them, and none beside them."""
    for number, (conv, variant) in enumerate((
            (_conv(3, 21, 1, 1, (5, 9), (3, 3), padding=_ONE), "CHUNK20 ITEMS4 V8"),
            (_conv(2, 18, 1, 1, (7, 19), (3, 3), (2, 2), _ONE), "CHUNK50 ITEMS1 V16"),
            (_conv(2, 16, 1, 1, (6, 8), (3, 3), (2, 2), _ONE), "CHUNK4096 ITEMS8 V16"),
            (_conv(1, 4, 1, 1, (5, 6), (3, 3)), "CHUNK4096 ITEMS1 V1"),
            (_conv(1, 5, 1, 1, (6, 7), (3, 3), (2, 2)), "CHUNK4 ITEMS8 V2"),
            (_conv(1, 5, 1, 1, (5, 260), (3, 3), padding=_ONE), "CHUNK4096 ITEMS2 V4"),
            (_conv(2, 7, 1, 1, (1, 1), (3, 3), padding=(2, 3)), "CHUNK4096 ITEMS8 V4"),
            (_conv(2, 8, 1, 1, (2, 1), (3, 3), (2, 2), (3, 4)), "CHUNK4 ITEMS8 V8"))):
        items, width = variant.split()[1:]
        tuned = ((str(ConvPass("conv_grad_weight", conv)), f"depthwise_weight3 {variant}"),
                 *((str(ConvPass(op, conv)), f"depthwise3 {items} {width}")
                   for op in ("conv", "conv_grad_input") if op == "conv" or conv.stride == _ONE))
        spec = replace(_WIDE, compute_units=1, tuned=tuned)
        launches, name = Launches(conv, spec, scratch()), f"near taps {number}"
        for whole in (False, True):
            told = f"{name} whole{int(whole)}"
            yield _sliding(f"conv {told}", launches.forward, _X, _Y, conv, whole)
            yield _sliding(f"conv grad_input {told}", launches.grad_input, _Y, _X, conv, whole)
        for case in passes(name, launches, ("grad_weight",)):
            yield case
            first, *rest = case.steps
            ahead = tuple((k, 1 if k == "FAR" else v) for k, v in first.defines)
            yield replace(case, name=f"{case.name} ahead",
                          steps=(replace(first, defines=ahead), *rest))


def _winograds() -> Iterator[Case]:
    """Tiles at edges, channels of a last panel and blocks of a last item that are not there; one
    item with several blocks, several panels, and each epilogue."""
    for number, (conv, tile, most) in enumerate((
            (_conv(2, 1, 8, 20, (5, 7), (3, 3), padding=_ONE), (4, 1, 16), 2),
            (_conv(1, 1, 12, 28, (6, 4), (3, 3)), (3, 3, 8), 24),
            (_conv(3, 1, 16, 48, (4, 5), (3, 3), padding=(2, 0)), (2, 2, 16), 4),
            (_conv(1, 1, 32, 48, (9, 3), (3, 3), padding=_ONE), (6, 2, 8), 6),
            (_conv(2, 1, 8, 36, (2, 2), (3, 3), padding=_ONE), (1, 4, 4), 1))):
        for turned in (False, True) if is_right(conv, "conv_grad_input") else (False,):
            sizes = grad_input_sizes(conv) if turned else forward_sizes(conv)
            macros = dict(zip(("R", "NV", "V"), tile, strict=True))
            launch = Winograd(sizes, macros, replace(_WIDE, compute_units=1), turned, scratch(), 0,
                              0, most)
            source, out = (_Y, _X) if turned else (_X, _Y)
            for whole in (False, True):
                yield _sliding(f"winograd {number} turned{int(turned)} whole{int(whole)}",
                               launch.steps, source, out, conv, whole)
    for conv, tile in ((_conv(2, 1, 8, 20, (5, 7), (3, 3), padding=_ONE), (4, 2, 4)),
                       (_conv(9, 1, 72, 48, (3, 4), (3, 3), padding=(2, 0)), (8, 2, 16)),
                       (_conv(40, 1, 16, 80, (2, 2), (3, 3), padding=_ONE), (2, 1, 8))):
        macros = dict(zip(("R", "NV", "V"), tile, strict=True))
        yield _weight(f"winograd {conv.outer}", conv, partial(
            weight_steps, conv=conv, tile=macros, spec=replace(_WIDE, compute_units=1),
            scratch=scratch()))


def _packs() -> Iterator[Case]:
    """Runs of several tiles and the rests of both sides: lanes, and values of b."""
    for turned, width, run, (taps, groups, lanes, depth) in (
            (0, 32, 16, (2, 1, 61, 33)), (0, 16, 32, (1, 2, 23, 50)), (0, 16, 16, (2, 1, 1, 3)),
            (0, 4, 16, (2, 2, 5, 17)), (1, 4, 16, (1, 2, 5, 34)),
            (1, 32, 16, (2, 1, 61, 33)), (1, 16, 48, (1, 2, 23, 97)), (1, 32, 16, (2, 2, 19, 16)),
            (1, 16, 16, (3, 1, 18, 12)), (1, 16, 16, (1, 1, 17, 1)), (1, 16, 16, (1, 2, 5, 7)),
            (1, 16, 16, (1, 1, 3, 5))):
        panels, row = ceil_div(lanes, width), groups * (depth if turned else lanes)
        rng = np.random.default_rng(lanes)
        given = rng.normal(size=(taps, lanes if turned else depth, row)).astype("f4")
        by_group = given.reshape(*given.shape[:2], groups, -1)          # [t][., g][.]
        wide = np.zeros((groups, panels * width, taps, depth))
        wide[:, :lanes] = by_group.transpose((2, 1, 0, 3) if turned else (2, 3, 0, 1))
        want = wide.reshape(groups, panels, width, taps, depth).transpose(0, 1, 3, 4, 2)
        lane, step = (row, 1) if turned else (1, row)
        sizes = {"GROUPS": groups, "PANELS": panels, "LANES": lanes, "T": taps, "B": depth,
                 "RUN": run, "ST": given[0].size, "SG": row // groups, "SL": lane, "SB": step}
        values = Value(_W, given.shape), Value(_Y, want.shape)
        yield Case(f"conv_pack turned{turned} W{width} {taps}x{groups}x{lanes}x{depth} by {run}",
                   (PACK.step(values, sizes, {"W": width, "TURNED": turned}),), {_W: given},
                   {_Y: want}, 1e-12)


def scratch() -> Callable[[tuple[int, ...]], Value]:
    """Gives values that are none of a case's own."""
    fresh = count(_SCRATCH)
    return lambda shape: Value(next(fresh), tuple(shape))


def passes(name: str, launches: Launches, kinds: Sequence[str] = PASSES) -> Iterator[Case]:
    """These passes of the convolution, as `launches` does them."""
    conv = launches.conv
    if "forward" in kinds:
        yield _sliding(f"conv {name}", launches.forward, _X, _Y, conv)
    if "grad_input" in kinds:
        yield _sliding(f"conv grad_input {name}", launches.grad_input, _Y, _X, conv)
    if "grad_weight" in kinds:
        yield _weight(name, conv, launches.grad_weight)


def _weight(name: str, conv: Conv, launch: Callable[[Value, Value, Value], tuple[Step, ...]]
            ) -> Case:
    given = {i: a for i, a in _arrays(conv).items() if i in (_X, _Y)}
    values = {i: Value(i, a.shape) for i, a in _arrays(conv).items()}
    steps = launch(values[_Y], values[_X], values[_W])
    return Case(f"conv grad_weight {name}", steps, given, {_W: _grad_weight(conv, given)})


def _sliding(name: str, launch: Callable[..., tuple[Step, ...]], source: int, out: int, conv: Conv,
             whole: bool = False) -> Case:
    """The forward (from x to y) or the gradient of x (from y to x), with a bias or the `whole`
    epilogue."""
    arrays, rng = _arrays(conv), np.random.default_rng(out)
    shape = arrays[out].shape
    arrays[_BIAS] = np.linspace(-1, 1, shape[-1]).astype("f4")
    for i in (_MORE, _MASK) if whole else ():
        arrays[i] = rng.normal(size=shape).astype("f4")
    values = {i: Value(i, a.shape) for i, a in arrays.items()}
    then = Epilogue(values[_BIAS], values.get(_MORE), whole, values.get(_MASK))
    steps = launch(values[source], values[_W], values[out], then)
    want = _forward(conv, arrays) if out == _Y else _grad_input(conv, arrays)
    want = want + arrays[_BIAS].astype("f8")
    if whole:
        want = np.where(arrays[_MASK] > 0, np.maximum(want + arrays[_MORE], 0), 0)
    return Case(name, steps, {i: a for i, a in arrays.items() if i != out}, {out: want})


def _arrays(c: Conv) -> dict[int, Array]:
    rng = np.random.default_rng(c.inner + c.outer)
    shapes = {_X: (c.n, *c.x, c.groups * c.inner), _Y: (c.n, *c.y, c.groups * c.outer),
              _W: (*c.kernel, c.inner, c.groups * c.outer)}
    return {i: rng.normal(size=s).astype("f4") for i, s in shapes.items()}


Place = tuple[Any, ...]


def _meetings(c: Conv) -> Iterator[tuple[Place, Place, Place]]:
    """Which part of w [inner, outer] meets which of x [n, inner] and of y [n, outer]."""
    every = slice(None)
    for group, kh, kw, oh, ow in np.ndindex(c.groups, *c.kernel, *c.y):
        h = oh * c.stride[0] - c.padding[0] + kh * c.dilation[0]
        w = ow * c.stride[1] - c.padding[1] + kw * c.dilation[1]
        if 0 <= h < c.x[0] and 0 <= w < c.x[1]:
            into, out = (slice(group * n, (group + 1) * n) for n in (c.inner, c.outer))
            yield (kh, kw, every, out), (every, h, w, into), (every, oh, ow, out)


def _forward(conv: Conv, arrays: dict[int, Array]) -> Array:
    y = np.zeros(arrays[_Y].shape)
    for at_w, at_x, at_y in _meetings(conv):
        y[at_y] += arrays[_X][at_x].astype("f8") @ arrays[_W][at_w]
    return y


def _grad_input(conv: Conv, arrays: dict[int, Array]) -> Array:
    dx = np.zeros(arrays[_X].shape)
    for at_w, at_x, at_y in _meetings(conv):
        dx[at_x] += arrays[_Y][at_y].astype("f8") @ arrays[_W][at_w].T
    return dx


def _grad_weight(conv: Conv, arrays: dict[int, Array]) -> Array:
    dw = np.zeros((*conv.kernel, conv.inner, conv.groups * conv.outer))
    for at_w, at_x, at_y in _meetings(conv):
        dw[at_w] += arrays[_X][at_x].T.astype("f8") @ arrays[_Y][at_y]
    return dw
