"""Cases of batched products: (op, arrays, attributes, what PyTorch says)."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch


def _t(x: Any) -> torch.Tensor:
    return torch.from_numpy(np.asarray(x))


_A, _B = (np.random.default_rng(i).normal(size=s) for i, s in enumerate(((3, 5, 7), (3, 7, 4))))

_W, _M = (np.random.default_rng(i).normal(size=(5, 4)) for i in (3, 4))


def _update(nesterov: bool, maximize: bool) -> Any:
    """A weight whose gradient is a product, moved by torch's own SGD."""
    def run(w: Any, a: Any, b: Any, lr: Any, moment: Any) -> tuple[torch.Tensor, ...]:
        p = torch.nn.Parameter(_t(w).clone())
        p.grad = _t(a).T @ _t(b)
        optimizer = torch.optim.SGD([p], float(lr[0]), momentum=0.9, weight_decay=0.1,
                                    nesterov=nesterov, maximize=maximize)
        optimizer.state[p] = {"momentum_buffer": _t(moment).clone()}
        optimizer.step()
        return p.detach(), optimizer.state[p]["momentum_buffer"]
    attrs = {"ta": True, "momentum": 0.9, "decay": 0.1, "nesterov": nesterov, "maximize": maximize}
    return ("matmul_sgd", [_W, _A[0].T, _B[0], np.array([0.05]), _M], attrs, run)


CASES = [
    _update(False, False), _update(True, True),
    ("bmm", [_A, _B], {}, lambda a, b: _t(a) @ _t(b)),
    ("bmm", [_A.swapaxes(1, 2), _B.swapaxes(1, 2)], {"ta": True, "tb": True},
     lambda a, b: _t(a).mT @ _t(b).mT),
    ("bmm", [_A, _B[:1].swapaxes(1, 2)], {"tb": True}, lambda a, b: _t(a) @ _t(b).mT),
]
