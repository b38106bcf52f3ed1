"""Recurrent layers: one layer in one direction over all time steps.

`gx` [T, B, gates H] is the product of all inputs with the input weights, an ordinary matmul; `u`
[gates H, H] are the recurrent weights. With `batch_first` every [T, B, ..] is [B, T, ..]. `reverse`
runs from the last step to the first. With `states` the states before the first step are given,
else they are zero. With `save` there are further outputs for the gradient: the activated gates,
and the cell states of an LSTM.

A gradient op gives the gradient of gx and, row for row, the h before each step, so that the
gradient of u is one more matmul, and with `states` theirs. `grads` names which of dy, dh, dc (of y
and of the last h and c) are given.

A pass makes `.._layer` of a layer and the product that feeds it: then `x` [T B, inputs] and `w`
[gates H, inputs] and, with `input_bias`, the bias [gates H] of x w stand in the place of gx, and
`time` is T."""

from __future__ import annotations

from collections.abc import Callable

from handtorch.graph.node import Node, Value
from handtorch.graph.ops.op import Op, Types


def recurrent_sizes(node: Node) -> tuple[int, int, int]:
    """(T, B, H) of any op of this family."""
    hidden = _recurrent_weights(node).shape[1]
    if node.op.endswith("_layer"):
        time = int(node.number("time"))
        return time, node.inputs[0].shape[0] // time, hidden
    first, second, _ = node.inputs[1 if node.op.endswith("_grad") else 0].shape
    return (second, first, hidden) if node.flag("batch_first") else (first, second, hidden)


def _recurrent_weights(node: Node) -> Value:
    if node.op.endswith("_layer"):
        return node.inputs[2 + node.flag("input_bias")]
    return node.inputs[0 if node.op.endswith("_grad") else 1]


def _shapes(node: Node) -> tuple[Callable[[int], tuple[tuple[int, ...], str]],
                                 tuple[tuple[int, ...], str]]:
    """Rows of so many times H for each step, and one state [B, H]."""
    time, batch, h = recurrent_sizes(node)
    first, second = (batch, time) if node.flag("batch_first") else (time, batch)
    return lambda times: ((first, second, times * h), "f32"), ((batch, h), "f32")


def _lstm(node: Node) -> Types:
    rows, state = _shapes(node)
    return rows(1), state, state, *((rows(4), rows(1)) if node.flag("save") else ())


def _gru(node: Node) -> Types:
    rows, state = _shapes(node)
    return rows(1), state, *((rows(4),) if node.flag("save") else ())


def _rnn(node: Node) -> Types:
    rows, state = _shapes(node)
    return rows(1), state


def _lstm_grad(node: Node) -> Types:
    rows, state = _shapes(node)
    return rows(4), rows(1), *((state, state) if node.flag("states") else ())


def _gru_grad(node: Node) -> Types:
    rows, state = _shapes(node)
    return rows(3), rows(3), rows(1), *((state,) if node.flag("states") else ())


def _rnn_grad(node: Node) -> Types:
    rows, state = _shapes(node)
    return rows(1), rows(1), *((state,) if node.flag("states") else ())


def _flops(point_wise: int) -> Callable[[Node], int]:
    """The product with u, that with w where the op has it, and `point_wise` operations for each
    unit and step."""
    def flops(node: Node) -> int:
        time, batch, h = recurrent_sizes(node)
        weights = _recurrent_weights(node).size
        if node.op.endswith("_layer"):
            weights += node.inputs[1].size
        return time * batch * (2 * weights + point_wise * h)
    return flops


OPS: tuple[Op, ...] = (
    # (gx, u, [h0, c0]) -> (y, hn, cn, [gates i f g o, cells])
    Op("lstm", _lstm, _flops(20)),
    # (u, y, gates, cells, [h0, c0], [dy], [dh], [dc]) -> (dgx, before, [dh0, dc0])
    Op("lstm_grad", _lstm_grad, _flops(24)),
    # (gx, u, [h0], [bias of u h, if `bias`]) -> (y, hn, [gates r z n, and u h + bias of n])
    Op("gru", _gru, _flops(15)),
    # (u, y, gates, [h0], [dy], [dh]) -> (dgx, gradient of u h + bias, before, [dh0])
    Op("gru_grad", _gru_grad, _flops(20)),
    # (gx, u, [h0]) -> (y, hn); tanh, or ReLU if `relu`
    Op("rnn", _rnn, _flops(5)),
    # (u, y, [h0], [dy], [dh]) -> (dgx, before, [dh0])
    Op("rnn_grad", _rnn_grad, _flops(3)),
    # (x, w, [bias of x w], and from u on as without `_layer`)
    Op("lstm_layer", _lstm, _flops(20)),
    Op("gru_layer", _gru, _flops(15)),
    Op("rnn_layer", _rnn, _flops(5)),
)
