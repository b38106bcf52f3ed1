"""Which variants of a problem are worth trying. Pure.

Stage 0 is the table (`kernels/tuned/gemm.json` and the arithmetic of the families); its choice is
the first candidate, so that no result is worse than what was there before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, zip_longest
from itertools import product as each

from handtorch.graph.device_spec import DeviceSpec
from handtorch.kernels.spec import ceil_div
from handtorch.kernels.variant import Problem, Variant
from handtorch.tune.families import family_of
from handtorch.tune.products import item_columns

MOST = 28                         # candidates of a problem in stage 1
_TILES = 6                        # of the table, in each form
_ONLY = 18                        # the same where there is one form, and no work-groups to try


def candidates(problem: Problem, spec: DeviceSpec, *, full: bool = False) -> tuple[Variant, ...]:
    """Variants that compute the problem on this device and have not failed there; the table's
    choice first. Stage 1: at most `MOST`, good tiles and small changes to them. `full`, stage 2:
    then everything the kernels can be built with, the most promising first."""
    near = _fitting(_near(problem, spec), problem, spec)[:MOST]
    if not full:
        return near
    rest = sorted(_fitting(_all(problem, spec), problem, spec),
                  key=lambda v: _guess(v, problem, spec))
    return tuple(dict.fromkeys((*near, *rest)))


def _fitting(found: Iterable[Variant], problem: Problem, spec: DeviceSpec
             ) -> tuple[Variant, ...]:
    return tuple(v for v in dict.fromkeys(found)
                 if v.fits(problem, spec) and v.built not in spec.avoid)


def _near(problem: Problem, spec: DeviceSpec) -> Iterator[Variant]:
    family = family_of(problem)
    base = problem.table_variant(spec)
    yield base
    only = len(problem.forms()) == 1 and not family.groups(base.form, spec)
    by_form = [_fitting(family.from_table(form, problem, spec), problem, spec)
               [:_ONLY if only else _TILES] for form in problem.forms()]
    turns = [v for v in chain.from_iterable(zip_longest(*by_form)) if v is not None]
    yield from turns[:len(by_form)]
    for variant in dict.fromkeys((base, *turns[:len(by_form)])):
        yield from (variant.but(WGX=x, WGY=y) for x, y in family.groups(variant.form, spec))
    yield from turns[len(by_form):]
    for variant in dict.fromkeys((base, *turns)):
        yield from _neighbours(variant, family.space(variant.form))


def _neighbours(variant: Variant, space: Mapping[str, Sequence[int]]) -> Iterator[Variant]:
    """The next smaller and larger value of each macro, one at a time."""
    for name, now in variant.defines:
        values = space.get(name, ())
        smaller, larger = [v for v in values if v < now], [v for v in values if v > now]
        yield from (variant.but(**{name: v}) for v in (*smaller[-1:], *larger[:1]))


def _all(problem: Problem, spec: DeviceSpec) -> Iterator[Variant]:
    family = family_of(problem)
    for form in problem.forms():
        space = family.space(form)
        groups = [{"WGX": x, "WGY": y} for x, y in family.groups(form, spec)] or [{}]
        for values, group in each(each(*space.values()), groups):
            yield Variant.of(form, {**dict(zip(space, values, strict=True)), **group})


def _guess(variant: Variant, problem: Problem, spec: DeviceSpec) -> float:
    """Padded work over the multiply-adds for each number loaded: for the order only."""
    macros = dict(variant.defines)
    m, n = family_of(problem).outputs(problem)
    rows = macros.get("R", macros.get("TAPS", 1))
    wide = item_columns(variant) if "WGY" in macros else macros["V"]
    area = rows * macros.get("WGX", 1), wide * macros.get("WGY", 1)
    groups = ceil_div(m, area[0]) * ceil_div(n, area[1])
    return (groups + spec.compute_units) * area[0] * area[1] * (rows + wide) / (rows * wide)
