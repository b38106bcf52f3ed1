"""Point-wise functions and their fusion, forward and gradient."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from harness import assert_like_torch
from hypothesis import given, settings
from hypothesis import strategies as st

from handtorch.capture.step import capture_function
from handtorch.graph.device_spec import GENERIC
from handtorch.pipeline import compile_graph

pytestmark = pytest.mark.spread

SHAPES = st.lists(st.integers(1, 9), min_size=0, max_size=4).map(tuple)


@st.composite
def pairs(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Two shapes that broadcast."""
    shape = draw(SHAPES)
    other = tuple(1 if draw(st.booleans()) else d for d in shape)[draw(st.integers(0, 2)):]
    return (shape, other) if draw(st.booleans()) else (other, shape)


def numbers(shape: tuple[int, ...], seed: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def chain(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.tanh(a * b + 2) / (1 + torch.exp(-a)) - torch.where(a > b, a, b * 0.5)


@settings(max_examples=12, deadline=None)
@given(pairs(), st.integers(0, 100))
def test_a_chain_on_ref(shapes: tuple[Any, Any], seed: int) -> None:
    assert_like_torch(chain, numbers(shapes[0], seed), numbers(shapes[1], seed + 1))


@settings(max_examples=4, deadline=None)
@given(shapes=pairs(), seed=st.integers(0, 100))
def test_a_chain_on_a_device(opencl_device: Any, shapes: tuple[Any, Any], seed: int) -> None:
    assert_like_torch(chain, numbers(shapes[0], seed), numbers(shapes[1], seed + 1),
                      devices=[opencl_device.label])


def test_a_chain_is_one_launch() -> None:
    x = torch.randn(4, 8)
    captured = capture_function(lambda a, b: chain(a, b).relu().neg(), [x, x])
    program = compile_graph(captured.graph, GENERIC)
    assert [s.kernel for s in program.steps] == ["pointwise"]


def test_what_is_read_twice_is_computed_once() -> None:
    x = torch.randn(4, 8)
    captured = capture_function(lambda a: ((e := torch.exp(a)) + 1, e * 2), [x])
    program = compile_graph(captured.graph, GENERIC)
    assert sum("exp(" in str(n.attrs["body"]) for n in program.graph.nodes) == 1
