"""Cases of indexing: (op, arrays, attributes, what PyTorch says)."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch


def _t(x: Any) -> torch.Tensor:
    found = torch.from_numpy(np.asarray(x))
    return found if found.dtype != torch.int32 else found.long()


_X = np.random.default_rng(0).normal(size=(4, 6, 5))
_I = np.array([[3, 0], [5, 3]], "i4")
_BACK = np.array([-1, 2, -6], "i4")
_SRC = np.random.default_rng(1).normal(size=(4, 2, 2, 5))
_EACH = np.random.default_rng(2).integers(0, 6, (4, 3, 5)).astype("i4")
_ROWS = np.array([5, 1, 3], "i4")
_OTHER = _EACH.copy()
_OTHER[:] = np.array([2, 5, 0])[:, None]        # nothing is written twice

CASES = [
    ("take", [_X, _I], {"axis": 1, "wrap": False}, lambda x, i: _t(x)[:, _t(i)]),
    ("take", [_X, _BACK], {"axis": 1, "wrap": True}, lambda x, i: _t(x)[:, _t(i)]),
    ("gather", [_X, _EACH], {"axis": 1}, lambda x, i: _t(x).gather(1, _t(i))),
    ("put", [_I, _SRC], {"shape": (4, 6, 5), "axis": 1, "add": True, "wrap": False},
     lambda i, s: torch.zeros(4, 6, 5, dtype=torch.float64).index_put(
         (torch.arange(4)[:, None, None], _t(i)), _t(s), accumulate=True)),
    ("put", [_I, _SRC, _X], {"shape": (4, 6, 5), "axis": 1, "add": True, "wrap": False, "skip": 5},
     lambda i, s, x: _t(x).index_put((torch.arange(4)[:, None, None], _t(i)), _t(s) * (
         _t(i) != 5)[..., None], accumulate=True)),
    ("put", [_ROWS, _SRC[:, :, 0, :].repeat(2, 1)[:, :3], _X],
     {"shape": (4, 6, 5), "axis": 1, "add": False, "wrap": False},
     lambda i, s, x: _t(x).index_copy(1, _t(i), _t(s))),
    ("scatter", [_EACH, _X[:, :3], _X], {"shape": (4, 6, 5), "axis": 1, "add": True},
     lambda i, s, x: _t(x).scatter_add(1, _t(i), _t(s))),
    ("scatter", [_OTHER, _X[:, :3]], {"shape": (4, 6, 5), "axis": 1, "add": False},
     lambda i, s: torch.zeros(4, 6, 5, dtype=torch.float64).scatter(1, _t(i), _t(s))),
]
