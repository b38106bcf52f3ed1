"""Views, slices, joins, padding and constants: forward and gradient, in every type."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from harness import assert_like_torch
from hypothesis import given, settings
from hypothesis import strategies as st

from handtorch.capture.step import capture_function
from handtorch.errors import CannotLower
from handtorch.graph.device_spec import GENERIC
from handtorch.graph.node import Graph
from handtorch.pipeline import compile_graph

pytestmark = pytest.mark.spread


def numbers(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def replaced(x: torch.Tensor, at: Any, new: Any) -> torch.Tensor:
    """x with x[at] = new, as users write it."""
    y = x.clone()
    y[at] = new
    return y


# x is [4, 6, 5] of any type.
ANY_TYPE: dict[str, Callable[[torch.Tensor], Any]] = {
    "cat": lambda x: torch.cat([x, x[:, 1:2], x.flip(1)], 1),
    "cat of one and nothing": lambda x: torch.cat([x, x[:, :0], x.new_zeros(0)], 1),
    "stack": lambda x: torch.stack([x, x.flip(0)], -1),
    "slice": lambda x: (x[1:, :, 1:3], x[:, ::2], x[:, 1:5:3, -2:]),
    "select": lambda x: (x[:, -1], x[0], x[..., 2], x[1, 2]),
    "split": lambda x: (*x.split(4, 1), *torch.split(x, [1, 2, 2], -1), *x.chunk(2)),
    "unbind": lambda x: x.unbind(1),
    "expand": lambda x: (x[:, :1].expand(4, 3, 5), x[:, None].expand(-1, 2, -1, -1),
                         x[:, :, :1].expand(2, 4, 6, 33)),
    "repeat": lambda x: (x.repeat(2, 1, 3), x.repeat(2, 1, 1, 2), x.repeat_interleave(3, 1)),
    "permute": lambda x: (x.permute(2, 0, 1), x.transpose(0, 1), x.mT, x[0].T, x[0, 0].t()),
    "views": lambda x: (x.unsqueeze(1).squeeze(1).flatten(1), x[:, :1].squeeze(), x.view(-1),
                        x.transpose(1, 2).reshape(4, -1), x.unflatten(1, (2, 3))),
    "flip": lambda x: (x.flip(0, 2), x.flip(-1)),
    "roll": lambda x: (x.roll(2, 1), x.roll((1, -2), (0, 2)), x.roll(7), x.roll(6, 1)),
    "diagonal": lambda x: (x[0].diagonal(), x.diagonal(1, 1, 2), x.diagonal(-2, 0, 2)),
    "pad": lambda x: (F.pad(x, (1, 2)), F.pad(x, (-1, -2)), F.pad(x, (0, 0, -1, 2, 3, 0))),
    "write": lambda x: (replaced(x, (slice(None), 1), x[:, 0]),
                        replaced(x, (slice(None), slice(1, 5, 2)), x[:, :2]),
                        replaced(x, (slice(1, 3), slice(None), slice(0, 1)), x[1:3, :, 2:3])),
}
FLOATS: dict[str, Callable[[torch.Tensor], Any]] = {
    "pad with a number": lambda x: F.pad(x, (1, -1, 2, 0), value=3.5),
    "triangles": lambda x: (x.tril(), x.triu(-1), x.tril(2)),
    "constants": lambda x: (x + torch.ones(5) - torch.zeros_like(x) + x.new_full((6, 1), 2.0),
                            x * torch.full((4, 1, 1), -0.5), x * torch.empty_like(x).fill_(3)),
    "counting": lambda x: (x * torch.arange(5), x + torch.arange(1, 11, 2), x * torch.eye(6)[:, 1:],
                           x + torch.arange(0.5, 3, 0.5), x * torch.linspace(0, 1, 5)),
    "overwritten": lambda x: replaced(x * 2, (slice(None), slice(0, 2)), torch.ones(5)),
}


def as_type(kind: torch.dtype) -> torch.Tensor:
    x = numbers(4, 6, 5)
    return x > 0 if kind == torch.bool else (x * 10).to(kind)


def together(functions: Sequence[Callable[..., Any]]) -> Callable[..., list[torch.Tensor]]:
    """All of them as the outputs of one program, which is compiled once."""
    def fn(*x: torch.Tensor) -> list[torch.Tensor]:
        made = [f(*x) for f in functions]
        return [t for m in made for t in ([m] if isinstance(m, torch.Tensor) else m)]
    return fn


@pytest.mark.parametrize("name", [*ANY_TYPE, *FLOATS])
def test_on_ref(name: str) -> None:
    assert_like_torch(together([(ANY_TYPE | FLOATS)[name]]), numbers(4, 6, 5))


def test_other_types_on_ref() -> None:
    for kind in (torch.int32, torch.int64, torch.bool):
        assert_like_torch(together([*ANY_TYPE.values()]), as_type(kind), gradients=False)


def test_on_a_device(opencl_device: Any) -> None:
    here = [opencl_device.label]
    assert_like_torch(together([*ANY_TYPE.values(), *FLOATS.values()]), numbers(4, 6, 5),
                      devices=here)
    for kind in (torch.int64, torch.bool):
        assert_like_torch(together([*ANY_TYPE.values()]), as_type(kind), gradients=False,
                          devices=here)


@st.composite
def boxes(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...], tuple[slice, ...]]:
    """A shape, an order of its axes, and a slice of each."""
    shape = tuple(draw(st.lists(st.integers(1, 20), min_size=1, max_size=4)))
    order = tuple(draw(st.permutations(range(len(shape)))))
    cuts = []
    for size in (shape[i] for i in order):
        start = draw(st.integers(0, size - 1))
        cuts.append(slice(start, draw(st.integers(start + 1, size)), draw(st.integers(1, 3))))
    return shape, order, tuple(cuts)


def moved(order: Sequence[int], cuts: Sequence[slice]) -> Callable[..., Any]:
    def fn(x: torch.Tensor) -> torch.Tensor:
        turned = x.permute(*order)
        part = turned[tuple(cuts)]
        return torch.cat([part, part.flip(0), turned[(slice(None), *cuts[1:])]])
    return fn


@settings(max_examples=12, deadline=None)
@given(boxes())
def test_random_boxes_on_ref(box: Any) -> None:
    shape, order, cuts = box
    assert_like_torch(moved(order, cuts), numbers(*shape))


@settings(max_examples=4, deadline=None)
@given(box=boxes())
def test_random_boxes_on_a_device(opencl_device: Any, box: Any) -> None:
    shape, order, cuts = box
    assert_like_torch(moved(order, cuts), numbers(*shape), devices=[opencl_device.label])


def graph_of(fn: Callable[..., Any], *inputs: torch.Tensor) -> Graph:
    return compile_graph(capture_function(fn, inputs).graph, GENERIC).graph


def test_the_gradient_of_a_selection_is_one_padding() -> None:
    def fn(x: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
        leaf = x.detach().requires_grad_()
        return torch.autograd.grad(leaf[:, -1], leaf, g)[0]
    ops = [n.op for n in graph_of(fn, numbers(4, 6, 5), numbers(4, 5)).nodes]
    assert ops == ["reshape", "pad"]


def test_what_is_stretched_is_read_where_it_lies() -> None:
    graph = graph_of(lambda x, y: x.expand(4, 6, 5) * y, numbers(4, 1, 5), numbers(4, 6, 5))
    assert [n.op for n in graph.nodes] == ["pointwise"]


def test_views_of_views_are_one() -> None:
    graph = graph_of(lambda x: x.transpose(0, 1).permute(2, 0, 1).view(5, 6, 2, 2),
                     numbers(4, 6, 5))
    assert [n.op for n in graph.nodes] == ["transpose", "reshape"]
    graph = graph_of(lambda x: x.transpose(0, 1) * 2, numbers(4, 1, 5))
    assert [n.op for n in graph.nodes] == ["reshape", "pointwise"]


def test_the_same_numbers_are_counted_once() -> None:
    graph = graph_of(lambda x: x.tril() + x.triu(1) * 2, numbers(6, 6))
    assert sum(n.op == "arange" for n in graph.nodes) == 1


def test_too_many_axes_are_refused() -> None:
    x = numbers(2, 3, 2, 3, 2, 3, 2)
    with pytest.raises(CannotLower) as caught:
        graph_of(lambda t: t.permute(6, 4, 2, 0, 5, 3, 1), x)
    assert str(caught.value).splitlines()[0] == (
        "transpose %0 f32[2,3,2,3,2,3,2]: 7 axes that do not join, at most 6 are known")
