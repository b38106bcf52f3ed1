"""Recurrent layers: the weights packed, then one launch over all time steps."""

from __future__ import annotations

from dataclasses import replace

from handtorch.graph.node import Node, Value
from handtorch.graph.ops.rnn import recurrent_sizes
from handtorch.graph.step import Lowered
from handtorch.kernels.rnn_loop import (
    BACKWARD,
    FORWARD,
    Layer,
    choose,
    feeds_itself,
    loop_steps,
    pack_steps,
)
from handtorch.lower.product import matmul
from handtorch.lower.registry import Target, lowers


def _layer(node: Node) -> Layer:
    kind, *_ = node.op.split("_")
    cell = ("relu" if node.flag("relu") else "tanh") if kind == "rnn" else kind
    time, batch, hidden = recurrent_sizes(node)
    return Layer(cell, batch, time, hidden, node.flag("batch_first"), node.flag("reverse"))


@lowers("lstm", "gru", "rnn")
def forward(node: Node, target: Target) -> Lowered:
    gx, u, *rest = node.inputs
    return _forward(node, _layer(node), (gx,), (u,), rest, target)


@lowers("lstm_layer", "gru_layer", "rnn_layer")
def layer(node: Node, target: Target) -> Lowered:
    """The product inside the loop where that is faster, else before it."""
    x, w, *rest = node.inputs
    bias = (rest.pop(0),) if node.flag("input_bias") else ()
    within = replace(_layer(node), inputs=w.shape[1])
    u, *rest = rest
    if feeds_itself(within, target.spec):
        return _forward(node, within, (x, *bias), (w, u), rest, target)
    gx = target.scratch((x.shape[0], w.shape[0]))
    product = Node("matmul", (x, w, *bias), (gx,),
                   {"tb": True, "epilogue": ("bias",) if bias else ()})
    loop = replace(target, flops=target.flops - 2 * gx.size * w.shape[1])
    return Lowered((*matmul(product, target).steps,
                    *_forward(node, _layer(node), (gx,), (u,), rest, loop).steps))


def _forward(node: Node, layer: Layer, given: tuple[Value, ...], weights: tuple[Value, ...],
             rest: list[Value], target: Target) -> Lowered:
    """Where nothing is saved, an LSTM keeps only the cells of two steps."""
    y, *outputs = node.outputs
    if layer.cell == "lstm":
        hn, cn, *saved = outputs
        gates, cells = saved or (None, target.scratch((2, layer.batch, layer.hidden)))
        outputs = [hn, cn, cells, *([gates] if gates else [])]
    elif layer.cell == "gru" and node.flag("bias"):
        rest = [rest[-1], *rest[:-1]]                     # the kernel has the bias first
    choice = choose(layer, target.spec)
    packed, pack = pack_steps(layer, weights, False, choice, node=target.node,
                              scratch=target.scratch)
    defines = {"SAVE": int(node.flag("save")), "STATES": int(node.flag("states")),
               "BIAS": int(node.flag("bias")), "INPUT_BIAS": int(len(given) > 1)}
    steps = loop_steps(FORWARD, layer, choice, (*given, packed, *rest), (y, *outputs), defines,
                       node=target.node, flops=target.flops)
    return Lowered((pack, *steps))


@lowers("lstm_grad", "gru_grad", "rnn_grad")
def backward(node: Node, target: Target) -> Lowered:
    layer = _layer(node)
    u, *rest = node.inputs
    choice = choose(layer, target.spec)
    packed, pack = pack_steps(layer, (u,), True, choice, node=target.node, scratch=target.scratch)
    carry = () if node.op == "rnn_grad" else (target.scratch((2, layer.batch, layer.hidden)),)
    given = node.words("grads")
    defines = {"STATES": int(node.flag("states")),
               **{name.upper(): int(name in given) for name in ("dy", "dh", "dc")}}
    steps = loop_steps(BACKWARD, layer, choice, (packed, *rest), (*carry, *node.outputs), defines,
                       node=target.node, flops=target.flops)
    return Lowered((pack, *steps))
