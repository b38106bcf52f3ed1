"""Which products and variants are tried: enough, legal, in a good order."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from handtorch.graph.device_spec import GENERIC, DeviceSpec
from handtorch.kernels.gemm_tiles import Product
from handtorch.kernels.results import as_problem
from handtorch.kernels.variant import FOR_CACHES, Problem, as_variant
from handtorch.tune.candidates import MOST, candidates
from handtorch.tune.convolutions import Convolutions
from handtorch.tune.families import usual_problems
from handtorch.tune.products import Products

CPU = replace(GENERIC, kind="cpu", float_width=16, max_work_group=4096,
              max_work_items=(4096, 4096, 4096))
SPECS = {"phone": GENERIC, "cpu": CPU, "narrow": replace(CPU, float_width=4),
         "adreno": replace(GENERIC, vendor="QUALCOMM", name="QUALCOMM Adreno(TM)"),
         "one item": replace(GENERIC, max_work_group=1)}


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
@pytest.mark.parametrize("problem", usual_problems(), ids=str)
def test_a_dozen_to_thirty_that_fit_and_the_tables_choice_first(problem: Problem,
                                                                spec: DeviceSpec) -> None:
    found = candidates(problem, spec)
    assert found[0] == problem.table_variant(spec)
    assert len(set(found)) == len(found) <= MOST <= 30
    few = spec.max_work_group == 1 or (isinstance(problem, Product) and problem.n <= 16)
    assert len(found) >= (3 if few else 12)
    assert all(v.fits(problem, spec) and as_variant(str(v)) == v for v in found)
    assert {v.form for v in found} == {
        form for form in problem.forms() if spec.kind == "cpu" or form not in FOR_CACHES}


def test_a_full_search_of_a_convolution_tries_every_way_to_build_it() -> None:
    problem = as_problem("conv_grad_input 16x32x32x64 64 3x3 p1x1")
    near, full = candidates(problem, CPU), candidates(problem, CPU, full=True)
    assert full[:len(near)] == near and len(set(full)) == len(full) > 500
    assert all(v.fits(problem, CPU) and as_variant(str(v)) == v for v in full)
    built = {(v.form, *(dict(v.defines)[k] for k in ("R", "NV", "V"))) for v in full}
    space = Convolutions().space("conv_packed")
    assert {("conv_packed", *macros) for macros in product(
        space["R"], space["NV"], space["V"])} <= built


@pytest.mark.parametrize("problem", [
    Product(1, 1, 1), Product(1, 1, 1, ta=True, tb=True), Product(7, 3, 2, tb=True),
    *map(as_problem, ("bmm 1x1x1x1 nn", "bmm 2x1x1x1 tt b1", "conv 1x1x1x1 1 1x1",
                      "conv_grad_input 1x1x1x1 1 1x1", "conv_grad_weight 1x1x1x1 1 1x1",
                      "conv 1x1x1x3 3 1x1 g3", "conv_grad_weight 1x1x1x3 3 1x1 g3"))], ids=str)
def test_the_smallest_problems_have_candidates_too(problem: Problem) -> None:
    for spec in (CPU, GENERIC):
        found = candidates(problem, spec)
        assert found and all(v.fits(problem, spec) for v in found)


def test_all_of_it_goes_on_where_the_first_stage_ends() -> None:
    problem = Product(512, 512, 512)
    near, full = candidates(problem, CPU), candidates(problem, CPU, full=True)
    assert full[:len(near)] == near
    assert len(set(full)) == len(full) > 1000
    assert all(v.fits(problem, CPU) for v in full)
    wide = [dict(v.defines)["V"] for v in full]
    assert wide.index(1, len(near)) > wide.index(16, len(near))     # the promising ones come first


@pytest.mark.parametrize("text", [
    "512x512x512 nn", "bmm 64x64x64x32 nt", "conv 16x32x32x64 64 3x3 p1x1",
    "conv_grad_input 16x4x4x512 512 3x3 p1x1", "conv_grad_weight 16x32x32x64 64 3x3 p1x1",
    "conv 16x16x16x96 96 3x3 p1x1 g96", "conv_grad_weight 16x16x16x96 96 3x3 p1x1 g96"])
def test_what_failed_is_no_candidate_and_another_is_the_tables_choice(text: str) -> None:
    problem = as_problem(text)
    first, *others = candidates(problem, CPU)
    other = next(v for v in others if v.built != first.built)
    avoid = (first.built, other.built)
    found = candidates(problem, replace(CPU, avoid=avoid))
    assert found and not {v.built for v in found} & set(avoid)
    assert found[0] == problem.table_variant(replace(CPU, avoid=avoid))


def test_the_usual_products_are_squares_and_a_perceptrons_step() -> None:
    names = [str(p) for p in Products().usual()]
    assert len(names) == len(set(names)) == 13
    assert "512x512x512 nn" in names
    # 784 inputs to 256 outputs: forward, and the weight's gradient; nobody needs the input's.
    assert {"32x256x784 nt", "256x784x32 tn"} <= set(names) and "32x784x256 nn" not in names
