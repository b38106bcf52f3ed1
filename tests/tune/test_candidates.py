"""Which products and variants are tried: enough, legal, in a good order."""

from __future__ import annotations

from dataclasses import replace

import pytest

from handtorch.graph.device_spec import GENERIC, DeviceSpec
from handtorch.kernels.gemm_tiles import Product, table_variant
from handtorch.tune.candidates import MOST, candidates, usual_products

CPU = replace(GENERIC, kind="cpu", float_width=16, max_work_group=4096,
              max_work_items=(4096, 4096, 4096))
SPECS = {"phone": GENERIC, "cpu": CPU, "narrow": replace(CPU, float_width=4),
         "adreno": replace(GENERIC, vendor="QUALCOMM", name="QUALCOMM Adreno(TM)"),
         "one item": replace(GENERIC, max_work_group=1)}


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
@pytest.mark.parametrize("product", usual_products(), ids=str)
def test_a_dozen_to_thirty_that_fit_and_the_tables_choice_first(product: Product,
                                                                spec: DeviceSpec) -> None:
    found = candidates(product, spec)
    assert found[0] == table_variant(product, spec)
    assert len(set(found)) == len(found) <= MOST <= 30
    assert len(found) >= (12 if spec.max_work_group > 1 and product.n > 16 else 3)
    assert all(v.fits(product, spec) for v in found)
    assert {v.form for v in found} == set(product.forms())


@pytest.mark.parametrize("product", [Product(1, 1, 1), Product(1, 1, 1, ta=True, tb=True),
                                     Product(7, 3, 2, tb=True)], ids=str)
def test_the_smallest_products_have_candidates_too(product: Product) -> None:
    found = candidates(product, CPU)
    assert found and all(v.fits(product, CPU) for v in found)


def test_all_of_it_goes_on_where_the_first_stage_ends() -> None:
    product = Product(512, 512, 512)
    near, full = candidates(product, CPU), candidates(product, CPU, full=True)
    assert full[:len(near)] == near
    assert len(set(full)) == len(full) > 1000
    assert all(v.fits(product, CPU) for v in full)
    wide = [dict(v.defines)["V"] for v in full]
    assert wide.index(1, len(near)) > wide.index(16, len(near))     # the promising ones come first


def test_what_failed_is_no_candidate_and_another_is_the_tables_choice() -> None:
    product = Product(512, 512, 512)
    first, *others = candidates(product, CPU)
    found = candidates(product, replace(CPU, avoid=(str(first), str(others[0]))))
    assert first not in found and others[0] not in found
    assert found[0] == table_variant(product, replace(CPU, avoid=(str(first),)))


def test_the_usual_products_are_squares_and_a_perceptrons_step() -> None:
    names = [str(p) for p in usual_products()]
    assert len(names) == len(set(names)) == 13
    assert "512x512x512 nn" in names
    # 784 inputs to 256 outputs: forward, and the weight's gradient; nobody needs the input's.
    assert {"32x256x784 nt", "256x784x32 tn"} <= set(names) and "32x784x256 nn" not in names
