"""Recurrent layers, a step at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from handtorch.graph.node import Node, Value
from handtorch.graph.ops.rnn import recurrent_sizes
from handtorch.runtime.device import Array
from handtorch.runtime.ref.registry import REFERENCES, reference


def _sigmoid(x: Array) -> Array:
    with np.errstate(over="ignore"):
        return np.asarray(1 / (1 + np.exp(-x)))


def _rows(node: Node, x: Array) -> Array:
    """Time first, whichever way it lies; a view."""
    return x.swapaxes(0, 1) if node.flag("batch_first") else x


def _order(node: Node) -> list[int]:
    steps = list(range(recurrent_sizes(node)[0]))
    return steps[::-1] if node.flag("reverse") else steps


def _states(node: Node, given: Sequence[Array], like: Array) -> tuple[Array, ...]:
    """h and c before the first step."""
    _, batch, h = recurrent_sizes(node)
    zeros = np.zeros((batch, h), like.dtype)
    return (*given[:2], *(zeros,) * 2)[:2] if node.flag("states") else (zeros, zeros)


@reference("lstm")
def _lstm(node: Node, gx: Array, u: Array, *rest: Array) -> tuple[Array, ...]:
    h, c = _states(node, rest, gx)
    time, batch, hidden = recurrent_sizes(node)
    y, gates, cells = (np.empty((time, batch, n * hidden), gx.dtype) for n in (1, 4, 1))
    for t in _order(node):
        i, f, g, o = np.split(_rows(node, gx)[t] + h @ u.T, 4, 1)
        i, f, g, o = _sigmoid(i), _sigmoid(f), np.tanh(g), _sigmoid(o)
        c = f * c + i * g
        h = o * np.tanh(c)
        y[t], cells[t], gates[t] = h, c, np.concatenate((i, f, g, o), 1)
    saved = (_rows(node, gates), _rows(node, cells)) if node.flag("save") else ()
    return _rows(node, y), h, c, *saved


@reference("lstm_grad")
def _lstm_grad(node: Node, u: Array, y: Array, gates: Array, cells: Array, *rest: Array
               ) -> tuple[Array, ...]:
    h0, c0 = _states(node, rest, y)
    dy, dh, dc = _grads(node, rest[2 * node.flag("states"):], y)
    dg, before = np.empty(_rows(node, gates).shape, y.dtype), np.empty_like(_rows(node, y))
    order, hs, cs = _order(node), _rows(node, y), _rows(node, cells)
    for s, t in reversed(list(enumerate(order))):
        before[t], old = (hs[order[s - 1]], cs[order[s - 1]]) if s else (h0, c0)
        (i, f, g, o), th = np.split(_rows(node, gates)[t], 4, 1), np.tanh(cs[t])
        dh = dh + _rows(node, dy)[t]
        dc = dc + dh * o * (1 - th * th)
        dg[t] = np.concatenate((dc * g * i * (1 - i), dc * old * f * (1 - f),
                                dc * i * (1 - g * g), dh * th * o * (1 - o)), 1)
        dh, dc = dg[t] @ u, dc * f
    return _rows(node, dg), _rows(node, before), *((dh, dc) if node.flag("states") else ())


@reference("gru")
def _gru(node: Node, gx: Array, u: Array, *rest: Array) -> tuple[Array, ...]:
    h, _ = _states(node, rest, gx)
    bias = rest[-1] if node.flag("bias") else np.zeros(len(u), gx.dtype)
    time, batch, hidden = recurrent_sizes(node)
    y, gates = (np.empty((time, batch, n * hidden), gx.dtype) for n in (1, 4))
    for t in _order(node):
        (xr, xz, xn), (hr, hz, q) = (np.split(a, 3, 1) for a in (_rows(node, gx)[t],
                                                                h @ u.T + bias))
        r, z = _sigmoid(xr + hr), _sigmoid(xz + hz)
        n = np.tanh(xn + r * q)
        h = (1 - z) * n + z * h
        y[t], gates[t] = h, np.concatenate((r, z, n, q), 1)
    return _rows(node, y), h, *((_rows(node, gates),) if node.flag("save") else ())


@reference("gru_grad")
def _gru_grad(node: Node, u: Array, y: Array, gates: Array, *rest: Array) -> tuple[Array, ...]:
    h0, _ = _states(node, rest, y)
    dy, dh, _ = _grads(node, rest[node.flag("states"):], y)
    time, batch, hidden = recurrent_sizes(node)
    dg, dq, before = (np.empty((time, batch, n * hidden), y.dtype) for n in (3, 3, 1))
    order, hs = _order(node), _rows(node, y)
    for s, t in reversed(list(enumerate(order))):
        before[t] = hs[order[s - 1]] if s else h0
        r, z, n, q = np.split(_rows(node, gates)[t], 4, 1)
        dh = dh + _rows(node, dy)[t]
        dn = dh * (1 - z) * (1 - n * n)
        dr, dz = dn * q * r * (1 - r), dh * (before[t] - n) * z * (1 - z)
        dg[t], dq[t] = np.concatenate((dr, dz, dn), 1), np.concatenate((dr, dz, dn * r), 1)
        dh = dh * z + dq[t] @ u
    return (*(_rows(node, a) for a in (dg, dq, before)), *((dh,) if node.flag("states") else ()))


@reference("rnn")
def _rnn(node: Node, gx: Array, u: Array, *rest: Array) -> tuple[Array, ...]:
    h, _ = _states(node, rest, gx)
    y = np.empty(_rows(node, gx).shape, gx.dtype)
    for t in _order(node):
        a = _rows(node, gx)[t] + h @ u.T
        h = y[t] = np.maximum(a, 0) if node.flag("relu") else np.tanh(a)
    return _rows(node, y), h


@reference("rnn_grad")
def _rnn_grad(node: Node, u: Array, y: Array, *rest: Array) -> tuple[Array, ...]:
    h0, _ = _states(node, rest, y)
    dy, dh, _ = _grads(node, rest[node.flag("states"):], y)
    hs, order = _rows(node, y), _order(node)
    dg, before = np.empty_like(hs), np.empty_like(hs)
    for s, t in reversed(list(enumerate(order))):
        before[t] = hs[order[s - 1]] if s else h0
        slope = np.where(hs[t] > 0, 1, 0) if node.flag("relu") else 1 - hs[t] * hs[t]
        dg[t] = (dh + _rows(node, dy)[t]) * slope
        dh = dg[t] @ u
    return _rows(node, dg), _rows(node, before), *((dh,) if node.flag("states") else ())


@reference("lstm_layer", "gru_layer", "rnn_layer")
def _with_product(node: Node, x: Array, w: Array, *rest: Array) -> tuple[Array, ...]:
    skip = int(node.flag("input_bias"))
    gx = (x @ w.T + sum(rest[:skip])).reshape(*node.outputs[0].shape[:2], len(w))
    loop = replace(node, op=node.op.removesuffix("_layer"),
                   inputs=(Value(-1, gx.shape), *node.inputs[2 + skip:]))
    return tuple(REFERENCES[loop.op](loop, gx, *rest[skip:]))


def _grads(node: Node, given: Sequence[Array], y: Array) -> tuple[Array, Array, Array]:
    """dy, dh, dc; zeros where not given."""
    _, batch, h = recurrent_sizes(node)
    known = dict(zip(node.words("grads"), given, strict=True))
    zeros = np.zeros((batch, h), y.dtype)
    return (known.get("dy", np.zeros_like(y)), known.get("dh", zeros), known.get("dc", zeros))
