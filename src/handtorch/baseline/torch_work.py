"""The work of one torch operation, from the shapes it was called with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any

import torch

Args = Sequence[Any]
Work = tuple[int | None, int]                   # floating-point operations, bytes


def work(op: Any, args: Args, kwargs: dict[str, Any], out: Any) -> Work:
    """FLOPs (None where no rule is known) and bytes: every tensor read or written once, views none.

    A multiply-add is two. A point-wise operation counts one for each number it makes."""
    made = list(_tensors((out,)))
    given = list(_tensors((*args, *kwargs.values())))
    if made and given and all(_is_view(t, given) for t in made) and not op._schema.is_mutable:
        return 0, 0
    moved = sum(t.numel() * t.element_size() for t in (*given, *made))
    name = op._schema.name.partition("::")[2]
    rule = _RULES.get(name)
    if rule is not None and made:
        return rule(args, made[0]), moved
    if made and torch.Tag.pointwise in op.tags:
        return made[0].numel(), moved
    if name in _SUMS and given:
        return given[0].numel(), moved
    return None, moved


def _tensors(values: Args) -> Iterator[torch.Tensor]:
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (tuple, list)):
            yield from _tensors(value)


def _is_view(made: torch.Tensor, given: Sequence[torch.Tensor]) -> bool:
    """Whether nothing was computed for it: it lies in the memory of what came in.

    By addresses: asking for a tensor's storage leaves something behind that makes autograd add up
    gradients out of place."""
    return made.numel() > 0 and any(
        t.numel() and 0 <= made.data_ptr() - t.data_ptr() < _spanned_bytes(t) for t in given)


def _spanned_bytes(x: torch.Tensor) -> int:
    steps = sum((n - 1) * s for n, s in zip(x.shape, x.stride(), strict=True))
    return (1 + steps) * x.element_size()


def _product(args: Args, out: torch.Tensor) -> int:
    return 2 * out.numel() * int(args[0].shape[-1])


def _added_product(args: Args, out: torch.Tensor) -> int:
    return _product(args[1:], out)


def _convolution(args: Args, out: torch.Tensor) -> int:
    return 2 * out.numel() * _of_one_pixel(args[1])


def _of_one_pixel(weight: torch.Tensor) -> int:
    return prod(map(int, weight.shape[1:]))


def _transposed(args: Args, out: torch.Tensor) -> int:
    return 2 * int(args[0].numel()) * _of_one_pixel(args[1])


def _convolution_backward(args: Args, out: torch.Tensor) -> int:
    gradient, x, weight = args[:3]
    is_transposed, wanted = args[7], args[10]
    pixels = x.numel() if is_transposed else gradient.numel()
    return 2 * int(pixels) * _of_one_pixel(weight) * (bool(wanted[0]) + bool(wanted[1]))


def _recurrent(args: Args, out: torch.Tensor) -> int:
    """Every weight matrix once for each reading."""
    readings = args[0].numel() // args[0].shape[-1]
    return 2 * int(readings) * sum(w.numel() for w in _tensors(args[2:3]) if w.dim() == 2)


def _recurrent_backward(args: Args, out: torch.Tensor) -> int:
    """The gradients of the inputs and of the weights: each is as much as the forward."""
    readings = args[0].numel() // args[0].shape[-1]
    return 4 * int(readings) * sum(w.numel() for w in _tensors(args[1:3]))


def _attention(args: Args, out: torch.Tensor) -> int:
    query, key, value = args[:3]
    pairs = int(query.numel()) // int(query.shape[-1]) * int(key.shape[-2])
    return 2 * pairs * (int(query.shape[-1]) + int(value.shape[-1]))


_SUMS = {"sum", "mean", "max_pool2d", "adaptive_avg_pool2d", "avg_pool2d", "norm", "var"}
_RULES: dict[str, Callable[[Args, torch.Tensor], int]] = {
    **dict.fromkeys(("linear", "mm", "bmm", "matmul"), _product),
    **dict.fromkeys(("addmm", "baddbmm"), _added_product),
    **dict.fromkeys(("conv1d", "conv2d", "conv3d", "convolution"), _convolution),
    **dict.fromkeys(("conv_transpose1d", "conv_transpose2d"), _transposed),
    **dict.fromkeys(("lstm", "gru", "rnn_tanh", "rnn_relu"), _recurrent),
    "convolution_backward": _convolution_backward,
    "mkldnn_rnn_layer_backward": _recurrent_backward,
    "scaled_dot_product_attention": _attention,
}
