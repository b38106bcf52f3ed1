"""Which products are worth tuning, and which variants of each are worth trying. Pure.

Stage 0 is the table (`kernels/tuned/gemm.json`); its choice is the first candidate, so that no
result is worse than what was there before."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, pairwise, zip_longest
from itertools import product as each

from handtorch.graph.device_spec import DeviceSpec
from handtorch.kernels.gemm_specs import DOT, DOT_COLUMNS, REGISTER, tile_width
from handtorch.kernels.gemm_tiles import (
    Form,
    Product,
    Tile,
    Tuning,
    Variant,
    table_variant,
    tuning_for,
)
from handtorch.kernels.spec import ceil_div

MOST = 28                         # candidates of a product in stage 1
_TILES = 6                        # of the table, in each form
_SQUARES = (64, 128, 256, 512, 1024)
_BATCH, _WIDTHS = 32, (784, 256, 128, 16)


def usual_products() -> tuple[Product, ...]:
    """Squares, and a training step of a perceptron on MNIST: forward, and both gradients."""
    layers = list(pairwise(_WIDTHS))
    return (*(Product(n, n, n) for n in _SQUARES),
            *(Product(_BATCH, out, into, tb=True) for into, out in layers),
            *(Product(_BATCH, into, out) for into, out in layers[1:]),
            *(Product(out, into, _BATCH, ta=True) for into, out in layers))


def candidates(product: Product, spec: DeviceSpec, *, full: bool = False) -> tuple[Variant, ...]:
    """Variants that compute the product on this device and have not failed there; the table's
    choice first. Stage 1: at most `MOST`, good tiles and small changes to them. `full`, stage 2:
    then everything the kernels can be built with, the most promising first."""
    tuning = tuning_for(spec)
    near = _fitting(_near(product, spec, tuning), product, spec)[:MOST]
    if not full:
        return near
    rest = sorted(_fitting(_all(product, tuning), product, spec),
                  key=lambda v: _guess(v, product, spec))
    return tuple(dict.fromkeys((*near, *rest)))


def _fitting(found: Iterator[Variant], product: Product, spec: DeviceSpec
             ) -> tuple[Variant, ...]:
    return tuple(v for v in dict.fromkeys(found)
                 if v.fits(product, spec) and str(v) not in spec.avoid)


def _near(product: Product, spec: DeviceSpec, tuning: Tuning) -> Iterator[Variant]:
    base = table_variant(product, spec)
    yield base
    by_form = [_of_table(form, product, spec, tuning) for form in product.forms()]
    turns = [v for v in chain.from_iterable(zip_longest(*by_form)) if v is not None]
    yield from turns[:len(by_form)]
    for variant in dict.fromkeys((base, *turns[:len(by_form)])):
        yield from (_with(variant, WGX=x, WGY=y) for x, y in tuning.groups)
    yield from turns[len(by_form):]
    yield from _neighbours(base)


def _of_table(form: Form, product: Product, spec: DeviceSpec, tuning: Tuning) -> list[Variant]:
    """The table's cheapest tiles for this shape."""
    def cost(tile: Tile) -> float:
        return tile.cost(product.m, product.n, spec.compute_units, product.k)
    tiles = tuning.dots if form == "dot" else tuning.tiles
    fits = [t for t in tiles if Variant(form, t.defines).fits(product, spec)]
    return [Variant(form, t.defines) for t in sorted(fits, key=cost)[:_TILES]]


def _neighbours(variant: Variant) -> Iterator[Variant]:
    """The next smaller and larger value of each macro, one at a time."""
    space = (DOT if variant.form == "dot" else REGISTER).space
    for name, now in variant.defines:
        values = space.get(name, ())
        smaller, larger = [v for v in values if v < now], [v for v in values if v > now]
        yield from (_with(variant, **{name: v}) for v in (*smaller[-1:], *larger[:1]))


def _all(product: Product, tuning: Tuning) -> Iterator[Variant]:
    for form in product.forms():
        space = (DOT if form == "dot" else REGISTER).space
        for values, (x, y) in each(each(*space.values()), tuning.groups):
            macros = dict(zip(space, values, strict=True))
            yield Variant.of(form, {**macros, "WGX": x, "WGY": y})


def _guess(variant: Variant, product: Product, spec: DeviceSpec) -> float:
    """Padded work over the multiply-adds for each number loaded: for the order only."""
    macros = dict(variant.defines)
    rows = macros["R"]
    wide = DOT_COLUMNS if variant.form == "dot" else tile_width(macros)
    area = rows * macros["WGX"], wide * macros["WGY"]
    groups = ceil_div(product.m, area[0]) * ceil_div(product.n, area[1])
    return (groups + spec.compute_units) * area[0] * area[1] * (rows + wide) / (rows * wide)


def _with(variant: Variant, **macros: int) -> Variant:
    return Variant.of(variant.form, {**dict(variant.defines), **macros})
