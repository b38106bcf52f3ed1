"""Passes of convolutions as text, and which variants compute them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from handtorch.errors import BadInput, KernelError
from handtorch.graph.device_spec import GENERIC
from handtorch.kernels.bmm_tiles import Batch
from handtorch.kernels.conv_cases import SHAPES
from handtorch.kernels.conv_shapes import Conv
from handtorch.kernels.conv_tiles import ConvPass, Op
from handtorch.kernels.results import as_problem
from handtorch.kernels.variant import as_built, as_variant, tuned_variant

CPU = replace(GENERIC, kind="cpu", float_width=16, max_work_items=(256, 256, 256))
OPS: tuple[Op, ...] = ("conv", "conv_grad_input", "conv_grad_weight")


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("conv", SHAPES, ids=str)
def test_a_pass_is_read_as_it_is_written_and_has_a_variant_everywhere(op: Op, conv: Conv) -> None:
    problem = ConvPass(op, conv)
    assert as_problem(str(problem)) == problem
    for spec in (CPU, GENERIC, replace(GENERIC, max_work_group=1)):
        variant = problem.table_variant(spec)
        assert variant.fits(problem, spec) and as_variant(str(variant)) == variant


def test_what_is_usual_is_not_written() -> None:
    square = Conv(16, 1, 64, 128, (32, 32), (32, 32), (3, 3), (1, 1), (1, 1), (1, 1))
    assert str(ConvPass("conv", square)) == "conv 16x32x32x64 128 3x3 p1x1"
    odd = Conv(2, 4, 2, 1, (9, 7), (3, 2), (3, 2), (2, 3), (0, 1), (2, 1))
    assert str(ConvPass("conv_grad_weight", odd)) == "conv_grad_weight 2x9x7x8 4 3x2 s2x3 p0x1 " \
                                                     "d2x1 g4 y3x2"
    assert str(Batch(8, 2, 3, 4, tb=True, one_b=True)) == "bmm 8x2x3x4 nt b1"
    assert as_problem("bmm 8x2x3x4 nt b1") == Batch(8, 2, 3, 4, tb=True, one_b=True)


@pytest.mark.parametrize("text", [
    "conv", "conv 1x1x1x1 1", "conv 1x2x2x1 1 3x3", "conv 1x0x2x1 1 1x1", "conv 1x2x2x3 4 1x1 g2",
    "conv 1x2x2x4 3 1x1 g2", "conv 1x2x2x1 1 1x1 s0x1", "conv 1x2x2x1 1 1x1 y3x1",
    "conv 1x2x2x1 1 1x1 p1", "conv 99999x99999x1x1 1 1x1", "conv 1x2x2x1 1 1x1 g2",
    "conv_grad 1x1x1x1 1 1x1", "bmm 1x1x1", "bmm 1x1x1x0 nn", "bmm 1x1x1x1 nn b1 a1"])
def test_what_is_no_problem_is_refused(text: str) -> None:
    with pytest.raises(BadInput) as caught:
        as_problem(text)
    assert str(caught.value) == (
        f"shape {text!r}: it is no product, no batch of products and no convolution\n"
        "  try: 32x256x784 nt, bmm 8x32x64x16 nt or conv 16x32x32x64 128 3x3 p1x1")


@pytest.mark.parametrize(("problem", "text"), [
    ("conv 1x4x4x8 12 1x1", "conv_direct IMAGES_FIRST0 NV2 R4 V8 WGX1 WGY1"),      # wider than y
    ("conv_grad_input 1x4x4x8 12 1x1", "conv_dot IMAGES_FIRST0 NV2 R4 V8 WGX1 WGY1"),
    ("conv_grad_input 1x4x4x1 8 1x1", "conv_dot IMAGES_FIRST0 NV2 R4 V8 WGX1 WGY1"),
    ("conv_grad_input 1x4x4x8 12 1x1", "conv_direct IMAGES_FIRST0 NV1 R4 V4 WGX1 WGY1"),
    ("conv 1x4x4x8 8 1x1", "conv_dot IMAGES_FIRST0 NV2 R4 V8 WGX1 WGY1"),
    ("conv_grad_weight 1x4x4x8 12 1x1", "conv_weight CHUNK1 ITEMS1 NV1 R1 SOME0 V16 WGX1 WGY1"),
    ("conv 1x4x4x6 6 1x1 g6", "depthwise ITEMS0 R4 V8"),
    ("conv_grad_weight 1x4x4x6 6 3x3 p1x1 g6",
     "depthwise_weight CHUNK1 DOWN1 ITEMS1 LINES0 NV1 TAPS2 V2"),
    ("conv_grad_weight 1x4x4x6 6 3x3 p1x1 g6",
     "depthwise_weight CHUNK1 DOWN6 ITEMS1 LINES0 NV1 TAPS3 V2"),
    ("conv 1x4x4x6 6 3x3 p1x1 g6", "depthwise3 ITEMS1 V8"),
    ("conv 1x4x4x6 6 3x5 p1x2 g6", "depthwise3 ITEMS1 V4"),
    ("conv_grad_input 1x4x4x6 6 3x3 s2x2 p1x1 g6", "depthwise3 ITEMS1 V4"),
    ("conv_grad_weight 1x4x4x6 6 3x3 p1x1 g6", "depthwise_weight3 CHUNK1 ITEMS1 V8"),
    ("conv_grad_weight 1x4x4x6 6 5x5 p2x2 g6", "depthwise_weight3 CHUNK1 ITEMS1 V4"),
    ("conv_grad_weight 1x9x9x6 6 3x3 s3x3 p1x1 g6", "depthwise_weight3 CHUNK1 ITEMS1 V4"),
    ("conv_grad_weight 1x9x9x6 6 3x3 p2x2 d2x2 g6", "depthwise_weight3 CHUNK1 ITEMS1 V4"),
    ("conv 1x4x4x8 8 1x1", "conv_packed IMAGES_FIRST0 NV1 R4 V4 WGX32 WGY16"),
    ("conv 1x8x8x16 16 3x3 p2x2 d2x2", "conv_winograd NV2 R4 V8"),                # taps far apart
    ("conv 1x8x8x16 16 3x3 s2x2 p1x1", "conv_winograd NV2 R4 V8"),
    ("conv 1x8x8x32 32 3x3 p1x1 g2", "conv_winograd NV2 R4 V8"),
    ("conv 1x8x8x16 16 5x5 p2x2", "conv_winograd NV2 R4 V8"),
    ("conv_grad_input 1x8x8x16 20 3x3 p1x1", "conv_winograd NV2 R4 V8"),          # no squares of 16
    ("conv_grad_input 1x8x8x16 16 3x3 p1x1", "conv_winograd NV1 R4 V8"),
    ("conv_grad_weight 1x8x8x64 20 3x3 p1x1", "conv_weight_winograd NV1 R4 V16"),
    ("conv_grad_weight 1x8x8x64 32 3x3 p1x1", "conv_weight_winograd NV1 R6 V16"),  # 64 rows
    ("bmm 2x8x8x8 nn", "bmm NV2 R4 V8 WGX1 WGY1"), ("bmm 2x8x8x8 nn", "bmm_dot R4 V8 WGX1 WGY1")])
def test_what_cannot_compute_it_does_not_fit(problem: str, text: str) -> None:
    assert not as_variant(text).fits(as_problem(problem), CPU)


def test_winograds_form_is_for_what_has_caches() -> None:
    problem, form = as_problem("conv 4x16x16x64 64 3x3 p1x1"), as_variant("conv_winograd NV2 R4 V8")
    assert form.fits(problem, CPU) and not form.fits(problem, replace(CPU, kind="gpu"))


def test_a_like_pass_takes_what_was_tuned_for_its_neighbour() -> None:
    best = "conv_packed IMAGES_FIRST1 NV1 R5 V8 WGX2 WGY1"
    spec = replace(CPU, tuned=(("64x64x64 nn", "packed KU2 NV1 R4 V8 WGX1 WGY1"),
                               ("conv 16x32x32x64 64 3x3 p1x1", best)))
    found = {text: tuned_variant(as_problem(text), spec) for text in (
        "conv 16x32x32x64 64 3x3 p1x1", "conv 12x30x31x50 60 3x3 p1x1",
        "conv 16x32x32x64 64 1x1", "conv_grad_input 16x32x32x64 64 3x3 p1x1",
        "conv 16x32x32x128 64 3x3 p1x1")}
    assert list(found.values()) == [as_variant(best), as_variant(best), None, None, None]


def test_what_failed_is_barred_as_it_was_built_however_the_work_is_shared_out() -> None:
    problem = as_problem("conv_grad_weight 16x32x32x64 64 1x1")
    first = problem.table_variant(CPU)
    assert as_built(first.built) == first.built != str(first) and "ITEMS" not in first.built
    spec = replace(CPU, avoid=(first.built,), tuned=((str(problem), str(first.but(ITEMS=7))),))
    assert tuned_variant(problem, spec) is None
    assert problem.table_variant(spec).built != first.built


def test_where_nothing_is_right_it_says_so() -> None:
    problem = as_problem("conv 4x4x4x3 3 3x3 p1x1 g3")
    spec = replace(CPU, name="Acme", driver="7", avoid=("depthwise3 V1", "depthwise3 V2", *(
        f"depthwise R{r} V{v}" for r in range(1, 17) for v in (1, 2))))
    with pytest.raises(KernelError) as caught:
        problem.table_variant(spec)
    assert str(caught.value) == (
        "no variant for conv 4x4x4x3 3 3x3 p1x1 g3 is right on Acme: 34 variants failed with "
        "driver 7\n  try: another driver or device; `handtorch tune --fresh` if these failures "
        "had another cause")
