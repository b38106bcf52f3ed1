"""Cases whose launches are chosen for one device, as lowering chooses them there.

Which tiles a device's table holds, and which of them its shapes get, is asked of the table: a new
tile has its case at once. Sizes are the smallest that get a tile, and lie across its edges."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import replace
from itertools import chain, cycle, product
from math import prod
from typing import TypeVar

import numpy as np

from handtorch.graph.device_spec import DeviceSpec
from handtorch.graph.node import Value
from handtorch.graph.step import Step
from handtorch.kernels import rnn
from handtorch.kernels.bmm import bmm_steps
from handtorch.kernels.bmm_tiles import Batch
from handtorch.kernels.case import Case
from handtorch.kernels.conv_cases import SHAPES, passes, scratch
from handtorch.kernels.conv_launches import Launches
from handtorch.kernels.conv_shapes import Conv
from handtorch.kernels.conv_tiles import ConvPass
from handtorch.kernels.gemm_specs import DOT_COLUMNS, tile_width
from handtorch.kernels.gemm_tiles import Form, Product, Tile, table_variant, tuning_for
from handtorch.kernels.rnn_loop import GATES, Layer, choose
from handtorch.kernels.roofline import copy_step, fma_step
from handtorch.kernels.variant import Problem, Variant
from handtorch.tune.candidates import candidates
from handtorch.tune.case import case_of
from handtorch.tune.families import family_of, usual_problems
from handtorch.tune.products import Products

T = TypeVar("T")
FORMS: dict[Form, tuple[tuple[bool, bool], ...]] = {            # (ta, tb) that a form computes
    "register": ((False, False), (True, False)),
    "packed": ((False, True), (True, True), (False, False), (True, False)),
    "dot": ((False, True),)}
OTHERS = 8                          # variants of each other form
SEARCHED = 24                       # variants of the full search in each form: the rest is alike
_ONE = (1, 1)


def phone_cases(spec: DeviceSpec) -> Iterator[Case]:
    """Every family whose launches depend on the device."""
    return chain.from_iterable(family(spec) for family in FAMILIES.values())


def first_of_each(shapes: Iterable[T], chosen: Callable[[T], Hashable]) -> list[T]:
    """The first shape for each thing that is chosen; the cheapest, if they come in that order."""
    found: dict[Hashable, T] = {}
    for shape in shapes:
        found.setdefault(chosen(shape), shape)
    return list(found.values())


# --- single products

def works(form: str) -> tuple[str, ...]:
    """gemm_dot updates no weights."""
    return ("epilogue", "plain") if form == "dot" else ("epilogue", "update", "plain")


def fitting(variant: Variant, ta: bool, tb: bool, groups: int) -> Product:
    """Just over `groups` work-groups both ways, or with 0 just over two items; K beside KU."""
    macros = dict(variant.defines)
    wide = DOT_COLUMNS if variant.form == "dot" else tile_width(macros)
    x, y = (groups * macros["WGX"], groups * macros["WGY"]) if groups else (2, 2)
    k = macros["V"] + 3 if variant.form == "dot" else 2 * macros["KU"] + 1
    return Product(macros["R"] * x + 1, wide * y + 1, k, ta, tb)


def products(spec: DeviceSpec) -> Iterator[Case]:
    """Every tile of the device's table in every form that it is used in, across a group's edge;
    then, for every tile that shapes get, the smallest shape that gets it."""
    tuning = tuning_for(spec)
    tiles: list[tuple[Form, Tile]] = [
        *(("register", t) for t in tuning.tiles), *(("packed", t) for t in tuning.tiles),
        *(("dot", t) for t in tuning.dots)]
    for form, tile in tiles:
        variant = Variant(form, tile.defines)
        for (ta, tb), work in zip(FORMS[form], cycle(works(form)), strict=False):
            yield _named("table", case_of(fitting(variant, ta, tb, 1), variant, spec, work))
    sizes = (1, 3, 8, 17, 40, 65, 130, 260)
    shapes = sorted((Product(m, n, 5, ta, tb) for m, n in product(sizes, sizes)
                     for ta, tb in product((False, True), repeat=2)), key=lambda p: p.m * p.n)
    for shape in first_of_each(shapes, lambda p: (p.ta, p.tb, table_variant(p, spec))):
        variant = table_variant(shape, spec)
        for work in works(variant.form)[:2]:
            yield _named("chosen", case_of(shape, variant, spec, work))


def searched(spec: DeviceSpec) -> tuple[Variant, ...]:
    """What tuning tries on the usual products, and a part of what a full search adds."""
    near = dict.fromkeys(v for p in Products().usual() for v in candidates(p, spec))
    found = [v for p in (Product(512, 512, 512), Product(512, 512, 512, tb=True))
             for v in candidates(p, spec, full=True) if v not in near]
    for form in FORMS:
        of_form = [v for v in dict.fromkeys(found) if v.form == form]
        near |= dict.fromkeys(of_form[::max(1, len(of_form) // SEARCHED)][:SEARCHED])
    return tuple(near)


def tuned(spec: DeviceSpec) -> Iterator[Case]:
    """The tuner's variants on less than one work-group, so that most items hang over the edge."""
    turns = {form: cycle(product(FORMS[form], works(form))) for form in FORMS}
    for variant in searched(spec):
        (ta, tb), work = next(turns[variant.form])
        yield _named("tuned", case_of(fitting(variant, ta, tb, 0), variant, spec, work))


