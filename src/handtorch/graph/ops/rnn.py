"""Recurrent layers: one layer in one direction over all time steps.

`gx` [T, B, gates H] is the product of all inputs with the input weights, an ordinary matmul; `u`
[gates H, H] are the recurrent weights. With `batch_first` every [T, B, ..] is [B, T, ..]. `reverse`
runs from the last step to the first. With `states` the states before the first step are given,
else they are zero. With `save` there are further outputs for the gradient: the activated gates,
and the cell states of an LSTM.

A gradient op gives the gradient of gx and, row for row, the h before each step, so that the
gradient of u is one more matmul, and with `states` theirs. `grads` names which of dy, dh, dc (of y
and of the last h and c) are given."""

from __future__ import annotations

from collections.abc import Callable

from handtorch.graph.node import Node, Value
from handtorch.graph.ops.op import Op, Types


def recurrent_sizes(node: Node) -> tuple[int, int, int]:
    """(T, B, H) of any op of this family."""
    rows, u = (node.inputs[1], node.inputs[0]) if _is_grad(node) else node.inputs[:2]
    first, second, _ = rows.shape
    return (second, first, u.shape[1]) if node.flag("batch_first") else (first, second, u.shape[1])


def _is_grad(node: Node) -> bool:
    return node.op.endswith("_grad")


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
    """The product with u, and `point_wise` operations for each unit and step."""
    def flops(node: Node) -> int:
        time, batch, h = recurrent_sizes(node)
        u: Value = node.inputs[0 if _is_grad(node) else 1]
        return time * batch * (2 * u.size + point_wise * h)
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
)
