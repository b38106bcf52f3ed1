"""Pooling, local response norm and enlarging, forward and gradient."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from harness import assert_all_like_torch, assert_like_torch
from hypothesis import given, settings
from hypothesis import strategies as st

from handtorch.capture.step import capture_function
from handtorch.errors import UnsupportedOp
from handtorch.pipeline import compile_graph
from handtorch.runtime.choose import open_executor

pytestmark = pytest.mark.spread

Fn = Callable[[torch.Tensor], Any]


def numbers(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


@st.composite
def pools(draw: st.DrawFn) -> tuple[Fn, torch.Tensor]:
    def pair(low: int, high: int) -> tuple[int, int]:
        return draw(st.integers(low, high)), draw(st.integers(low, high))
    kernel, stride, dilation = pair(1, 4), pair(1, 3), pair(1, 2)
    padding = draw(st.integers(0, kernel[0] // 2)), draw(st.integers(0, kernel[1] // 2))
    size = [draw(st.integers(d * (k - 1) + 1, 20)) for k, d in zip(kernel, dilation, strict=True)]
    x = numbers(draw(st.integers(1, 2)), draw(st.integers(1, 3)), *size)
    ceil = draw(st.booleans())
    if draw(st.booleans()):
        return partial(F.max_pool2d, kernel_size=kernel, stride=stride, padding=padding,
                       dilation=dilation, ceil_mode=ceil), x
    return partial(F.avg_pool2d, kernel_size=kernel, stride=stride, padding=padding,
                   ceil_mode=ceil, count_include_pad=draw(st.booleans()),
                   divisor_override=draw(st.sampled_from((None, None, 3)))), x


@settings(max_examples=12, deadline=None)
@given(pools())
def test_any_pool_on_ref(pool: tuple[Fn, torch.Tensor]) -> None:
    assert_like_torch(pool[0], pool[1])


@settings(max_examples=4, deadline=None)
@given(pool=pools())
def test_any_pool_on_a_device(opencl_device: Any, pool: tuple[Fn, torch.Tensor]) -> None:
    assert_like_torch(pool[0], pool[1], devices=[opencl_device.label])


FIXED: dict[str, tuple[Fn, tuple[int, ...]]] = {
    "max 3/2": (lambda x: F.max_pool2d(x, 3, 2, 1), (2, 3, 9, 37)),
    "max 2": (lambda x: F.max_pool2d(x, 2), (2, 3, 8, 8)),
    "max, with indices": (lambda x: F.max_pool2d(x, 3, 1, 1, return_indices=True), (1, 2, 5, 11)),
    "max, one image, hanging over": (
        lambda x: F.max_pool2d(x, (3, 2), (1, 3), (1, 0), (2, 1), ceil_mode=True), (3, 9, 20)),
    "max 1d": (lambda x: F.max_pool1d(x, 3, 2, 1), (2, 3, 9)),
    "avg 3/2, hanging over": (lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True), (2, 3, 9, 10)),
    "avg, own divisor": (lambda x: F.avg_pool2d(x, (2, 3), 1, (1, 0), divisor_override=5),
                         (2, 3, 5, 12)),
    "avg, whole image": (lambda x: F.avg_pool2d(x, 6), (2, 3, 6, 6)),
    "avg 1d": (lambda x: F.avg_pool1d(x, 3), (2, 3, 10)),
    "adaptive": (lambda x: F.adaptive_avg_pool2d(x, (4, 5)), (2, 3, 9, 7)),
    "adaptive, equal parts": (lambda x: F.adaptive_avg_pool2d(x, (3, 1)), (2, 3, 9, 7)),
    "adaptive, to more": (lambda x: F.adaptive_avg_pool2d(x, (7, 9)), (2, 3, 5, 4)),
    "adaptive, to one": (lambda x: F.adaptive_avg_pool2d(x, 1), (2, 3, 5, 4)),
    "adaptive 1d": (lambda x: F.adaptive_avg_pool1d(x, 4), (2, 3, 9)),
    "local response norm": (lambda x: F.local_response_norm(x, 5, 0.1), (2, 7, 3, 5)),
    "local response norm 1d": (lambda x: F.local_response_norm(x, 4, 0.1), (2, 7, 9)),
    "enlarged": (lambda x: F.interpolate(x, scale_factor=2), (2, 3, 5, 9)),
    "enlarged to a size": (lambda x: F.interpolate(x, size=(15, 4)), (2, 3, 5, 4)),
    "enlarged 1d": (lambda x: F.interpolate(x, scale_factor=3), (2, 3, 5)),
}


@pytest.mark.parametrize("part", range(4))
def test_known_pools(opencl_device: Any, part: int) -> None:
    chosen = list(FIXED.items())[part::4]
    assert_all_like_torch({name: (fn, [numbers(*shape)]) for name, (fn, shape) in chosen},
                          devices=["ref", opencl_device.label])


def test_equal_elements_nan_and_infinity(opencl_device: Any) -> None:
    """The first of equals is the largest, NaN is larger than all, as in torch."""
    x = torch.ones(1, 1, 6, 20)
    x[0, 0, 1, 1], x[0, 0, 3:, 5:9], x[0, 0, 0, 10:] = torch.nan, -torch.inf, torch.inf
    captured = capture_function(lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True), [x])
    want = F.max_pool2d(x, 3, 2, 1, return_indices=True)
    for name in ("ref", opencl_device.label):
        executor = open_executor(name)
        resident = executor.load(compile_graph(captured.graph, executor.spec), {})
        got = resident.submit([x.numpy()]).result()
        resident.close()
        for g, w in zip(got, want, strict=True):
            np.testing.assert_array_equal(g, w.numpy())


def test_windows_that_see_nothing(opencl_device: Any) -> None:
    """All their elements lie in the padding; torch names a place outside the picture."""
    x = numbers(1, 1, 4, 4)
    captured = capture_function(lambda x: F.max_pool2d(x, 2, 1, 1, 5, return_indices=True), [x])
    for name in ("ref", opencl_device.label):
        executor = open_executor(name)
        resident = executor.load(compile_graph(captured.graph, executor.spec), {})
        largest, where = resident.submit([x.numpy()]).result()
        resident.close()
        assert largest.tolist() == [[[[-np.inf]]]]
        assert where.tolist() == [[[[-1]]]]


@pytest.mark.parametrize(("fn", "shape", "message"), [
    (lambda x: F.interpolate(x, scale_factor=1.5), (1, 1, 4, 4),
     "upsample_nearest from [4, 4] to [6, 6]: only whole factors are known"),
    (lambda x: F.interpolate(x, scale_factor=2.1), (1, 1, 4, 4),
     "upsample_nearest from [4, 4] to [8, 8]: only whole factors are known"),
    (lambda x: F.avg_pool3d(x, 2), (1, 1, 4, 4, 4),
     "avg_pool3d: kernel [2, 2, 2], stride [2, 2, 2], padding [0, 0, 0]; only windows along the "
     "first of the three axes are known"),
    (lambda x: F.adaptive_max_pool2d(x, 2), (1, 1, 4, 4),
     "aten.adaptive_max_pool2d: HandTorch has no such operation and never runs one elsewhere in "
     "secret"),
])
def test_what_is_not_known_is_refused(fn: Fn, shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(UnsupportedOp) as e:
        capture_function(fn, [numbers(*shape)])
    assert str(e.value).splitlines()[0] == message
