"""Convolutions for `test_ops.py`: op, inputs, attributes, the same in torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F


def _normal(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).normal(size=shape)


def _t(x: Any) -> torch.Tensor:
    return torch.from_numpy(np.asarray(x))


WINDOWS = {"stride": (2, 1), "padding": (1, 2), "dilation": (1, 2), "groups": 2}
PLAIN = {"stride": (1, 1), "padding": (0, 0), "dilation": (1, 1), "groups": 1}
DEPTHWISE = {**PLAIN, "padding": (1, 1), "groups": 6}
_X, _W, _Y = _normal(2, 6, 8, 7), _normal(10, 3, 3, 2), _normal(2, 10, 4, 9)


def _backward(x: Any, w: Any, dy: Any, which: int) -> torch.Tensor:
    leaves = [_t(x).requires_grad_(), _t(w).requires_grad_()]
    F.conv2d(*leaves, **WINDOWS).backward(_t(dy))
    found = leaves[which].grad
    assert found is not None
    return found


CASES = [
    ("conv", [_X, _W], WINDOWS, lambda x, w: F.conv2d(_t(x), _t(w), **WINDOWS)),
    ("conv", [_X, _normal(5, 6, 1, 1), _normal(5)], {**PLAIN, "epilogue": ("bias", "relu")},
     lambda x, w, b: torch.relu(F.conv2d(_t(x), _t(w), _t(b)))),
    ("conv", [_X, _normal(6, 1, 3, 3), _normal(6)], {**DEPTHWISE, "epilogue": ("bias",)},
     lambda x, w, b: F.conv2d(_t(x), _t(w), _t(b), padding=1, groups=6)),
    ("conv_grad_input", [_Y, _W], {**WINDOWS, "size": (8, 7)},
     lambda dy, w: _backward(_X, w, dy, 0)),
    ("conv_grad_input", [_X, _normal(6, 4, 3, 3), _normal(4)],
     {**PLAIN, "size": (10, 9), "epilogue": ("bias", "relu")},
     lambda x, w, b: torch.relu(F.conv_transpose2d(_t(x), _t(w), _t(b)))),
    ("conv_grad_weight", [_Y, _X], {**WINDOWS, "kernel": (3, 2)},
     lambda dy, x: _backward(x, _W, dy, 1)),
]
