"""Optimizer updates: in place on weights and moments."""

from __future__ import annotations

from handtorch.graph.node import Node
from handtorch.graph.step import Alias, Lowered
from handtorch.kernels import simple
from handtorch.lower.registry import Target, lowers


@lowers("sgd")
def sgd(node: Node, target: Target) -> Lowered:
    weight, grad, rate, *moments = node.inputs
    sizes = {"COUNT": weight.size, "SIGN": -1.0 if node.flag("maximize") else 1.0,
             "DECAY": node.number("decay"), "MOMENTUM": node.number("momentum")}
    defines = {"HAS_MOMENTUM": len(moments), "NESTEROV": int(node.flag("nesterov"))}
    step = simple.SGD.step((grad, rate, *node.outputs), sizes, defines, node=target.node,
                           flops=target.flops, access=("r", "r", *("rw" for _ in node.outputs)))
    old = (weight, *moments)
    return Lowered((step,), tuple(Alias(n, o) for n, o in zip(node.outputs, old, strict=True)))
