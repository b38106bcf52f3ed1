"""Cases of the optimizer family: torch's own update in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

RATE = 0.05
_RNG = np.random.default_rng(21)
W, G, M, B = (_RNG.normal(size=(5, 7)) for _ in range(4))
V = M * M + np.abs(_RNG.normal(size=(5, 7))) + 0.1
STEPS = 3
STEP = np.array(float(STEPS))


def _ticked(beta1: float, beta2: float, decay: float, lr_decay: float) -> Any:
    now = STEPS + 1
    return np.array([RATE / (1 + (now - 1) * lr_decay) / (1 - beta1**now),
                     (1 - beta2**now) ** -0.5, 1 - RATE * decay])


def _updated(make: Any, keys: tuple[str, ...], **settings: Any) -> Any:
    """What torch's optimizer makes of (parameter, gradient, -, moments...) after STEPS steps."""
    def run(w: Any, g: Any, _: Any, *moments: Any) -> tuple[torch.Tensor, ...]:
        p = torch.nn.Parameter(torch.from_numpy(w).clone())
        p.grad = torch.from_numpy(g)
        optimizer = make([p], RATE, **settings)
        optimizer.state[p] = {"step": torch.tensor(float(STEPS), dtype=torch.float64)}
        optimizer.state[p] |= {k: torch.from_numpy(m).clone()
                               for k, m in zip(keys, moments, strict=True)}
        optimizer.step()
        return p.detach(), *(optimizer.state[p][k] for k in keys)
    return run


def _adam(decoupled: bool, top: bool, maximize: bool) -> Any:
    keys = ("exp_avg", "exp_avg_sq", *["max_exp_avg_sq"] * top)
    arrays = [W, G, _ticked(0.8, 0.97, 0.1, 0.0), M, V, *[np.abs(B)] * top]
    attrs = {"beta1": 0.8, "beta2": 0.97, "eps": 1e-3, "decay": 0.1, "decoupled": decoupled,
             "maximize": maximize}
    return ("adam", arrays, attrs, _updated(
        torch.optim.AdamW if decoupled else torch.optim.Adam, keys, betas=(0.8, 0.97), eps=1e-3,
        weight_decay=0.1, amsgrad=top, maximize=maximize))


def _rmsprop(centered: bool, momentum: float) -> Any:
    keys = ("square_avg", *["grad_avg"] * centered, *["momentum_buffer"] * (momentum > 0))
    arrays = [W, G, _ticked(0.0, 0.0, 0.0, 0.0), V, *[M] * centered, *[B] * (momentum > 0)]
    attrs = {"alpha": 0.9, "eps": 1e-3, "decay": 0.1, "momentum": momentum, "centered": centered,
             "maximize": False}
    return ("rmsprop", arrays, attrs, _updated(
        torch.optim.RMSprop, keys, alpha=0.9, eps=1e-3, weight_decay=0.1, momentum=momentum,
        centered=centered))


def _tick(beta1: float, beta2: float, decay: float, lr_decay: float) -> Any:
    attrs = {"beta1": beta1, "beta2": beta2, "decay": decay, "lr_decay": lr_decay}
    return ("tick", [STEP, np.array([RATE])], attrs, lambda t, lr: (
        torch.tensor(float(t) + 1, dtype=torch.float64),
        torch.from_numpy(_ticked(beta1, beta2, decay, lr_decay))))


CASES = [
    ("clear", [np.where(W > 1, np.nan, W)], {}, lambda w: torch.zeros_like(torch.from_numpy(W))),
    _tick(0.9, 0.999, 0.1, 0.0), _tick(0.0, 0.0, 0.0, 0.2),
    _adam(False, False, True), _adam(True, False, False), _adam(True, True, False),
    _rmsprop(False, 0.0), _rmsprop(True, 0.0), _rmsprop(False, 0.7), _rmsprop(True, 0.7),
    ("adagrad", [W, G, _ticked(0.0, 0.0, 0.0, 0.2), V],
     {"eps": 1e-3, "decay": 0.1, "maximize": True},
     _updated(torch.optim.Adagrad, ("sum",), lr_decay=0.2, eps=1e-3, weight_decay=0.1,
              maximize=True)),
]
