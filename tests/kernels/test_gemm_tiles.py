"""The table of tiles and the choice among them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from handtorch.errors import BadInput, KernelError
from handtorch.graph.device_spec import GENERIC, KINDS, DeviceSpec
from handtorch.graph.node import Value
from handtorch.graph.step import Step
from handtorch.kernels.case import Case
from handtorch.kernels.gemm import matmul_steps
from handtorch.kernels.gemm_specs import DOT, PACK_B, REGISTER, Sgd
from handtorch.kernels.gemm_tiles import (
    SHORT,
    Form,
    Product,
    Tile,
    as_product,
    best_tile,
    row_groups,
    table,
    table_variant,
    tuning_for,
)
from handtorch.kernels.results import kernels_key, results_name
from handtorch.kernels.spec import ceil_div
from handtorch.kernels.variant import Variant, as_variant, tuned_variant
from handtorch.runtime.opencl.context import OpenCLContext
from handtorch.runtime.opencl.discover import FoundDevice
from handtorch.selftest import SelfTest, run_all

CPU = replace(GENERIC, kind="cpu", float_width=16, max_work_group=4096)


def groups(tile: Tile, m: int, n: int) -> int:
    return ceil_div(m, tile.rows) * ceil_div(n, tile.columns)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("width", [1, 2, 4, 8, 16, 32])
def test_every_device_has_an_entry_and_any_shape_a_tile(kind: str, width: int) -> None:
    spec = replace(GENERIC, kind=kind, float_width=width, max_work_group=1)
    tuning = tuning_for(spec)
    assert tuning.float_width <= width
    for m, n in ((1, 1), (1, 1000), (1000, 1), (3, 17), (1024, 1024)):
        assert best_tile(tuning.tiles, m, n, spec).item_columns <= n
        assert best_tile(tuning.dots, m, n, spec).items == 1


def test_the_widest_entry_that_fits_is_taken() -> None:
    widths = [tuning_for(replace(CPU, float_width=w)).float_width for w in (1, 4, 8, 16, 32)]
    assert widths == [1, 1, 8, 16, 16]


def test_tiles_hold_macros_their_kernels_know() -> None:
    for tuning in table():
        assert {k for t in tuning.tiles for k, _ in t.defines} <= REGISTER.defaults.keys()
        assert {k for t in tuning.dots for k, _ in t.defines} <= DOT.defaults.keys()
        assert tuning.pack.keys() <= PACK_B.defaults.keys()
        assert max(t.rate for t in tuning.tiles) == 1.0
        assert all(t.items <= 256 for t in (*tuning.tiles, *tuning.dots))   # a phone's limit


def test_large_products_take_the_fastest_tile() -> None:
    tiles = tuning_for(CPU).tiles
    assert best_tile(tiles, 1024, 1024, CPU).rate == 1.0


@pytest.mark.parametrize("m, n", [(32, 256), (256, 256), (128, 128), (784, 256), (512, 512)])
def test_a_launch_has_groups_for_every_core(m: int, n: int) -> None:
    assert groups(best_tile(tuning_for(CPU).tiles, m, n, CPU), m, n) >= 32


def test_more_units_make_smaller_tiles() -> None:
    few, many = CPU, replace(CPU, compute_units=64)
    tiles = tuning_for(CPU).tiles
    assert groups(best_tile(tiles, 128, 128, many), 128, 128) \
        > groups(best_tile(tiles, 128, 128, few), 128, 128)


def test_cost_counts_padding_and_idle_units() -> None:
    tile = Tile((), 16, rows=4, columns=16, items=1, rate=0.5, short_rate=0.25)
    assert tile.cost(4, 16, units=0) == 128             # one group of 64 outputs at half the rate
    assert tile.cost(5, 17, units=2) == (4 + 2) * 128   # four groups, and two idle
    assert tile.cost(4, 16, units=0, k=SHORT - 1) == 256


@pytest.mark.parametrize(("platform", "n", "want"), [
    ("Intel(R) OpenCL", 256, {"WGX": 4}), ("Intel(R) OpenCL", 64, {}),
    ("Portable Computing Language", 1024, {})])
def test_row_tiles_share_a_group_only_where_the_platform_gains(platform: str, n: int,
                                                               want: dict[str, int]) -> None:
    spec = replace(GENERIC, kind="cpu", float_width=16, platform=platform)
    tile = best_tile(tuning_for(spec).tiles, n, n, spec)
    assert row_groups(tile, n, n, spec) == want


@pytest.mark.parametrize(("text", "want"), [
    ("1024x1024x1024", (16, 1)), ("128x128x128", (8, 1)), ("32x256x784 nt", (8, 4)),
    ("32x16x128 nt", (8, 2)), ("1x1x1", (1, 1))])
def test_a_small_product_has_few_groups(text: str, want: tuple[int, int]) -> None:
    spec = replace(GENERIC, kind="cpu", float_width=16, platform="Intel(R) OpenCL",
                   compute_units=2)
    made = dict(table_variant(as_product(text), spec).defines)
    assert (made["WGX"], made["WGY"]) == want
    alone = dict(table_variant(as_product(text), replace(spec, platform="another")).defines)
    assert (alone["WGX"], alone["WGY"]) == (1, 1)


PHONES = {
    "QUALCOMM Adreno(TM)|OpenCL 3.0 Adreno(TM) 730": {"R": 16, "NV": 2, "V": 2},
    "QUALCOMM Adreno(TM)|OpenCL 2.0 Adreno(TM) 650": {"R": 8, "NV": 1, "V": 4},
    "Mali-G610 r0p0|OpenCL 3.0": {"R": 8, "NV": 1, "V": 4},
    "PowerVR BXE-4-32|OpenCL 3.0": {"R": 8, "NV": 2, "V": 4},
    "Intel(R) UHD Graphics 770|OpenCL 3.0 NEO": {"R": 8, "NV": 1, "V": 4},
    "NVIDIA GeForce RTX 3060|OpenCL 3.0 CUDA": {"R": 8, "NV": 2, "V": 4},
    "Acme One|OpenCL 3.0": {"R": 4, "NV": 2, "V": 4},
}


@pytest.mark.parametrize("told", PHONES)
def test_a_gpu_gets_the_tiles_of_its_family(told: str) -> None:
    name, version = told.split("|")
    spec = replace(GENERIC, name=name, device_version=version, compute_units=1)
    defines = dict(best_tile(tuning_for(spec).tiles, 2048, 2048, spec).defines)
    assert {k: defines[k] for k in ("R", "NV", "V")} == PHONES[told]


def test_a_family_is_of_its_kind_only() -> None:
    """Intel's CPUs and Arm's are named after the same vendors as their GPUs."""
    plain = tuning_for(CPU)
    assert tuning_for(replace(CPU, vendor="Intel(R) Corporation", name="Mali")) == plain


@pytest.mark.parametrize("text", ["32x256x784 nt", "1x1x1 nn", "5x6x7 tt"])
def test_a_product_is_read_as_it_is_written(text: str) -> None:
    assert str(as_product(text)) == text


def test_a_product_is_not_transposed_unless_it_says_so() -> None:
    assert as_product("4x5x6") == Product(4, 5, 6)


@pytest.mark.parametrize("text", ["", "4x5", "4x5x0", "4x5x6 xy", "4x5x6nt", "-4x5x6", "4x5x6 n",
                                  "4x5x99999999999", "4x5x2147483648", "\u0664x5x6"])
def test_what_is_no_product_is_refused(text: str) -> None:
    with pytest.raises(BadInput) as caught:
        as_product(text)
    assert str(caught.value) == (
        f"product {text!r}: it is not rows x columns x depth of at least 1, then which operands "
        "are transposed\n  try: 32x256x784 nt, for example")


def test_every_tile_of_the_table_is_read_as_it_is_written() -> None:
    for tuning in table():
        made: list[tuple[Form, tuple[Tile, ...]]] = [
            ("register", tuning.tiles), ("packed", tuning.tiles), ("dot", tuning.dots)]
        for form, tiles in made:
            for tile in tiles:
                variant = Variant(form, tile.defines)
                assert as_variant(str(variant)) == variant


@pytest.mark.parametrize("text", [
    "", "naive", "register", "dot R1 V4 WGX1", "dot R1 V4 WGX1 WGY1 KU1", "dot V4 R1 WGX1 WGY1",
    "dot R17 V4 WGX1 WGY1", "dot R1 V2 WGX1 WGY1", "dot R1 V4 WGX0 WGY1", "dot R01 V4 WGX1 WGY1",
    "dot R1  V4 WGX1 WGY1", "register KU3 NV1 R1 V1 WGX1 WGY1", "dot R1 V4 WGX1 WGY1025",
    "register KU1 NV1 R1 V3 WGX1 WGY1", "dot R1 R1 V4 WGX1 WGY1"])
def test_what_no_kernel_can_be_built_with_is_refused(text: str) -> None:
    with pytest.raises(BadInput) as caught:
        as_variant(text)
    assert str(caught.value) == (f"variant {text!r}: no kernel can be built with that\n  try: "
                                 "`handtorch tune` writes the variants there are")


REGISTERS = "register KU2 NV1 R4 V8 WGX1 WGY1"
PACKED, DOTS = "packed KU2 NV1 R4 V8 WGX1 WGY1", "dot R2 V8 WGX2 WGY1"


def tuned(*pairs: tuple[str, str], avoid: tuple[str, ...] = ()) -> DeviceSpec:
    return replace(CPU, tuned=pairs, avoid=avoid, max_work_items=(4096, 4096, 4096))


@pytest.mark.parametrize(("asked", "found"), [
    ("64x64x64 nn", REGISTERS), ("64x64x64 tn", None), ("33x64x50 nn", REGISTERS),
    ("32x64x64 nn", None), ("65x64x64 nn", None), ("128x128x128 nn", PACKED),
    ("120x100x65 nn", PACKED), ("8x7x8 nn", None), ("16x32x64 nt", DOTS)])
def test_the_same_product_or_one_of_its_class(asked: str, found: str | None) -> None:
    spec = tuned(("64x64x64 nn", REGISTERS), ("128x128x128 nn", PACKED), ("16x32x64 nt", DOTS),
                 ("8x8x8 nn", REGISTERS))
    assert tuned_variant(as_product(asked), spec) == (found and as_variant(found))


def test_the_nearest_of_a_class_is_taken() -> None:
    spec = tuned(("64x64x64 nn", REGISTERS), ("40x64x64 nn", PACKED))
    for rows, found in ((40, PACKED), (41, PACKED), (63, REGISTERS), (64, REGISTERS)):
        assert tuned_variant(Product(rows, 64, 64), spec) == as_variant(found)


def test_a_variant_the_device_has_no_room_for_is_not_taken() -> None:
    spec = tuned(("16x32x64 nt", DOTS))
    assert tuned_variant(Product(16, 32, 64, tb=True), replace(spec, max_work_group=1)) is None
    assert tuned_variant(Product(16, 32, 64, tb=True),
                         replace(spec, max_work_items=(1, 4, 4))) is None


def test_what_failed_is_chosen_neither_by_the_table_nor_as_tuned() -> None:
    product = Product(64, 64, 64)
    assert tuned_variant(product, tuned(("64x64x64 nn", REGISTERS), avoid=(REGISTERS,))) is None
    first = table_variant(product, CPU)
    second = table_variant(product, replace(CPU, avoid=(str(first),)))
    third = table_variant(product, replace(CPU, avoid=(str(first), str(second))))
    assert len({first, second, third}) == 3
    # The same tile in another form is as little trusted: it is the same code.
    packed = table_variant(product, replace(CPU, avoid=(str(first),)), "packed")
    assert packed.defines != first.defines


def test_groups_that_failed_are_left_out() -> None:
    spec = replace(CPU, platform="Intel(R) OpenCL")
    grouped = table_variant(Product(256, 256, 256), spec)
    assert dict(grouped.defines)["WGX"] == 8
    alone = table_variant(Product(256, 256, 256), replace(spec, avoid=(str(grouped),)))
    assert dict(alone.defines) == {**dict(grouped.defines), "WGX": 1}


@pytest.mark.parametrize(("kernel", "form"), [("gemm_register", "packed"), ("gemm_dot", "dot")])
def test_a_driver_without_a_right_tile_for_every_shape_is_refused(kernel: str, form: Form
                                                                  ) -> None:
    tiles = tuning_for(GENERIC).dots if form == "dot" else tuning_for(GENERIC).tiles
    last = str(Variant(form, tiles[-1].defines))
    with pytest.raises(KernelError) as caught:
        tuning_for(replace(GENERIC, avoid=(last,)))
    assert str(caught.value) == (
        f"no tile of {kernel} for every shape is right on generic: 1 variants failed with driver "
        "\n  try: another driver or device; `handtorch tune --fresh` if these failures had "
        "another cause")


def steps_of(spec: DeviceSpec, *, tb: bool = False, form: Form | None = None,
             update: Sgd | None = None) -> tuple[Step, ...]:
    a, b, c = Value(0, (64, 64)), Value(1, (64, 64)), Value(2, (64, 64))
    return matmul_steps(a, b, c, tb=tb, spec=spec, new_value=lambda s: Value(3, s), form=form,
                        update=update)


def variant_of(steps: tuple[Step, ...]) -> str:
    macros = dict(steps[-1].defines)
    form: Form = ("dot" if steps[-1].kernel == "gemm_dot" else "packed" if macros["PB"]
                  else "register")
    names = ("R", "V", "WGX", "WGY") if form == "dot" else ("KU", "NV", "R", "V", "WGX", "WGY")
    return str(Variant.of(form, {k: int(macros[k]) for k in names}))


def test_launches_follow_what_was_tuned() -> None:
    assert variant_of(steps_of(tuned(("64x64x64 nn", REGISTERS)))) == REGISTERS
    packed = steps_of(tuned(("64x64x64 nn", PACKED)))
    assert [s.kernel for s in packed] == ["pack_b", "gemm_register"]
    assert variant_of(packed) == PACKED
    assert variant_of(steps_of(tuned(("64x64x64 nt", DOTS)), tb=True)) == DOTS
    assert steps_of(tuned(("64x64x64 tt", PACKED))) == steps_of(CPU)


def test_a_form_asked_for_counts_more_than_what_was_tuned() -> None:
    spec = tuned(("64x64x64 nn", PACKED))
    assert steps_of(spec, form="register") == steps_of(CPU, form="register")
    assert variant_of(steps_of(spec, form="packed")) == PACKED


def test_a_kernel_that_cannot_update_is_not_taken_for_an_update() -> None:
    rule = Sgd(Value(4, (1,)), None, 0.0, 0.0, False, False)
    spec = tuned(("64x64x64 nt", DOTS))
    assert steps_of(spec, tb=True, form="packed", update=rule) == steps_of(
        CPU, tb=True, form="packed", update=rule)


def test_results_are_filed_under_device_driver_and_kernels() -> None:
    assert results_name(GENERIC) == f"{GENERIC.key}-{kernels_key()}.json"
    assert results_name(replace(GENERIC, driver="newer")) != results_name(GENERIC)


@pytest.mark.spread
def test_the_tiles_of_every_family_are_right_here_too(opencl_device: FoundDevice) -> None:
    """At sizes just over a work-group, so that every edge is met."""
    on = OpenCLContext(opencl_device)
    tiles = {t for tuning in table() if tuning.match for t in tuning.tiles}
    assert len(tiles) > 10
    cases = []
    for tile in sorted(tiles, key=lambda t: t.defines):
        product = Product(tile.rows + 1, tile.columns + 1, 5)
        spec = replace(on.spec, tuned=((str(product), str(Variant("register", tile.defines))),))
        rng = np.random.default_rng(tile.rows)
        a, b = (rng.normal(size=s).astype("f4") for s in ((product.m, 5), (5, product.n)))
        steps = matmul_steps(Value(0, a.shape), Value(1, b.shape),
                             Value(2, (product.m, product.n)), spec=spec,
                             new_value=lambda s: Value(3, s))
        assert variant_of(steps) == str(Variant("register", tile.defines))
        cases.append(Case(str(tile), steps, {0: a, 1: b}, {2: a.astype("f8") @ b.astype("f8")}))
    assert run_all(on, tuple(cases)) == SelfTest("passed", (), len(tiles))
