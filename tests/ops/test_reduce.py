"""Reductions, scans and softmax over any axis, forward and gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from harness import assert_all_like_torch, assert_like_torch
from hypothesis import given, settings
from hypothesis import strategies as st

from handtorch.capture.step import capture_function
from handtorch.graph.device_spec import GENERIC
from handtorch.kernels.reduce import pieces_of
from handtorch.pipeline import compile_graph
from handtorch.runtime.choose import open_executor

pytestmark = pytest.mark.spread

Tensor = torch.Tensor
Fn = Callable[..., Any]
INF = float("inf")


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def norm(order: float, **options: Any) -> Fn:
    return lambda x: torch.linalg.vector_norm(x, order, **options)


X, ROW, ONE = (3, 4, 5), (2, 130), ()
CASES: dict[str, tuple[Fn, tuple[int, ...]]] = {
    "sum": (lambda x: x.sum(), X),
    "sum of a number": (lambda x: x.sum() * 2, ONE),
    "sum 02": (lambda x: x.sum((0, 2)), (3, 17, 33)),
    "sum 1 keep": (lambda x: x.sum(1, keepdim=True), (2, 70, 16)),
    "sum of ones": (lambda x: x.sum((0, 2)), (1, 4, 1)),
    "sum of nothing": (lambda x: x[:, :0].sum(1) + x[:, 0], X),
    "mean": (lambda x: x.mean(), (7, 11)),
    "mean 23": (lambda x: x.mean((2, 3)), (2, 3, 7, 7)),
    "mean 0": (lambda x: x.mean(0), (33, 6)),
    "mean of ones": (lambda x: x.mean((2, 3), keepdim=True), (2, 3, 1, 1)),
    "amax": (lambda x: x.amax((0, 2)), X),
    "amin": (lambda x: x.amin(1, keepdim=True), ROW),
    "max": (lambda x: x.max(), ROW),
    "max 1": (lambda x: x.max(1)[0], X),
    "min -1": (lambda x: x.min(-1, keepdim=True)[0], ROW),
    "prod": (lambda x: x.prod(1), (3, 4, 2)),
    "var": (lambda x: x.var(1), X),
    "var biased": (lambda x: x.var((0, 2), correction=0, keepdim=True), X),
    "std": (lambda x: x.std(), ROW),
    "std 0": (lambda x: x.std(0), (40, 3)),
    "norm 2": (norm(2), ROW),
    "norm 2 1": (norm(2, dim=1), X),
    "norm inf": (norm(INF), ROW),
    "norm 1": (norm(1, dim=(0, 2), keepdim=True), X),
    "norm 3": (norm(3, dim=1), ROW),
    "logsumexp": (lambda x: x.logsumexp(1), X),
    "cumsum": (lambda x: x.cumsum(1), X),
    "cumsum -1": (lambda x: x.cumsum(-1), (3, 300)),
    "softmax": (lambda x: x.softmax(-1), (5, 40)),
    "softmax 0": (lambda x: x.softmax(0), (7, 48)),
    "softmax 1": (lambda x: x.softmax(1), (2, 5, 3, 3)),
    "log_softmax 1": (lambda x: x.log_softmax(1), (2, 5, 16)),
    "log_softmax": (lambda x: x.log_softmax(-1), (3, 1)),
    "softmax of a number": (lambda x: x.softmax(0) * x, ONE),
    "cosine": (lambda x: torch.cosine_similarity(x, x.flip(0)), X),
}
WITHOUT_GRADIENT: dict[str, Fn] = {
    "argmax": lambda x: x.argmax(1),
    "argmax all": lambda x: x.argmax(),
    "argmin keep": lambda x: x.argmin(2, keepdim=True),
    "argmax of ties": lambda x: x.sign().argmax(1),
    "max and index": lambda x: list(x.max(0)),
    "any": lambda x: (x > 1.5).any(),
    "any 1": lambda x: (x > 0.5).any(1),
    "any 02": lambda x: (x > 1).any(2).any(0),
    "any of floats": lambda x: x.relu().any(0),
    "all": lambda x: (x > -9).all(),
    "all keep": lambda x: (x > -1).all(1, keepdim=True),
    "count": lambda x: (x > 0).sum(1),
    "sum of ints": lambda x: (x * 10).int().sum((0, 1)),
    "max of ints": lambda x: list((x * 10).int().max(1)),
    "cumsum of ints": lambda x: (x > 0).cumsum(2),
    "cumprod": lambda x: x.cumprod(1),
    "norm 0": lambda x: torch.linalg.vector_norm(x.relu(), 0),
    "norm -inf": lambda x: torch.linalg.vector_norm(x, -INF, dim=1),
    "accuracy": lambda x: (x.argmax(1) == 2).float().mean(),
    "var_mean": lambda x: list(torch.var_mean(x, (0, 2))),
}


@pytest.mark.parametrize("name", CASES)
def test_on_ref(name: str) -> None:
    fn, shape = CASES[name]
    assert_like_torch(fn, numbers(*shape))


ON_A_DEVICE = ("sum 02", "sum 1 keep", "sum of nothing", "mean 23", "mean 0", "amin", "max 1",
               "min -1", "prod", "std", "norm 2 1", "norm inf", "cumsum -1", "softmax",
               "softmax 0", "softmax 1", "log_softmax 1", "softmax of a number")


@pytest.mark.parametrize("part", range(2))
def test_on_a_device(part: int, opencl_device: Any) -> None:
    chosen = {name: CASES[name] for name in ON_A_DEVICE[part::2]}
    assert_all_like_torch({name: (fn, [numbers(*shape)]) for name, (fn, shape) in chosen.items()},
                          devices=[opencl_device.label])


def every(x: Tensor) -> list[Tensor]:
    found = [fn(x) for fn in WITHOUT_GRADIENT.values()]
    return [t for f in found for t in (f if isinstance(f, list) else [f])]


def test_without_gradient(opencl_device: Any) -> None:
    """All in one program, which is compiled once."""
    assert_like_torch(every, numbers(3, 4, 5, seed=3), devices=["ref", opencl_device.label],
                      gradients=False)


@st.composite
def shapes_and_axes(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...]]:
    shape = draw(st.lists(st.integers(1, 20), min_size=1, max_size=4))
    axes = draw(st.sets(st.integers(0, len(shape) - 1), min_size=1))
    return tuple(shape), tuple(axes)


def several(axes: tuple[int, ...], keep: bool) -> Fn:
    return lambda x: [x.sum(axes, keepdim=keep), x.mean(axes), x.amax(axes, keepdim=keep),
                      torch.linalg.vector_norm(x, dim=axes), x.softmax(axes[0])]


@settings(max_examples=12, deadline=None)
@given(shapes_and_axes(), st.booleans())
def test_any_axes_on_ref(shape: tuple[Any, Any], keep: bool) -> None:
    assert_like_torch(several(shape[1], keep), numbers(*shape[0]))


@settings(max_examples=3, deadline=None)
@given(shape=shapes_and_axes(), keep=st.booleans())
def test_any_axes_on_a_device(opencl_device: Any, shape: tuple[Any, Any], keep: bool) -> None:
    """Forward only: gradients are tested above, and compiling them takes most of the time."""
    assert_like_torch(several(shape[1], keep), numbers(*shape[0]),
                      devices=[opencl_device.label], gradients=False)


def test_long_sums_stay_accurate(opencl_device: Any) -> None:
    """A million terms of one sign: the error of float32 torch, which sums in blocks, times 4.

    Means, so that the harness' allowance of 1e-6 is not lost in the size of the result."""
    x = numbers(1_000_003).abs()
    for fn in (lambda x: x.mean(),
               lambda x: x[:1_000_000].reshape(-1, 5).mean(0),
               lambda x: x[:1_000_000].reshape(10, -1).mean(1),
               lambda x: x[:1_000_000].reshape(-1, 64).mean(0)):
        assert_like_torch(fn, x, devices=[opencl_device.label], gradients=False)