def tuned_others(spec: DeviceSpec) -> Iterator[Case]:
    """The tuner's variants of batches and convolutions, some of each form, on problems just over
    a tile."""
    usual = [p for p in usual_problems() if not isinstance(p, Product)]
    found: dict[str, dict[Variant, Problem]] = {}
    for problem in usual:
        for variant in candidates(problem, spec):
            found.setdefault(variant.form, {})[variant] = problem
    for variants in found.values():
        for variant in list(variants)[::max(1, len(variants) // OTHERS)][:OTHERS]:
            problem = _just_over(variant, variants[variant])
            assert variant.fits(problem, spec), f"{problem} {variant}"
            work = family_of(problem).works(variant)[-1]
            yield _named("tuned", case_of(problem, variant, spec, work))


def _just_over(variant: Variant, problem: Problem) -> Problem:
    """Two pictures or matrices, channels or columns for more than one item; dot products need
    whole vectors."""
    macros = dict(variant.defines)
    wide = macros.get("NV", 1) * macros["V"] + 1
    if isinstance(problem, Batch):
        rows = macros["R"] + 1
        return replace(problem, count=2, m=rows, n=wide, k=5, one_a=False, one_b=False)
    assert isinstance(problem, ConvPass)
    c = replace(problem.conv, n=2, x=(3, 4), y=(3, 4)) if problem.conv.padding == _ONE else (
        replace(problem.conv, n=2, x=(1, 5), y=(1, 5)))
    if c.is_depthwise:
        c = replace(c, groups=2 * macros["V"])
    elif variant.form == "conv_dot":
        c = replace(c, inner=macros["NV"] + 1, outer=2 * macros["V"])
    elif problem.op == "conv_grad_input":
        c = replace(c, inner=wide, outer=3)
    else:
        c = replace(c, inner=min(c.inner, 5), outer=wide)
    return replace(problem, conv=c)


# --- batches of products

def batched(spec: DeviceSpec) -> Iterator[Case]:
    sizes = (1, 3, 8, 17, 33, 40, 65, 130, 520, 2080, 4160)
    shapes = sorted(product((1, 2, 3), sizes, sizes, (False, True), (False, True)),
                    key=lambda s: s[0] * s[1] * s[2])

    def chosen(shape: tuple[int, int, int, bool, bool]) -> Hashable:
        *_, last = _bmm(shape, spec)
        return shape[3:], last.kernel, last.defines
    for shape in first_of_each(shapes, chosen):
        batch, m, n, ta, tb = shape
        rng = np.random.default_rng(batch * m * n)
        a, b = (rng.normal(size=(batch, *s)).astype("f4") for s in ((m, 5), (5, n)))
        given = {0: a.swapaxes(1, 2) if ta else a, 1: b.swapaxes(1, 2) if tb else b}
        yield Case(f"bmm {batch} {m}x{n} {'nt'[ta]}{'nt'[tb]}", _bmm(shape, spec), given,
                   {2: a.astype("f8") @ b})


def _bmm(shape: tuple[int, int, int, bool, bool], spec: DeviceSpec) -> tuple[Step, ...]:
    batch, m, n, ta, tb = shape
    a = Value(0, (batch, 5, m) if ta else (batch, m, 5))
    b = Value(1, (batch, n, 5) if tb else (batch, 5, n))
    return bmm_steps(a, b, Value(2, (batch, m, n)), ta=ta, tb=tb, spec=spec,
                     new_value=lambda shape: Value(3, shape))


# --- convolutions

def _square(n: int, inner: int, outer: int, side: int, kernel: int) -> Conv:
    y = side + 1 - kernel % 2
    return Conv(n, 1, inner, outer, (side, side), (y, y), (kernel, kernel), _ONE,
                (kernel // 2, kernel // 2), _ONE)


def convolutions(spec: DeviceSpec) -> Iterator[Case]:
    """The shapes of every device; for each tile that shapes get, the smallest that gets it; a
    gradient of a weight in several partial sums, of a depthwise one too."""
    for number, conv in enumerate(SHAPES):
        yield from passes(f"chosen {number}", Launches(conv, spec, scratch()))
    pictures = sorted(product((1, 2, 4, 8, 16, 33, 65), (3, 17, 33, 65, 130, 260, 1040)), key=prod)
    weights = sorted(product((1, 3, 9, 17, 40, 130, 260, 520, 1040, 2080, 4160),
                             (1, 3, 5, 17, 33, 65, 130, 260, 520)), key=prod)
    searches: dict[str, list[Conv]] = {
        "forward": [_square(n, 1, channels, 8, 2) for n, channels in pictures],
        "grad_input": [_square(n, channels, 1, 8, 2) for n, channels in pictures],
        "grad_weight": [_square(3, inner, outer, 1, 1) for inner, outer in weights]}
    for kind, shapes in searches.items():
        for conv in first_of_each(shapes, lambda c, kind=kind: _last_defines(c, spec, kind)):
            told = f"smallest {conv.n}x{conv.inner}x{conv.outer}"
            yield from passes(told, Launches(conv, spec, scratch()), (kind,))
    many = _square(2, 2, 5, 24, 3)
    apart = replace(many, groups=4, inner=1, outer=1)
    for name, conv in (("parts", many), ("depthwise parts", apart)):
        yield from passes(name, Launches(conv, spec, scratch()))


def _last_defines(c: Conv, spec: DeviceSpec, kind: str) -> Hashable:
    """The macros of the launch that does the work."""
    x, y = (Value(i, (c.n, *side, channels)) for i, (side, channels) in
            enumerate(((c.x, c.inner), (c.y, c.outer))))
    w = Value(2, (*c.kernel, c.inner, c.outer))
    does = Launches(c, spec, scratch())
    steps = {"forward": lambda: does.forward(x, w, y),
             "grad_input": lambda: does.grad_input(y, w, x),
             "grad_weight": lambda: does.grad_weight(y, x, w)}[kind]()
    *_, last = (s for s in steps if s.kernel in ("conv_tile", "conv_weight"))
    return last.defines


# --- the others

def layers(spec: DeviceSpec) -> Iterator[Case]:
    """Every cell at the hidden sizes around vectors and groups; steps as launches too, which
    only layers get that are too large to be simulated."""
    for cell, hidden in (*product(GATES, (5, 36)), ("relu", 261), ("gru", 66)):
        for batch in (1, 3):
            layer = Layer(cell, batch, 2, hidden, reverse=batch == 3)
            choice = choose(layer, spec)
            yield from rnn.passes(f"chosen {cell} {batch}x{hidden}", layer, choice)
    for cell in GATES:
        layer = Layer(cell, 3, 2, 66, batch_first=True)
        yield from rnn.passes(f"chosen {cell} stepped", layer,
                              replace(choose(layer, spec), stepped=True))


def rooflines(spec: DeviceSpec) -> Iterator[Case]:
    x = np.arange(1027, dtype="f4")
    yield Case("chosen copy", (copy_step(spec, x.size),), {0: x}, {1: x}, 1e-12)
    step = fma_step(spec, 1)
    (y,) = (o.value for o in step.operands)
    macros = dict(step.defines)
    items = np.arange(y.size)[:, None] + np.arange(int(macros["CHAINS"]))
    yield Case("chosen peak_fma", (step,), {},
               {y.id: int(macros["V"]) * (items * 0.5 + 0.25).sum(1)}, 1e-6)


def _named(name: str, case: Case) -> Case:
    return replace(case, name=f"{name} {case.name}")


FAMILIES: dict[str, Callable[[DeviceSpec], Iterator[Case]]] = {
    "table": products, "tuned": tuned, "others": tuned_others, "bmm": batched, "rnn": layers,
    "roofline": rooflines,
    "conv": convolutions}           # the dearest answers last: a sweep may end before them
