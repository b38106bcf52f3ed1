"""Convolutions and both their gradients, depthwise ones too, as a family to tune."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import prod
from typing import get_args

from handtorch.graph.device_spec import DeviceSpec
from handtorch.graph.node import Node
from handtorch.kernels.conv_shapes import Conv, Pair, pixels_of_a_class
from handtorch.kernels.conv_specs import (
    DEPTHWISE,
    DEPTHWISE3,
    DEPTHWISE_WEIGHT,
    DEPTHWISE_WEIGHT3,
    TILE,
    WEIGHT,
    WEIGHT_PACKED,
)
from handtorch.kernels.conv_tiles import ConvPass, Op, weight_share
from handtorch.kernels.gemm_tiles import tuning_for
from handtorch.kernels.variant import FORMS, Variant, first_right
from handtorch.tune.family import EPILOGUE, PLAIN, Family, cheapest, make_node

_TILE: Mapping[str, Sequence[int]] = {"IMAGES_FIRST": (0, 1), **TILE.space}
_WINOGRAD = {k: v for k, v in TILE.space.items() if k in ("R", "NV", "V")}
_SPACES: Mapping[str, Mapping[str, Sequence[int]]] = {
    "conv_direct": _TILE, "conv_packed": _TILE,
    "conv_dot": {**_TILE, "V": (4, 8, 16)},
    "conv_winograd": _WINOGRAD, "conv_weight_winograd": _WINOGRAD,
    "conv_weight": {"CHUNK": (256, 1024, 4096), "ITEMS": (16, 64, 256, 4096),
                    "SOME": (0, 64, 128, 512), **WEIGHT.space},
    "conv_weight_packed": {"CHUNK": (256, 1024, 4096), "ITEMS": (8, 16, 32, 64),
                           "COPIED": (0, 1), "TURNED": (0, 1), **WEIGHT_PACKED.space},
    "depthwise": {"ITEMS": (0, 16, 64, 256), **DEPTHWISE.space, "R": (1, 2, 4, 8, 16),
                  "V": (1, 2, 4, 8, 16)},
    "depthwise3": {"ITEMS": (2, 4, 8, 16, 64), **DEPTHWISE3.space, "V": (1, 2, 4, 8, 16)},
    "depthwise_weight": {"CHUNK": (16, 64, 256, 1024), "ITEMS": (16, 64, 256, 4096),
                         "DOWN": (1, 2, 3), "LINES": (0, 1), "TAPS": tuple(range(1, 9)),
                         **DEPTHWISE_WEIGHT.space, "V": (1, 2, 4, 8, 16)},
    "depthwise_weight3": {"CHUNK": (1024, 4096, 16384), "ITEMS": (2, 4, 8, 16, 64),
                          **DEPTHWISE_WEIGHT3.space, "V": (1, 2, 4, 8, 16)}}


class Convolutions(Family[ConvPass]):
    def usual(self) -> tuple[ConvPass, ...]:
        """Of residual nets at 32x32: the first layer, wide and narrow ones; a depthwise one."""
        layers = (_square(3, 64, 32, 3), _square(64, 64, 32, 3), _square(256, 64, 32, 1),
                  _square(256, 256, 8, 3), _square(512, 512, 4, 3), _square(96, 96, 16, 3, 96))
        ops: tuple[Op, ...] = get_args(Op)
        return tuple(ConvPass(op, c) for c in layers for op in ops
                     if not (op == "conv_grad_input" and c.has_few_inner))  # nobody needs it

    def node(self, problem: ConvPass, work: str) -> Node:
        c = problem.conv
        x, y = (c.n, *c.x, c.groups * c.inner), (c.n, *c.y, c.groups * c.outer)
        w = (*c.kernel, c.inner, c.groups * c.outer)
        first, second, out = {"conv": (x, w, y), "conv_grad_input": (y, w, x),
                              "conv_grad_weight": (y, x, w)}[problem.op]
        more = ((out[-1],), out, out) if work == EPILOGUE else ()
        size = {"conv": {"size": c.y}, "conv_grad_input": {"size": c.x},
                "conv_grad_weight": {"kernel": c.kernel}}[problem.op]
        does = {"epilogue": ("bias", "add", "relu", "relu_grad")} if work == EPILOGUE else {}
        return make_node(problem.op, (first, second, *more), (out,), channels_last=True,
                         groups=c.groups, stride=c.stride, padding=c.padding,
                         dilation=c.dilation, **size, **does)

    def works(self, variant: Variant) -> tuple[str, ...]:
        return (PLAIN,) if "weight" in variant.form else (PLAIN, EPILOGUE)

    def from_table(self, form: str, problem: ConvPass, spec: DeviceSpec) -> Iterable[Variant]:
        if form.startswith("depthwise"):
            usual = first_right((v for v in problem.ranked(spec) if v.form == form), problem, spec)
            return _crossed(usual, self.space(form), ("R", "DOWN", "TAPS", "V", "NV", "ITEMS"))
        usual, tuning = problem.table_variant(spec), tuning_for(spec)
        tiles = cheapest(tuning.dots if form == "conv_dot" else tuning.tiles,
                         *self.outputs(problem), spec, depth=64)
        if problem.op == "conv_grad_weight":
            more = weight_share(form, problem.conv.for_grad_weight(), spec)
        else:
            more = {"IMAGES_FIRST": dict(usual.defines).get("IMAGES_FIRST", 0)}
        if form == "conv_dot":
            more["NV"] = min(4, problem.conv.inner)
        return [Variant.of(form, {k: v for k, v in (tile | more).items() if k in FORMS[form]})
                for tile in tiles]

    def space(self, form: str) -> Mapping[str, Sequence[int]]:
        return _SPACES[form]

    def groups(self, form: str, spec: DeviceSpec) -> Sequence[tuple[int, int]]:
        return tuning_for(spec).groups if "WGX" in FORMS[form] else ()

    def outputs(self, problem: ConvPass) -> tuple[int, int]:
        c = problem.conv
        if problem.op == "conv_grad_weight":
            return prod(c.kernel) * c.inner, c.outer
        if c.is_depthwise:
            return c.n * prod(c.y), c.groups
        return pixels_of_a_class(problem.launch_sizes()), (
            c.outer if problem.op == "conv" else c.inner)

    def smallest(self, problem: ConvPass, variant: Variant) -> ConvPass:
        """One pixel of one picture, all channels."""
        c = problem.conv
        height, width = (d * (k - 1) + 1 for d, k in zip(c.dilation, c.kernel, strict=True))
        return replace(problem, conv=replace(c, n=1, x=(height, width), y=(1, 1), padding=(0, 0)))


def _square(inner: int, outer: int, side: int, kernel: int, groups: int = 1) -> Conv:
    both: Pair = (side, side)
    return Conv(16, groups, inner // groups, outer // groups, both, both, (kernel, kernel), (1, 1),
                (kernel // 2, kernel // 2), (1, 1))


def _crossed(usual: Variant, space: Mapping[str, Sequence[int]], names: Sequence[str]
             ) -> Iterator[Variant]:
    """Every combination of these macros, those nearest to the usual one first."""
    macros = dict(usual.defines)
    names = [n for n in names if n in macros]

    def far(values: Sequence[int]) -> int:
        steps = zip(names, values, strict=True)
        return sum(abs(_place(space[n], v) - _place(space[n], macros[n])) for n, v in steps)
    for values in sorted(product(*(space[n] for n in names)), key=far):
        yield usual.but(**dict(zip(names, values, strict=True)))


def _place(values: Sequence[int], value: int) -> int:
    return sum(v < value for v in values)
