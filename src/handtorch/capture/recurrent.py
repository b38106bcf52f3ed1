"""nn.LSTM, nn.GRU and nn.RNN as ops of ours: one op for each layer and direction.

torch would hand us an LSTM as an op of its own library and everything else unrolled, step by step.
Here the product of all inputs with the input weights is an ordinary linear layer, only what runs
through time is an op, and the gradient of the recurrent weights is an ordinary product again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from handtorch.capture.lines import user_line
from handtorch.errors import CannotCapture

_LIBRARY = torch.library.Library("handtorch", "FRAGMENT")
_WAY = "bool batch_first, bool reverse"
_LIBRARY.define(f"lstm(Tensor gx, Tensor u, Tensor h0, Tensor c0, {_WAY}, bool save)"
                " -> (Tensor, Tensor, Tensor, Tensor, Tensor)")
_LIBRARY.define("lstm_backward(Tensor? dy, Tensor? dh, Tensor? dc, Tensor u, Tensor y,"
                f" Tensor gates, Tensor cells, Tensor h0, Tensor c0, {_WAY}, bool states)"
                " -> (Tensor, Tensor, Tensor, Tensor)")
_LIBRARY.define(f"gru(Tensor gx, Tensor u, Tensor h0, Tensor? bias, {_WAY}, bool save)"
                " -> (Tensor, Tensor, Tensor)")
_LIBRARY.define("gru_backward(Tensor? dy, Tensor? dh, Tensor u, Tensor y, Tensor gates, Tensor h0,"
                f" {_WAY}, bool states) -> (Tensor, Tensor, Tensor, Tensor)")
_LIBRARY.define(f"rnn(Tensor gx, Tensor u, Tensor h0, {_WAY}, bool relu) -> (Tensor, Tensor)")
_LIBRARY.define("rnn_backward(Tensor? dy, Tensor? dh, Tensor u, Tensor y, Tensor h0,"
                f" {_WAY}, bool relu, bool states) -> (Tensor, Tensor, Tensor)")
_OPS = torch.ops.handtorch


def _rows(like: Tensor, width: int) -> Tensor:
    return like.new_empty((*like.shape[:2], width))


def _lstm_shapes(gx: Tensor, u: Tensor, h0: Tensor, c0: Tensor, batch_first: bool, reverse: bool,
                 save: bool) -> tuple[Tensor, ...]:
    h = u.shape[1]
    saved = (_rows(gx, 4 * h), _rows(gx, h)) if save else (gx.new_empty(0), gx.new_empty(0))
    return _rows(gx, h), torch.empty_like(h0), torch.empty_like(c0), *saved


def _lstm_backward_shapes(dy: Any, dh: Any, dc: Any, u: Tensor, y: Tensor, gates: Tensor,
                          cells: Tensor, h0: Tensor, c0: Tensor, *_: bool) -> tuple[Tensor, ...]:
    return (torch.empty_like(gates), torch.empty_like(y), torch.empty_like(h0),
            torch.empty_like(c0))


def _gru_shapes(gx: Tensor, u: Tensor, h0: Tensor, bias: Any, batch_first: bool, reverse: bool,
                save: bool) -> tuple[Tensor, ...]:
    h = u.shape[1]
    return (_rows(gx, h), torch.empty_like(h0),
            _rows(gx, 4 * h) if save else gx.new_empty(0))


def _gru_backward_shapes(dy: Any, dh: Any, u: Tensor, y: Tensor, gates: Tensor, h0: Tensor,
                         *_: bool) -> tuple[Tensor, ...]:
    return _rows(y, len(u)), _rows(y, len(u)), torch.empty_like(y), torch.empty_like(h0)


def _rnn_shapes(gx: Tensor, u: Tensor, h0: Tensor, *_: bool) -> tuple[Tensor, ...]:
    return torch.empty_like(gx), torch.empty_like(h0)


def _rnn_backward_shapes(dy: Any, dh: Any, u: Tensor, y: Tensor, h0: Tensor, *_: bool
                         ) -> tuple[Tensor, ...]:
    return torch.empty_like(y), torch.empty_like(y), torch.empty_like(h0)


def _product(d: Tensor, before: Tensor) -> Tensor:
    """The gradient of recurrent weights: over all steps and sequences at once."""
    return d.reshape(-1, d.shape[-1]).t() @ before.reshape(-1, before.shape[-1])


def _lstm_setup(ctx: Any, inputs: Any, output: Any) -> None:
    _, u, h0, c0, ctx.batch_first, ctx.reverse, _ = inputs
    y, _, _, gates, cells = output
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(u, y, gates, cells, h0, c0)


def _lstm_backward(ctx: Any, dy: Any, dh: Any, dc: Any, *_: Any) -> tuple[Any, ...]:
    states = any(ctx.needs_input_grad[2:4])
    dg, before, dh0, dc0 = _OPS.lstm_backward(dy, dh, dc, *ctx.saved_tensors, ctx.batch_first,
                                              ctx.reverse, states)
    return (dg, _product(dg, before), *((dh0, dc0) if states else (None, None)), None, None, None)


def _gru_setup(ctx: Any, inputs: Any, output: Any) -> None:
    _, u, h0, _, ctx.batch_first, ctx.reverse, _ = inputs
    y, _, gates = output
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(u, y, gates, h0)


def _gru_backward(ctx: Any, dy: Any, dh: Any, *_: Any) -> tuple[Any, ...]:
    states, bias = ctx.needs_input_grad[2:4]
    dg, dq, before, dh0 = _OPS.gru_backward(dy, dh, *ctx.saved_tensors, ctx.batch_first,
                                            ctx.reverse, states)
    return (dg, _product(dq, before), dh0 if states else None, dq.sum((0, 1)) if bias else None,
            None, None, None)


def _rnn_setup(ctx: Any, inputs: Any, output: Any) -> None:
    _, u, h0, ctx.batch_first, ctx.reverse, ctx.relu = inputs
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(u, output[0], h0)


def _rnn_backward(ctx: Any, dy: Any, dh: Any) -> tuple[Any, ...]:
    states = ctx.needs_input_grad[2]
    dg, before, dh0 = _OPS.rnn_backward(dy, dh, *ctx.saved_tensors, ctx.batch_first, ctx.reverse,
                                        ctx.relu, states)
    return dg, _product(dg, before), dh0 if states else None, None, None, None


def _twice(ctx: Any, *_: Any) -> Any:
    raise CannotCapture("the gradient of a recurrent layer's gradient",
                        why="only first derivatives of LSTM, GRU and RNN are known",
                        where=str(user_line() or ""), fix="backward() without create_graph=True")


for _name, _fake, _setup, _grad in (
        ("lstm", _lstm_shapes, _lstm_setup, _lstm_backward),
        ("gru", _gru_shapes, _gru_setup, _gru_backward),
        ("rnn", _rnn_shapes, _rnn_setup, _rnn_backward),
        ("lstm_backward", _lstm_backward_shapes, None, _twice),
        ("gru_backward", _gru_backward_shapes, None, _twice),
        ("rnn_backward", _rnn_backward_shapes, None, _twice)):
    torch.library.register_fake(f"handtorch::{_name}", _fake, lib=_LIBRARY)
    torch.library.register_autograd(f"handtorch::{_name}", _grad, setup_context=_setup,
                                    lib=_LIBRARY)


# One layer in one direction: (x, weights, states, batch_first, reverse) -> (y, last states)
Run = Callable[[Tensor, Sequence[Tensor], Sequence[Tensor], bool, bool],
               tuple[Tensor, tuple[Tensor, ...]]]


def _lstm_run(x: Tensor, weights: Sequence[Tensor], states: Sequence[Tensor], batch_first: bool,
              reverse: bool) -> tuple[Tensor, tuple[Tensor, ...]]:
    w, u, *biases = weights
    bias = biases[0] + biases[1] if biases else None
    y, h, c, *_ = _OPS.lstm(F.linear(x, w, bias), u, *states, batch_first, reverse,
                            _differentiated(x, *weights, *states))
    return y, (h, c)


def _gru_run(x: Tensor, weights: Sequence[Tensor], states: Sequence[Tensor], batch_first: bool,
             reverse: bool) -> tuple[Tensor, tuple[Tensor, ...]]:
    w, u, *biases = weights
    bias, inner = biases or (None, None)
    y, h, _ = _OPS.gru(F.linear(x, w, bias), u, *states, inner, batch_first, reverse,
                       _differentiated(x, *weights, *states))
    return y, (h,)


def _rnn_run(relu: bool) -> Run:
    def run(x: Tensor, weights: Sequence[Tensor], states: Sequence[Tensor], batch_first: bool,
            reverse: bool) -> tuple[Tensor, tuple[Tensor, ...]]:
        w, u, *biases = weights
        bias = biases[0] + biases[1] if biases else None
        y, h = _OPS.rnn(F.linear(x, w, bias), u, *states, batch_first, reverse, relu)
        return y, (h,)
    return run


def _differentiated(*tensors: Tensor) -> bool:
    return torch.is_grad_enabled() and any(t.requires_grad for t in tensors)


def _stack(name: str, run: Run) -> Callable[..., Any]:
    """What stands in for torch._VF's function of that name."""
    def layers(x: Tensor, hx: Any, weights: Any, bias: Any, num_layers: Any, dropout: Any,
               training: Any, bidirectional: Any, batch_first: Any = None) -> tuple[Tensor, ...]:
        if not isinstance(bias, bool):           # the overload with batch sizes
            raise _packed()
        each, directions = 4 if bias else 2, 2 if bidirectional else 1
        if len(weights) != each * num_layers * directions:
            raise CannotCapture(f"{name} with proj_size", why="projections are not known",
                                where=str(user_line() or ""),
                                fix="proj_size=0, and a Linear after the layer")
        starts = [_slots(t) for t in (hx if name == "LSTM" else (hx,))]
        ends: list[tuple[Tensor, ...]] = []
        for layer in range(num_layers):
            ys = []
            for way in range(directions):
                at = layer * directions + way
                y, last = run(x, weights[at * each:(at + 1) * each], [s[at] for s in starts],
                              batch_first, bool(way))
                ys.append(y)
                ends.append(last)
            x = torch.cat(ys, 2) if bidirectional else ys[0]
            if dropout and training and layer + 1 < num_layers:
                x = F.dropout(x, dropout)
        return x, *(_joined(list(last)) for last in zip(*ends, strict=True))
    return layers


