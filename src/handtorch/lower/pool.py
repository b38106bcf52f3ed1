"""Pooling: one launch each; gradients gather, so that every element has one owner."""

from __future__ import annotations

from math import prod

from handtorch.graph.node import Node, Value
from handtorch.graph.ops.pool import planes
from handtorch.graph.region import literal
from handtorch.graph.step import Lowered
from handtorch.kernels import pool
from handtorch.kernels.pointwise import pointwise_step
from handtorch.lower.registry import Target, lowers


@lowers("max_pool")
def max_pool(node: Node, target: Target) -> Lowered:
    (x,), (y, index) = node.inputs, node.outputs
    high, wide = kernel = node.numbers("kernel")
    sizes = _windows(node, x, y, "OUT", target) | _pair("DIL", node.numbers("dilation")) | {
        "HIGH": high, "WIDE": wide}
    macros = _lanes(node, x, target) | pool.window(kernel)
    step = pool.MAX_POOL.step((x, y, index), sizes, macros, node=target.node, flops=target.flops)
    return Lowered((step,))


@lowers("max_pool_grad")
def max_pool_grad(node: Node, target: Target) -> Lowered:
    (dy, index), (dx,) = node.inputs, node.outputs
    reach = tuple((k - 1) * d for k, d in
                  zip(node.numbers("kernel"), node.numbers("dilation"), strict=True))
    sizes = _windows(node, dx, dy, "IN", target) | _pair("REACH", reach)
    step = pool.MAX_POOL_GRAD.step((dy, index, dx), sizes, _lanes(node, dx, target),
                                   node=target.node, flops=target.flops)
    return Lowered((step,))


@lowers("avg_pool")
def avg_pool(node: Node, target: Target) -> Lowered:
    (x,), (y,) = node.inputs, node.outputs
    step = pool.AVG_POOL.step((x, y), _mean(node, x, y, "OUT", target), _macros(node, x, target),
                              node=target.node, flops=target.flops)
    return Lowered((step,))


@lowers("avg_pool_grad")
def avg_pool_grad(node: Node, target: Target) -> Lowered:
    """A window over the whole input hands the same to every element."""
    (dy,), (dx,) = node.inputs, node.outputs
    if _is_whole(node, dx, dy):
        body = f"mul(x0,{literal(_share(node, dx), 'f32')})"
        return Lowered((pointwise_step(body, (dy,), dx, node=target.node, flops=target.flops),))
    step = pool.AVG_POOL_GRAD.step((dy, dx), _mean(node, dx, dy, "IN", target),
                                   _macros(node, dx, target), node=target.node,
                                   flops=target.flops)
    return Lowered((step,))


def _is_whole(node: Node, x: Value, y: Value) -> bool:
    (_, size, _), (_, out, _) = planes(node, x.shape), planes(node, y.shape)
    return out == (1, 1) and node.numbers("kernel") == size and node.numbers("padding") == (0, 0)


def _share(node: Node, x: Value) -> float:
    _, size, _ = planes(node, x.shape)
    return 1.0 / (node.number("divisor", 0) or prod(size))


def _pair(name: str, numbers: tuple[int, ...]) -> dict[str, int]:
    return {f"{name}_H": numbers[0], f"{name}_W": numbers[1]}


def _windows(node: Node, x: Value, y: Value, side: str, target: Target) -> dict[str, int]:
    """The windows, and an item's share of the rows of x (`side` IN) or y (OUT)."""
    kernel, stride, padding = (node.numbers(n) for n in ("kernel", "stride", "padding"))
    if node.flag("adaptive"):
        kernel, stride, padding = (0, 0), (1, 1), (0, 0)     # each window has its own
    (count, size, deep), (_, out, _) = planes(node, x.shape), planes(node, y.shape)
    sizes = {"PLANES": count, "DEEP": deep, **_pair("IN", size), **_pair("OUT", out),
             "KH": kernel[0], "KW": kernel[1], **_pair("STRIDE", stride), **_pair("PAD", padding)}
    return sizes | pool.shares(sizes, side, target.spec)


def _mean(node: Node, x: Value, y: Value, side: str, target: Target) -> dict[str, int]:
    return {**_windows(node, x, y, side, target), "PAD_COUNTS": int(node.flag("pad_counts")),
            "DIVISOR": int(node.number("divisor", 0))}


def _lanes(node: Node, x: Value, target: Target) -> dict[str, int]:
    return pool.lanes(planes(node, x.shape)[2], target.spec)


def _macros(node: Node, x: Value, target: Target) -> dict[str, int]:
    return {**_lanes(node, x, target), "ADAPTIVE": int(node.flag("adaptive"))}