def test_extremes_of_long_rows(opencl_device: Any) -> None:
    x = numbers(2, 5000)
    x[0, 4321] = x[0, 4700] = 9.0
    assert_like_torch(lambda x: [x.argmax(1), x.argmin(), *x.max(1)], x,
                      devices=["ref", opencl_device.label], gradients=False)


def test_nan_and_infinity_come_through(opencl_device: Any) -> None:
    x = numbers(4, 40)
    x[0, 3], x[1, 7], x[2, 20] = float("nan"), INF, -INF
    fns: dict[str, Fn] = {
        "amax": lambda x: x.amax(1), "min": lambda x: x.min(), "argmax": lambda x: x.argmax(1),
        "max": lambda x: x.max(1)[0], "sum": lambda x: x.sum(1), "softmax": lambda x: x.softmax(1),
        "cumsum": lambda x: x.cumsum(1)}
    captured = capture_function(lambda x: [fn(x) for fn in fns.values()], [x])
    for device in ("ref", opencl_device.label):
        executor = open_executor(device)
        resident = executor.load(compile_graph(captured.graph, executor.spec), {})
        results = resident.submit([x.numpy()]).result()
        resident.close()
        for (name, fn), got in zip(fns.items(), results, strict=True):
            np.testing.assert_allclose(got, fn(x).numpy(), rtol=1e-5, atol=1e-6,
                                       err_msg=f"{name} on {device}")


def test_a_mean_is_one_launch() -> None:
    captured = capture_function(lambda x: x.mean(1), [numbers(100, 64)])
    assert [s.kernel for s in compile_graph(captured.graph, GENERIC).steps] == ["reduce_row"]


@pytest.mark.parametrize(("items", "length"), [(1, 10), (1, 4097), (1, 1_000_003), (100, 70_000),
                                               (3, 50_000)])
def test_pieces_cover_a_row_and_none_is_empty(items: int, length: int) -> None:
    count, piece = pieces_of(items, length, (4096, 65536))
    assert (count - 1) * piece < length <= count * piece
    assert count == 1 or piece % 16 == 0
