"""Recurrent layers: the recurrent weights packed, then one launch over all time steps."""

from __future__ import annotations

from handtorch.graph.node import Node
from handtorch.graph.ops.rnn import recurrent_sizes
from handtorch.graph.step import Lowered
from handtorch.kernels.rnn_loop import (
    BACKWARD,
    FORWARD,
    Layer,
    choose,
    loop_steps,
    pack_steps,
)
from handtorch.lower.registry import Target, lowers


def _layer(node: Node) -> Layer:
    kind = node.op.removesuffix("_grad")
    cell = ("relu" if node.flag("relu") else "tanh") if kind == "rnn" else kind
    time, batch, hidden = recurrent_sizes(node)
    return Layer(cell, batch, time, hidden, node.flag("batch_first"), node.flag("reverse"))


@lowers("lstm", "gru", "rnn")
def forward(node: Node, target: Target) -> Lowered:
    """Where nothing is saved, an LSTM keeps only the cells of two steps."""
    layer = _layer(node)
    gx, u, *rest = node.inputs
    y, *outputs = node.outputs
    if layer.cell == "lstm":
        hn, cn, *saved = outputs
        gates, cells = saved or (None, target.scratch((2, layer.batch, layer.hidden)))
        outputs = [hn, cn, cells, *([gates] if gates else [])]
    elif layer.cell == "gru" and node.flag("bias"):
        rest = [rest[-1], *rest[:-1]]                     # the kernel has the bias first
    choice = choose(layer, target.spec)
    packed, pack = pack_steps(layer, u, False, choice, node=target.node, scratch=target.scratch)
    defines = {"SAVE": int(node.flag("save")), "STATES": int(node.flag("states")),
               "BIAS": int(node.flag("bias"))}
    steps = loop_steps(FORWARD, layer, choice, (gx, packed, *rest), (y, *outputs), defines,
                       node=target.node, flops=target.flops)
    return Lowered((pack, *steps))


@lowers("lstm_grad", "gru_grad", "rnn_grad")
def backward(node: Node, target: Target) -> Lowered:
    layer = _layer(node)
    u, *rest = node.inputs
    choice = choose(layer, target.spec)
    packed, pack = pack_steps(layer, u, True, choice, node=target.node, scratch=target.scratch)
    carry = () if node.op == "rnn_grad" else (target.scratch((2, layer.batch, layer.hidden)),)
    given = node.words("grads")
    defines = {"STATES": int(node.flag("states")),
               **{name.upper(): int(name in given) for name in ("dy", "dh", "dc")}}
    steps = loop_steps(BACKWARD, layer, choice, (packed, *rest), (*carry, *node.outputs), defines,
                       node=target.node, flops=target.flops)
    return Lowered((pack, *steps))
