"""Optimizer updates: in place on weights and moments."""

from __future__ import annotations

from math import log

from handtorch.graph.node import Node
from handtorch.graph.step import Alias, Lowered
from handtorch.kernels import simple
from handtorch.kernels.move import fill_step
from handtorch.kernels.optimizers import ADAGRAD, ADAM, RMSPROP, TICK, access_for, group_for
from handtorch.kernels.spec import Defines, Kernel, Sizes
from handtorch.lower.registry import Target, lowers


@lowers("tick")
def tick(node: Node, target: Target) -> Lowered:
    steps, rate = node.inputs
    sizes = {f"LOG_B{i}": _log(node.number(f"beta{i}")) for i in (1, 2)}
    sizes |= {"DECAY": node.number("decay"), "LR_DECAY": node.number("lr_decay")}
    step = TICK.step((rate, *node.outputs), sizes, node=target.node, flops=target.flops)
    return Lowered((step,), (Alias(node.outputs[0], steps),))


def _log(beta: float) -> float:
    return log(beta) if beta else 0.0             # 0^t is 0: no correction


def _update(kernel: Kernel, node: Node, target: Target, sizes: Sizes, defines: Defines) -> Lowered:
    """One launch that writes the new parameter and moments over the old ones."""
    weight, grad, coefficients, *moments = node.inputs
    sizes = {"COUNT": weight.size, "SIGN": -1.0 if node.flag("maximize") else 1.0,
             "DECAY": node.number("decay"), **sizes}
    step = kernel.step((grad, coefficients, *node.outputs), sizes,
                       {"GROUP": group_for(weight.size), **defines}, node=target.node,
                       flops=target.flops, access=access_for(len(moments)))
    old = (weight, *moments)
    return Lowered((step,), tuple(Alias(n, o) for n, o in zip(node.outputs, old, strict=True)))


@lowers("sgd")
def sgd(node: Node, target: Target) -> Lowered:
    return _update(simple.SGD, node, target, {"MOMENTUM": node.number("momentum")},
                   {"HAS_MOMENTUM": len(node.inputs) - 3, "NESTEROV": int(node.flag("nesterov"))})


@lowers("adam")
def adam(node: Node, target: Target) -> Lowered:
    beta1, beta2 = node.number("beta1"), node.number("beta2")
    return _update(ADAM, node, target,
                   {"REST1": 1 - beta1, "BETA2": beta2, "REST2": 1 - beta2,
                    "EPS": node.number("eps")},
                   {"HAS_TOP": len(node.inputs) - 5, "DECOUPLED": int(node.flag("decoupled"))})


@lowers("rmsprop")
def rmsprop(node: Node, target: Target) -> Lowered:
    alpha, centered = node.number("alpha"), int(node.flag("centered"))
    return _update(RMSPROP, node, target,
                   {"ALPHA": alpha, "REST": 1 - alpha, "EPS": node.number("eps"),
                    "MOMENTUM": node.number("momentum")},
                   {"CENTERED": centered, "HAS_MOMENTUM": len(node.inputs) - 4 - centered})


@lowers("adagrad")
def adagrad(node: Node, target: Target) -> Lowered:
    return _update(ADAGRAD, node, target, {"EPS": node.number("eps")}, {})


@lowers("clear")
def clear(node: Node, target: Target) -> Lowered:
    (old,), (new,) = node.inputs, node.outputs
    return Lowered((fill_step(new, 0.0, node=target.node),), (Alias(new, old),))
