"""Pooling for `test_ops.py`: op, inputs, attributes, the same in torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

_X = np.random.default_rng(3).normal(size=(2, 3, 7, 10))
WINDOWS = {"kernel": (3, 2), "stride": (2, 1), "padding": (1, 1)}
MEAN = {**WINDOWS, "pad_counts": False, "divisor": 0}
DILATED = {**WINDOWS, "dilation": (2, 3)}
_TORCH = {"kernel_size": (3, 2), "stride": (2, 1), "padding": (1, 1)}


def _t(x: Any) -> torch.Tensor:
    return torch.from_numpy(np.asarray(x))


def _max(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    y, index = F.max_pool2d(x, **_TORCH, dilation=(2, 3), return_indices=True)
    return y, index


def _avg(x: torch.Tensor) -> torch.Tensor:
    return F.avg_pool2d(x, **_TORCH, count_include_pad=False)


def _parts(x: torch.Tensor) -> torch.Tensor:
    return F.adaptive_avg_pool2d(x, (4, 3))


def _backward(fn: Callable[[torch.Tensor], torch.Tensor], dy: Any) -> torch.Tensor:
    x = _t(_X).requires_grad_()
    fn(x).backward(_t(dy))
    assert x.grad is not None
    return x.grad


_Y, _INDEX = (a.numpy() for a in _max(_t(_X)))
CASES = [
    ("max_pool", [_X], {**DILATED, "size": _Y.shape[2:]}, lambda x: _max(_t(x))),
    ("max_pool_grad", [_Y, _INDEX.astype("i4")], {**DILATED, "shape": _X.shape},
     lambda dy, _: _backward(lambda x: _max(x)[0], dy)),
    ("avg_pool", [_X], {**MEAN, "size": _avg(_t(_X)).shape[2:]}, lambda x: _avg(_t(x))),
    ("avg_pool_grad", [_avg(_t(_X)).numpy()], {**MEAN, "shape": _X.shape},
     lambda dy: _backward(_avg, dy)),
    ("avg_pool", [_X], {"adaptive": True, "size": (4, 3)}, lambda x: _parts(_t(x))),
    ("avg_pool_grad", [_parts(_t(_X)).numpy()], {"adaptive": True, "shape": _X.shape},
     lambda dy: _backward(_parts, dy)),
    ("avg_pool", [_X], {**MEAN, "kernel": (7, 10), "padding": (0, 0), "size": (1, 1)},
     lambda x: _t(x).mean((2, 3), keepdim=True)),
    ("avg_pool_grad", [_X[:, :, :1, :1]],
     {**MEAN, "kernel": (7, 10), "padding": (0, 0), "shape": _X.shape},
     lambda dy: (_t(dy) / 70).expand(_X.shape)),
]
