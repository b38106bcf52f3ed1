"""Cases of batched products: (op, arrays, attributes, what PyTorch says)."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch


def _t(x: Any) -> torch.Tensor:
    return torch.from_numpy(np.asarray(x))


_A, _B = (np.random.default_rng(i).normal(size=s) for i, s in enumerate(((3, 5, 7), (3, 7, 4))))

CASES = [
    ("bmm", [_A, _B], {}, lambda a, b: _t(a) @ _t(b)),
    ("bmm", [_A.swapaxes(1, 2), _B.swapaxes(1, 2)], {"ta": True, "tb": True},
     lambda a, b: _t(a).mT @ _t(b).mT),
    ("bmm", [_A, _B[:1].swapaxes(1, 2)], {"tb": True}, lambda a, b: _t(a) @ _t(b).mT),
]
