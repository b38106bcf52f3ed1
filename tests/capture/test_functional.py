"""Writes disappear from a traced graph and the numbers stay; what is not simple is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx

from handtorch.capture.functional import without_writes

aten = torch.ops.aten


def traced(fn: Callable[..., Any], *inputs: torch.Tensor) -> GraphModule:
    return make_fx(fn, tracing_mode="fake")(*inputs)


def writes(module: GraphModule) -> list[str]:
    return [str(n.target) for n in module.graph.nodes
            if getattr(getattr(n.target, "_schema", None), "is_mutable", False)]


def counter(x: torch.Tensor, y: torch.Tensor) -> Any:
    w = x.clone()
    before = w * 2
    w.add_(y)
    w.mul_(3)
    return before, w, w + 1


def another_name(x: torch.Tensor, y: torch.Tensor) -> Any:
    w = x.clone()
    named = w.detach()
    w.copy_(y)
    return named * 2, w


def view_before(x: torch.Tensor, y: torch.Tensor) -> Any:
    w = x.clone()
    product = w.t() @ y
    w.copy_(product)
    return w.t() @ y


def pair(x: torch.Tensor, y: torch.Tensor) -> Any:
    values, places = x.max(1)
    values.relu_()
    return values, places


def copy_of_another_type(x: torch.Tensor, y: torch.Tensor) -> Any:
    w = x.clone()
    w.copy_(y > 0)
    return w


@pytest.mark.parametrize("fn", [counter, another_name, view_before, pair])
def test_the_numbers_stay(fn: Callable[..., Any]) -> None:
    x, y = torch.randn(5, 5), torch.randn(5, 5)
    module = traced(fn, x, y)
    assert writes(module)
    assert without_writes(module.graph, ())
    assert writes(module) == []
    module.recompile()
    for got, want in zip(module(x, y), fn(x, y), strict=True):
        torch.testing.assert_close(got, want, rtol=0, atol=0)


def test_a_copy_keeps_its_place_for_the_type_to_be_settled_later() -> None:
    x, y = torch.randn(3, 3), torch.randn(3, 3)
    module = traced(copy_of_another_type, x, y)
    assert without_writes(module.graph, ())
    (copy,) = [n for n in module.graph.nodes if n.target is aten.copy.default]
    assert copy.meta["val"].dtype == torch.float32


def view_after(x: torch.Tensor, y: torch.Tensor) -> Any:
    w = x.clone()
    turned = w.t()
    w.copy_(y)
    return turned @ y


def through_a_view(x: torch.Tensor, y: torch.Tensor) -> Any:
    w = x.clone()
    w[0].zero_()
    return w + y


def into_an_input(x: torch.Tensor, y: torch.Tensor) -> Any:
    x.add_(y)
    return x * 2


def of_two_types(x: torch.Tensor, y: torch.Tensor) -> Any:
    w = x.clone()
    w.add_(y.double())
    return w


def one_of_several(x: torch.Tensor, y: torch.Tensor) -> Any:
    w = x.clone()
    first, second = w.split(3)[0], w.split(3)[1]
    w.mul_(2)
    return first, second


def behind_the_schema(x: torch.Tensor, y: torch.Tensor) -> Any:
    mean, var = y[0].clone(), y[1].clone()
    out = torch.ops.aten._native_batch_norm_legit(x, None, None, mean, var, True, 0.1, 1e-5)
    return out[0], mean


def of_another_meaning(x: torch.Tensor, y: torch.Tensor) -> Any:
    """`pow.Scalar` is a number to the power of a tensor."""
    return x.clone().pow_(3)


@pytest.mark.parametrize("fn", [view_after, through_a_view, into_an_input, of_two_types,
                                one_of_several, behind_the_schema, of_another_meaning])
def test_what_is_not_simple_is_left_alone(fn: Callable[..., Any]) -> None:
    x, y = torch.randn(5, 5), torch.randn(5, 5)
    module = traced(fn, x, y)
    before = module.graph.python_code("self").src
    assert not without_writes(module.graph, ())
    assert module.graph.python_code("self").src == before


def test_an_operation_that_may_not_stay() -> None:
    module = traced(counter, torch.randn(2, 2), torch.randn(2, 2))
    assert not without_writes(module.graph, {aten.add.Tensor: None})
    assert writes(module)
