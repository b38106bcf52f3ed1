"""Cases of the ops that move data: (op, arrays, attributes, what PyTorch says)."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F


def _t(x: Any) -> torch.Tensor:
    return torch.from_numpy(np.asarray(x))


_X = np.random.default_rng(0).normal(size=(4, 6, 5))
_BOX = {"starts": (1, 5, 0), "steps": (1, -2, 3)}
_INSIDE = {"starts": (1, 0, 2), "steps": (1, 2, 1)}


def _put(base: Any, x: Any) -> torch.Tensor:
    y = _t(base).clone()
    y[1:, ::2, 2:4] = _t(x)
    return y


CASES = [
    ("arange", [], {"start": 4, "step": -3, "count": 5},
     lambda: torch.arange(4, -11, -3, dtype=torch.int32)),
    ("fill", [], {"shape": (2, 3), "number": 7.0, "dtype": "i32"},
     lambda: torch.full((2, 3), 7, dtype=torch.int32)),
    ("transpose", [_X], {"order": (2, 0, 1)}, lambda x: _t(x).permute(2, 0, 1)),
    ("transpose", [_X > 0], {"order": (1, 0, 2)}, lambda x: _t(x).permute(1, 0, 2)),
    ("expand", [_X[:, :1]], {"shape": (3, 4, 6, 5)}, lambda x: _t(x).expand(3, 4, 6, 5)),
    ("slice", [_X], {**_BOX, "shape": (2, 3, 2)},
     lambda x: _t(x)[1:3].flip(1)[:, ::2, ::3]),
    ("pad", [_X[:3, :3, :2]], {**_INSIDE, "shape": (4, 6, 5), "number": 0.5},
     lambda x: _put(np.full((4, 6, 5), 0.5), x)),
    ("pad", [_X[0]], {"starts": (1, 2), "steps": (1, 1), "shape": (8, 9), "number": 0.0},
     lambda x: F.pad(_t(x), (2, 2, 1, 1))),
    ("put_slice", [_X, _X[:3, :3, 3:]], _INSIDE, _put),
    ("cat", [_X, _X[:, 1:3], _X[:, 4:]], {"axis": 1}, lambda *x: torch.cat([*map(_t, x)], 1)),
    ("cat", [_X[0] > 0, _X[1] > 0], {"axis": 0}, lambda *x: torch.cat([*map(_t, x)])),
]
