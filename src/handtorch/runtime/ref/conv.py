"""Convolutions: for each tap of the kernel a product over channels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from handtorch.graph.node import Node, Value
from handtorch.graph.ops.conv import TAPS_FIRST
from handtorch.runtime.device import Array
from handtorch.runtime.ref.product import finished
from handtorch.runtime.ref.registry import reference

Window = tuple[slice, slice]
_PICTURE = (0, 2, 3, 1)         # channels last


def _taps(node: Node, kernel: tuple[int, ...], size: tuple[int, ...]
          ) -> Iterator[tuple[tuple[int, int], Window]]:
    """Each tap, and the pixels of the padded x that it meets, one for each pixel of y."""
    (sh, sw), (dh, dw) = node.numbers("stride"), node.numbers("dilation")
    for kh, kw in np.ndindex(*kernel):
        yield (kh, kw), (slice(kh * dh, kh * dh + (size[0] - 1) * sh + 1, sh),
                         slice(kw * dw, kw * dw + (size[1] - 1) * sw + 1, sw))


def _padded(node: Node, x: Array) -> Array:
    (ph, pw) = node.numbers("padding")
    return np.pad(x, ((0, 0), (0, 0), (ph, ph), (pw, pw)))


def _matrices(x: Array, groups: int) -> Array:
    """[n, group, channel, pixel]"""
    return x.reshape(x.shape[0], groups, x.shape[1] // groups, -1)


def _by_group(w: Array, groups: int) -> Array:
    """[tap, tap, group, channel of y, channel of x]"""
    return w.reshape(groups, -1, *w.shape[1:]).transpose(3, 4, 0, 1, 2)


def _epilogue(node: Node, y: Array, extra: tuple[Array, ...]) -> Array:
    if "bias" in node.words("epilogue"):
        extra = (extra[0][:, None, None], *extra[1:])
    return finished(node, y, extra)


Convolution = Callable[..., Array]


def _in_torchs_order(op: str) -> Callable[[Convolution], Convolution]:
    """Registers; with `channels_last` pictures and weights are turned before, and back afterwards.
    """
    def register(fn: Convolution) -> Convolution:
        def turned(node: Node, *arrays: Array) -> Array:
            if not node.flag("channels_last"):
                return fn(node, *arrays)
            weighs = op == "conv_grad_weight"
            second = _PICTURE if weighs else TAPS_FIRST
            first = (_back(arrays[0], _PICTURE), _back(arrays[1], second))
            (out,), order = node.outputs, TAPS_FIRST if weighs else _PICTURE
            shape = tuple(out.shape[order.index(i)] for i in range(4))
            plain = replace(node, outputs=(Value(out.id, shape),))
            rest = (_back(a, _PICTURE) if a.ndim == 4 else a for a in arrays[2:])
            return fn(plain, *first, *rest).transpose(order)
        reference(op)(turned)
        return turned
    return register


def _back(array: Array, order: tuple[int, ...]) -> Array:
    return array.transpose(np.argsort(order))


@_in_torchs_order("conv")
def _conv(node: Node, x: Array, w: Array, *extra: Array) -> Array:
    groups, (y,) = int(node.number("groups")), node.outputs
    padded, weights = _padded(node, x), _by_group(w, groups)
    out = np.zeros((x.shape[0], groups, w.shape[0] // groups, y.shape[2] * y.shape[3]), x.dtype)
    for tap, (rows, columns) in _taps(node, w.shape[2:], y.shape[2:]):
        out += weights[tap] @ _matrices(padded[:, :, rows, columns], groups)
    return _epilogue(node, out.reshape(y.shape), extra)


@_in_torchs_order("conv_grad_input")
def _conv_grad_input(node: Node, dy: Array, w: Array, *extra: Array) -> Array:
    groups, (dx,) = int(node.number("groups")), node.outputs
    (ph, pw), weights, flat = node.numbers("padding"), _by_group(w, groups), _matrices(dy, groups)
    padded = _padded(node, np.zeros(dx.shape, dy.dtype))
    for tap, (rows, columns) in _taps(node, w.shape[2:], dy.shape[2:]):
        part = weights[tap].swapaxes(1, 2) @ flat
        padded[:, :, rows, columns] += part.reshape(*dx.shape[:2], *dy.shape[2:])
    inner = padded[:, :, ph:ph + dx.shape[2], pw:pw + dx.shape[3]]
    return _epilogue(node, inner, extra)


@_in_torchs_order("conv_grad_weight")
def _conv_grad_weight(node: Node, dy: Array, x: Array) -> Array:
    groups, (dw,) = int(node.number("groups")), node.outputs
    padded, flat, out = _padded(node, x), _matrices(dy, groups), np.zeros(dw.shape, x.dtype)
    for (kh, kw), (rows, columns) in _taps(node, dw.shape[2:], dy.shape[2:]):
        seen = _matrices(padded[:, :, rows, columns], groups).swapaxes(2, 3)
        out[:, :, kh, kw] = (flat @ seen).sum(0).reshape(dw.shape[:2])
    return out