def _slots(states: Tensor) -> Sequence[Tensor]:
    """[layers and directions, B, H] taken apart; a reshape where there is one only."""
    return states.unbind(0) if len(states) > 1 else [states.reshape(states.shape[1:])]


def _joined(states: list[Tensor]) -> Tensor:
    whole = [s.reshape(1, *s.shape) for s in states]
    return torch.cat(whole, 0) if len(whole) > 1 else whole[0]


def _packed(*_: Any, **__: Any) -> CannotCapture:
    return CannotCapture("a packed sequence",
                         why="its shape depends on the lengths, which only the device will know",
                         where=str(user_line() or ""),
                         fix="padded sequences, and a mask in the loss")


def _refuse_packed(*_: Any, **__: Any) -> Any:
    raise _packed()


_INSTEAD: dict[str, Callable[..., Any]] = {
    "lstm": _stack("LSTM", _lstm_run), "gru": _stack("GRU", _gru_run),
    "rnn_tanh": _stack("RNN", _rnn_run(relu=False)),
    "rnn_relu": _stack("RNN", _rnn_run(relu=True)),
    "_pack_padded_sequence": _refuse_packed}


def _current_weights(module: torch.nn.RNNBase) -> list[Any]:
    return [getattr(module, name, None) for name in module._flat_weights_names]


def _put(undo: ExitStack, owner: Any, name: str, new: Any) -> None:
    """Until `undo`, `owner` has `new` of its own under that name."""
    if name in vars(owner):
        undo.callback(setattr, owner, name, vars(owner)[name])
    else:
        undo.callback(delattr, owner, name)
    setattr(owner, name, new)


@contextmanager
def recurrent_ops() -> Iterator[None]:
    """While entered, torch's recurrent layers run as ops of ours.

    A module keeps a second list of its weights, made when it was built; the capture's stand-ins
    are only under their names, so the list is made from those."""
    with ExitStack() as undo:
        for name, fn in _INSTEAD.items():
            _put(undo, torch._VF, name, fn)
        live = property(_current_weights, lambda module, new: None)
        _put(undo, torch.nn.RNNBase, "_flat_weights", live)
        yield
