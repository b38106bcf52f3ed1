"""Reference cases of reductions, scans and class losses."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F


def _normal(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).normal(size=shape)


def _t(x: Any) -> torch.Tensor:
    return torch.from_numpy(np.asarray(x))


def _index(x: Any, axis: int, largest: bool) -> tuple[torch.Tensor, torch.Tensor]:
    best, where = (torch.max if largest else torch.min)(_t(x), axis)
    return best, where.int()


def _softmax_grad(g: Any, y: Any) -> torch.Tensor:
    """For y = softmax(log(y)) over axis 1."""
    x = torch.log(_t(y)).requires_grad_()
    F.softmax(x, 1).backward(_t(g))
    assert x.grad is not None
    return x.grad


def _nll_grad(g: Any, target: Any, weight: Any) -> torch.Tensor:
    x = torch.zeros(2, 3, 4, dtype=torch.float64, requires_grad=True)
    F.nll_loss(x, _t(target).long(), _t(weight), reduction="none").backward(_t(g))
    assert x.grad is not None
    return x.grad


_X, _INTS = _normal(3, 4, 5), (10 * _normal(3, 4)).astype("i4")
_MAPS = np.array([[0, 2, -100, 1], [1, 1, 0, 2]], "i4")
_WEIGHT = np.array([0.5, 1.0, 2.0])
_PROBABILITIES = torch.softmax(_t(_normal(2, 3, 4)), 1).numpy()
CASES = [
    ("sum", [_X], {"axes": (1,), "of": "square", "scale": 0.25},
     lambda x: (_t(x) ** 2).sum(1) / 4),
    ("sum", [_INTS], {"axes": (0,)}, lambda x: _t(x).sum(0).int()),
    ("prod", [_X], {"axes": (0,)}, lambda x: _t(x).prod(0)),
    ("amax", [_X], {"axes": (0, 2), "of": "abs"}, lambda x: _t(x).abs().amax((0, 2))),
    ("amin", [_X], {"axes": (1, 2), "keepdim": True}, lambda x: _t(x).amin((1, 2), keepdim=True)),
    ("any", [_X > 1], {"axes": (2,)}, lambda x: _t(x).any(2)),
    ("max_index", [_X], {"axes": (1,)}, lambda x: _index(x, 1, True)),
    ("min_index", [_INTS], {"axes": (0,)}, lambda x: _index(x, 0, False)),
    ("cumsum", [_X], {"axis": 1}, lambda x: _t(x).cumsum(1)),
    ("cumprod", [_X], {"axis": 2}, lambda x: _t(x).cumprod(2)),
    ("softmax", [_X], {"axis": 0}, lambda x: torch.softmax(_t(x), 0)),
    ("softmax_grad", [_normal(2, 3, 4), _PROBABILITIES], {"axis": 1}, _softmax_grad),
    ("nll_loss", [_normal(2, 3, 4), _MAPS, _WEIGHT], {"reduction": "mean", "ignore": -100},
     lambda x, y, w: F.nll_loss(_t(x), _t(y).long(), _t(w))),
    ("nll_loss_grad", [_normal(2, 4), _MAPS, _WEIGHT],
     {"shape": (2, 3, 4), "reduction": "none", "ignore": -100}, _nll_grad),
]
