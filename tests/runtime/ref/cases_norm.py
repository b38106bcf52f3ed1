"""Reference cases of normalisation."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F


def _normal(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).normal(2, 1, shape)


def _t(x: Any) -> torch.Tensor:
    return torch.from_numpy(np.asarray(x))


def _stats(x: Any) -> tuple[torch.Tensor, torch.Tensor]:
    t = _t(x)
    return t.mean((0, 2)), torch.rsqrt(t.var((0, 2), correction=0) + 0.1)


def _grad_sums(g: Any, x: Any, mean: Any, scale: Any) -> tuple[torch.Tensor, torch.Tensor]:
    middle, by = (_t(a)[None, :, None] for a in (mean, scale))
    return (_t(g) * (_t(x) - middle) * by).sum((0, 2)), _t(g).sum((0, 2))


def _layer_norm(x: Any, w: Any, b: Any) -> tuple[torch.Tensor, ...]:
    return torch.native_layer_norm(_t(x), [4, 5], _t(w), _t(b), 0.1)


def _layer_norm_grad(g: Any, x: Any, mean: Any, scale: Any, w: Any) -> tuple[Any, ...]:
    leaves = [_t(x).clone().requires_grad_(), _t(w).clone().requires_grad_(),
              torch.zeros(4, 5, dtype=torch.float64, requires_grad=True)]
    y = F.layer_norm(leaves[0], [4, 5], leaves[1], leaves[2], 0.1)
    return torch.autograd.grad(y, leaves, _t(g))


_X, _ROWS = _normal(3, 4, 6), _normal(3, 4, 5)
_MEAN, _SCALE = (a.numpy() for a in torch.native_layer_norm(_t(_ROWS), [4, 5], None, None, 0.1)[1:])
CASES = [
    ("norm_stats", [_X], {"split": (3, 4, 6), "eps": 0.1}, _stats),
    ("norm_grad_sums", [_normal(3, 4, 6), _X, _normal(4), _normal(4)], {"split": (3, 4, 6)},
     _grad_sums),
    ("layer_norm", [_ROWS, _normal(4, 5), _normal(4, 5)], {"axis": 1, "eps": 0.1}, _layer_norm),
    ("layer_norm_grad", [_normal(3, 4, 5), _ROWS, _MEAN, _SCALE, _normal(4, 5)],
     {"axis": 1, "affine": True}, _layer_norm_grad),
]
