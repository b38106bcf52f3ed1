"""Matrix products, and attention as the products and the softmax it is made of."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import sqrt
from typing import Any

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode

from handtorch.capture.aten.move import reshaped
from handtorch.capture.builder import Builder, aten
from handtorch.graph.node import Value

KEEP: tuple[str, ...] = ("addmm", "mm", "bmm", "mv", "dot", "addmv")


def _check(b: Builder, op: str, *values: Value) -> None:
    for value in values:
        if value.dtype != "f32":
            raise b.refuse(f"aten.{op} of {value}", "products are computed in float32",
                           "x.float()")


@aten("mm.default")
def _mm(b: Builder, x: Value, y: Value) -> Value:
    _check(b, "mm", x, y)
    return b.one("matmul", (x, y))


@aten("bmm.default")
def _bmm(b: Builder, x: Value, y: Value) -> Value:
    """A batch of one is a plain product, which has the better kernels."""
    _check(b, "bmm", x, y)
    if x.shape[0] == 1:
        flat = b.one("matmul", (reshaped(b, x, x.shape[1:]), reshaped(b, y, y.shape[1:])))
        return reshaped(b, flat, (1, *flat.shape))
    return b.one("bmm", (x, y))


def _plus(b: Builder, product: Value, other: Value, beta: float, alpha: float) -> Value:
    """beta other + alpha product; what is multiplied by 0 is not looked at."""
    if alpha != 1:
        product = b.one("mul", (product, b.constant(alpha, "f32")))
    if beta == 0:
        return product
    if beta != 1:
        other = b.one("mul", (other, b.constant(beta, "f32")))
    return b.one("add", (product, other))


@aten("addmm.default")
def _addmm(b: Builder, bias: Value, x: Value, y: Value, *, beta: float = 1, alpha: float = 1
           ) -> Value:
    _check(b, "addmm", bias, x, y)
    if beta == 1 and alpha == 1 and bias.shape == y.shape[1:]:
        return b.one("matmul", (x, y, bias), epilogue=("bias",))
    return _plus(b, b.one("matmul", (x, y)), bias, beta, alpha)


@aten("mv.default")
def _mv(b: Builder, x: Value, v: Value) -> Value:
    """The vector as a row, read with a flag: both sides then run along memory."""
    _check(b, "mv", x, v)
    out = b.one("matmul", (x, reshaped(b, v, (1, v.size))), tb=True)
    return reshaped(b, out, (x.shape[0],))


@aten("addmv.default")
def _addmv(b: Builder, bias: Value, x: Value, v: Value, *, beta: float = 1, alpha: float = 1
           ) -> Value:
    _check(b, "addmv", bias)
    return _plus(b, _mv(b, x, v), bias, beta, alpha)


@aten("dot.default")
def _dot(b: Builder, x: Value, y: Value) -> Value:
    return reshaped(b, _mv(b, reshaped(b, x, (1, x.size)), y), ())


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor,
              attn_mask: torch.Tensor | None = None, dropout_p: float = 0.0,
              is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False
              ) -> torch.Tensor:
    """What `scaled_dot_product_attention` computes, with fewer passes over the scores.

    torch's own plain form scales both sides, and looks through all scores for rows with nothing
    in them. Only a mask can make such a row, so the mask is asked, which is smaller; without one
    nobody is. Such a row gives zeros, and its gradient is zero."""
    if enable_gqa:
        k, v = (t.repeat_interleave(q.size(-3) // t.size(-3), -3) for t in (k, v))
    size = 1 / sqrt(q.size(-1)) if scale is None else scale
    scores = (q * size) @ k.transpose(-2, -1)
    if is_causal:
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).tril()
        p = torch.softmax(torch.where(seen, scores, float("-inf")), -1)
    elif attn_mask is None:
        p = torch.softmax(scores, -1)
    else:
        p = _masked_softmax(scores, attn_mask)
    return F.dropout(p, dropout_p) @ v if dropout_p else p @ v


def _masked_softmax(scores: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Rows without anything to attend to are computed as if all were seen, then set to zero:
    so that no infinity meets another, here or in the gradient."""
    if mask.dtype == torch.bool:
        blind = ~mask.any(-1, keepdim=True)
        shown = torch.where(mask | blind, scores, float("-inf"))
    else:
        blind = ~(mask != float("-inf")).any(-1, keepdim=True)
        shown = scores + torch.where(blind, 0.0, mask)
    return torch.where(blind, 0.0, torch.softmax(shown, -1))


class _OurAttention(TorchFunctionMode):
    """While entered, every call of torch's attention is ours, however it was imported."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is F.scaled_dot_product_attention:
            given = dict(zip(("q", "k", "v"), args, strict=False))
            named = {{"query": "q", "key": "k", "value": "v"}.get(n, n): x
                     for n, x in (kwargs or {}).items()}
            return attention(**given, **named) if len(args) <= 3 else attention(*args, **named)
        return func(*args, **(kwargs or {}))


@contextmanager
def patched() -> Iterator[None]:
    """Attention in plain operations; modules keep to their written forward, not to a fast path
    for inference that is one opaque operation."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with sdpa_kernel(SDPBackend.MATH), _OurAttention():
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)
