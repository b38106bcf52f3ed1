"""Recurrent layers: the ops of `capture/recurrent.py`."""

from __future__ import annotations

from handtorch.capture.builder import Builder, Result, aten
from handtorch.capture.recurrent import recurrent_ops
from handtorch.graph.node import Value

KEEP: tuple[str, ...] = ()
patched = recurrent_ops

_VIEWS = ("reshape", "slice", "transpose", "expand")


def _is_zero(b: Builder, value: Value) -> bool:
    """Is it made of zeros, or a part of such? nn.LSTM makes them when no state is given."""
    for node in reversed(b.nodes):
        if any(v.id == value.id for v in node.outputs):
            if node.op == "fill":
                return node.number("number") == 0
            return node.op in _VIEWS and _is_zero(b, node.inputs[0])
    return False


def _unless_zero(b: Builder, *states: Value) -> tuple[Value, ...]:
    return () if all(_is_zero(b, s) for s in states) else states


def _given(**grads: Value | None) -> tuple[tuple[str, ...], tuple[Value, ...]]:
    there = {name: g for name, g in grads.items() if g is not None}
    return tuple(there), tuple(there.values())


@aten("lstm.default")
def _lstm(b: Builder, gx: Value, u: Value, h0: Value, c0: Value, batch_first: bool,
          reverse: bool, save: bool) -> Result:
    states = _unless_zero(b, h0, c0)
    outs = b.emit("lstm", (gx, u, *states), states=bool(states), batch_first=batch_first,
                  reverse=reverse, save=save)
    return outs if save else (*outs, None, None)


@aten("lstm_backward.default")
def _lstm_backward(b: Builder, dy: Value | None, dh: Value | None, dc: Value | None, u: Value,
                   y: Value, gates: Value, cells: Value, h0: Value, c0: Value, batch_first: bool,
                   reverse: bool, wanted: bool) -> Result:
    states = (h0, c0) if wanted else _unless_zero(b, h0, c0)
    names, grads = _given(dy=dy, dh=dh, dc=dc)
    outs = b.emit("lstm_grad", (u, y, gates, cells, *states, *grads), states=bool(states),
                  batch_first=batch_first, reverse=reverse, grads=names)
    return outs if states else (*outs, None, None)


@aten("gru.default")
def _gru(b: Builder, gx: Value, u: Value, h0: Value, bias: Value | None, batch_first: bool,
         reverse: bool, save: bool) -> Result:
    states = _unless_zero(b, h0)
    extra = () if bias is None else (bias,)
    outs = b.emit("gru", (gx, u, *states, *extra), states=bool(states), batch_first=batch_first,
                  reverse=reverse, save=save, bias=bool(extra))
    return outs if save else (*outs, None)


@aten("gru_backward.default")
def _gru_backward(b: Builder, dy: Value | None, dh: Value | None, u: Value, y: Value,
                  gates: Value, h0: Value, batch_first: bool, reverse: bool, wanted: bool
                  ) -> Result:
    states = (h0,) if wanted else _unless_zero(b, h0)
    names, grads = _given(dy=dy, dh=dh)
    outs = b.emit("gru_grad", (u, y, gates, *states, *grads), states=bool(states),
                  batch_first=batch_first, reverse=reverse, grads=names)
    return outs if states else (*outs, None)


@aten("rnn.default")
def _rnn(b: Builder, gx: Value, u: Value, h0: Value, batch_first: bool, reverse: bool,
         relu: bool) -> Result:
    states = _unless_zero(b, h0)
    return b.emit("rnn", (gx, u, *states), states=bool(states), batch_first=batch_first,
                  reverse=reverse, relu=relu)


@aten("rnn_backward.default")
def _rnn_backward(b: Builder, dy: Value | None, dh: Value | None, u: Value, y: Value, h0: Value,
                  batch_first: bool, reverse: bool, relu: bool, wanted: bool) -> Result:
    states = (h0,) if wanted else _unless_zero(b, h0)
    names, grads = _given(dy=dy, dh=dh)
    outs = b.emit("rnn_grad", (u, y, *states, *grads), states=bool(states),
                  batch_first=batch_first, reverse=reverse, relu=relu, grads=names)
    return outs if states else (*outs, None)
