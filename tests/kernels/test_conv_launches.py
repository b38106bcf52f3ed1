"""How a convolution is shared out over launches and items."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count, product
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handtorch.graph.device_spec import GENERIC, DeviceSpec
from handtorch.graph.node import Shape, Value
from handtorch.graph.step import Step
from handtorch.kernels.conv_launches import LEAST_RUN, Launches, _block, pack_run
from handtorch.kernels.conv_shapes import MOST_PARTIAL_BYTES, Conv, Pair, inside
from handtorch.kernels.simple import LEAST_SUM_RUN
from handtorch.kernels.spec import ceil_div

CPU = replace(GENERIC, kind="cpu", float_width=16)
ONE: Pair = (1, 1)


def conv(channels: int, side: int, kernel: int, groups: int = 1, stride: int = 1) -> Conv:
    pad = kernel // 2
    out = (side + 2 * pad - kernel) // stride + 1
    each = channels // groups
    return Conv(16, groups, each, each, (side, side), (out, out), (kernel, kernel),
                (stride, stride), (pad, pad), ONE)


def launches(c: Conv, kind: str, spec: DeviceSpec = CPU) -> list[Step]:
    fresh = count(3)

    def scratch(shape: Shape) -> Value:
        return Value(next(fresh), tuple(shape))
    made = Launches(c, spec, scratch)
    x, y = (Value(i, (c.n, *s, n)) for i, s, n in (
        (0, c.x, c.groups * c.inner), (2, c.y, c.groups * c.outer)))
    w = Value(1, (*c.kernel, c.inner, c.groups * c.outer))
    run: dict[str, Callable[[], tuple[Step, ...]]] = {
        "forward": lambda: made.forward(x, w, y), "grad_input": lambda: made.grad_input(y, w, x),
        "grad_weight": lambda: made.grad_weight(y, x, w)}
    return list(run[kind]())


def names(c: Conv, kind: str) -> list[str]:
    return [step.kernel for step in launches(c, kind)]


@pytest.mark.parametrize(("c", "kind", "kernels"), [
    (conv(64, 32, 1), "forward", ["conv_tile"]),                # nothing lies outside
    (conv(64, 32, 1, stride=2), "forward", ["conv_tile"]),
    (conv(64, 32, 3), "forward", ["winograd_pack", "winograd"]),
    (conv(64, 32, 3), "grad_input", ["winograd_pack", "winograd"]),
    (conv(60, 32, 3), "grad_input", ["conv_pack", "fill", "conv_tile"]),    # no squares of 16
    (conv(64, 32, 3, stride=2), "forward", ["fill", "conv_tile"]),
    (conv(512, 4, 3), "forward", ["conv_pack", "fill", "conv_tile"]),
    (conv(512, 1, 3), "forward", ["fill", "conv_tile"]),        # too few pixels to pack for
    (conv(3, 32, 1), "forward", ["conv_pack", "conv_tile"]),    # narrower than any good tile
    (replace(conv(3, 32, 3), outer=64), "forward", ["fill", "move", "conv_tile"]),  # rows of taps
    (replace(conv(3, 32, 3), outer=64), "grad_input", ["fill", "conv_tile"]),       # dot products
    (replace(conv(3, 32, 3), outer=64), "grad_weight",
     ["fill", "move", "conv_weight", "sum_axis"]),
    (conv(64, 32, 1), "grad_input", ["conv_pack", "conv_tile"]),
    (conv(64, 32, 3, groups=64), "forward", ["depthwise3"]),
    (conv(64, 32, 3, groups=64), "grad_input", ["depthwise3"]),
    (conv(64, 32, 3, groups=64, stride=2), "forward", ["depthwise3"]),
    (conv(64, 32, 3, groups=64, stride=2), "grad_input", ["depthwise"]),
    (conv(64, 32, 5, groups=64), "forward", ["depthwise"]),
    (conv(512, 4, 3), "grad_weight", ["conv_weight_packed"]),
    (conv(64, 32, 3), "grad_weight", ["winograd_weight", "sum_axis"]),
    (conv(256, 8, 3), "grad_weight", ["winograd_weight"]),      # enough blocks for all cores
    (conv(64, 32, 3, stride=2), "grad_weight", ["conv_weight_packed"]),
    (conv(64, 32, 3, groups=64), "grad_weight", ["depthwise_weight3", "sum_axis"]),
    (conv(384, 8, 3, groups=384), "grad_weight", ["depthwise_weight3"]),    # a sum is short enough
    (conv(64, 32, 5, groups=64), "grad_weight", ["depthwise_weight", "sum_axis"]),
    (conv(960, 4, 3, groups=960), "grad_weight", ["depthwise_weight"])])  # blocks are items enough
def test_launches(c: Conv, kind: str, kernels: list[str]) -> None:
    assert names(c, kind) == kernels


def test_a_gpu_gets_many_small_items() -> None:
    c = conv(64, 32, 3)
    few, many = (launches(c, "grad_weight", spec)[0] for spec in (CPU, replace(CPU, kind="gpu")))
    assert prod(many.global_size) > 4 * prod(few.global_size)


def test_only_a_cpu_transforms_tiles() -> None:
    """Its items lean on caches, and what a block of tiles needs is small beside them."""
    gpu = replace(CPU, kind="gpu")
    assert "winograd" not in {s.kernel for s in launches(conv(64, 32, 3), "forward", gpu)}
    for c in (conv(64, 32, 3), conv(256, 8, 3), conv(512, 14, 3)):
        _, step = launches(c, "forward")
        room = step.operands[2].value.nbytes // prod(step.global_size)
        assert room <= 1 << 19, c


def test_a_weight_gradient_by_tiles_asks_for_no_more_with_many_cores() -> None:
    """Its sums rest in a next cache of 1 MB, and those of all chunks within what others take."""
    many = replace(CPU, compute_units=64)
    for c in (conv(64, 32, 3), conv(64, 56, 3), conv(256, 8, 3)):
        for spec in (CPU, many):
            step, *_ = launches(c, "grad_weight", spec)
            assert step.kernel == "winograd_weight"
            assert step.operands[2].value.nbytes // prod(step.global_size) <= 9 << 16, c
            assert step.operands[3].value.nbytes <= MOST_PARTIAL_BYTES, c


@given(st.integers(1, 300), st.integers(1, 16), st.integers(1, 400))
def test_no_block_of_channels_is_shorter_than_a_tile(channels: int, rows: int, blocks: int) -> None:
    block = _block(channels, rows, blocks)
    assert 1 <= block <= channels
    last = channels % block or block
    assert last >= min(rows, channels)
    assert ceil_div(channels, block) <= blocks


@given(st.integers(1, 6), st.integers(1, 6), st.integers(1, 3), st.integers(1, 3),
       st.integers(-3, 3), st.sampled_from([-2, -1, 1, 2]), st.integers(1, 3))
def test_the_share_of_taps_inside(size: int, out: int, in_step: int, out_step: int, pad: int,
                                  dilation: int, taps: int) -> None:
    sizes = {"KH": 1, "KW": taps}
    for side, numbers in (("H", (1, 1, 1, 1, 0, 1)),
                          ("W", (size, out, in_step, out_step, pad, dilation))):
        sizes |= {f"{name}_{side}": n for name, n in zip(
            ("IN", "OUT", "IN_STEP", "OUT_STEP", "PAD", "DIL"), numbers, strict=True)}
    met = [q * in_step + (at - pad + tap * dilation) // out_step
           for q, at, tap in product(range(ceil_div(out, out_step)), range(out_step), range(taps))
           if (at - pad + tap * dilation) % out_step == 0]
    seen = [place for place in met if 0 <= place < size]
    assert inside(sizes) == (len(seen) / len(met) if met else 1)


def defined(c: Conv, kind: str, name: str) -> int:
    return int(dict(launches(c, kind)[-1].defines)[name])


def test_small_maps_go_by_place_so_that_taps_outside_are_left_out() -> None:
    assert defined(conv(512, 4, 3), "forward", "IMAGES_FIRST") == 1
    assert defined(conv(512, 4, 3), "grad_input", "IMAGES_FIRST") == 1
    assert defined(conv(64, 32, 3, stride=2), "forward", "IMAGES_FIRST") == 0
    assert defined(replace(conv(512, 4, 3), n=2), "forward", "IMAGES_FIRST") == 0   # fill no tile


@pytest.mark.parametrize("kind", ["forward", "grad_input", "grad_weight"])
def test_a_depthwise_item_is_large_on_a_cpu_and_small_on_a_gpu(kind: str) -> None:
    c = conv(64, 32, 3, groups=64)
    few, many = (launches(c, kind, spec)[0] for spec in (CPU, replace(CPU, kind="gpu")))
    assert few.kernel.startswith("depthwise")
    assert 4 <= prod(few.global_size) <= 256 and prod(many.global_size) >= 1024


@pytest.mark.parametrize(("depth", "others", "run"), [
    (512, 72, 512), (2048, 8, 512), (728, 12, 256), (436, 9, 112), (512, 4, 64), (12, 63, 64)])
def test_a_cpu_packs_in_long_runs(depth: int, others: int, run: int) -> None:
    two = replace(CPU, compute_units=2)
    assert pack_run(depth, others, two) == run >= LEAST_RUN
    assert pack_run(depth, others, replace(two, kind="gpu")) == 16


def test_a_cpu_adds_up_parts_in_long_runs() -> None:
    c, floats = conv(192, 32, 3, groups=192), 9 * 192
    on = {kind: replace(CPU, kind=kind, compute_units=2) for kind in ("cpu", "gpu")}
    whole, single = (launches(c, "grad_weight", spec)[-1] for spec in on.values())
    assert whole.kernel == single.kernel == "sum_axis"
    assert whole.global_size[0] * LEAST_SUM_RUN == floats
    assert single.global_size[0] == floats
