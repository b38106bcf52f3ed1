"""Recurrent layers: cases for `test_ops.py`; the other side is a plain loop and autograd."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

T, B, H = 3, 2, 5
GATES = {"lstm": 4, "gru": 3, "rnn": 1}


def _normal(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).normal(size=shape)


def _loop(op: str, attrs: dict[str, Any], gx: torch.Tensor, probe: torch.Tensor, u: torch.Tensor,
          h: torch.Tensor, c: torch.Tensor, bias: torch.Tensor) -> dict[str, torch.Tensor]:
    """All that a layer computes; `probe` is added to u h, to get at its gradient. Time first."""
    rows: dict[int, dict[str, torch.Tensor]] = {}
    for t in reversed(range(T)) if attrs["reverse"] else range(T):
        before, inner = h, h @ u.T + bias + probe[t]
        if op == "lstm":
            i, f, g, o = (gx[t] + inner).chunk(4, 1)
            i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
            c = f * c + i * g
            h, gates = o * c.tanh(), torch.cat((i, f, g, o), 1)
        elif op == "gru":
            (r, z, n), (hr, hz, q) = gx[t].chunk(3, 1), inner.chunk(3, 1)
            r, z = (r + hr).sigmoid(), (z + hz).sigmoid()
            n = (n + r * q).tanh()
            h, gates = (1 - z) * n + z * h, torch.cat((r, z, n, q), 1)
        else:
            h = gates = (gx[t] + inner).relu() if attrs.get("relu") else (gx[t] + inner).tanh()
        rows[t] = {"y": h, "cells": c, "gates": gates, "before": before}
    made = {name: torch.stack([rows[t][name] for t in range(T)]) for name in rows[0]}
    if attrs["batch_first"]:
        made = {name: x.transpose(0, 1) for name, x in made.items()}
    return {**made, "hn": h, "cn": c}


OUTPUTS = {"lstm": ["y", "hn", "cn", "gates", "cells"], "gru": ["y", "hn", "gates"],
           "rnn": ["y", "hn"]}
SAVED = {"lstm": ["y", "gates", "cells"], "gru": ["y", "gates"], "rnn": ["y"]}


def _cases(op: str, **attrs: Any) -> list[Any]:
    """The forward case and the gradient case of one layer."""
    first, second = (B, T) if attrs["batch_first"] else (T, B)
    gx, u = _normal(first, second, GATES[op] * H), _normal(GATES[op] * H, H)
    start = [_normal(B, H), _normal(B, H) + 1][:1 + (op == "lstm")] if attrs["states"] else []
    bias = [_normal(3 * H)] if attrs.get("bias") else []
    given = {"dy": _normal(first, second, H), "dh": _normal(B, H), "dc": _normal(B, H) - 1}
    grads = attrs.pop("grads")

    def run(gx: Any, u: Any, *rest: Any, probe: Any = None) -> dict[str, torch.Tensor]:
        one, zero = (torch.as_tensor(x) for x in (u, np.zeros((B, H))))
        h, c = (*(torch.as_tensor(x) for x in rest[:len(start)]), zero, zero)[:2]
        b = torch.as_tensor(rest[len(start)] if bias else np.zeros(len(one)))
        x = torch.as_tensor(gx).transpose(0, 1) if attrs["batch_first"] else torch.as_tensor(gx)
        none = torch.zeros(T, B, GATES[op] * H, dtype=torch.float64)
        return _loop(op, attrs, x, none if probe is None else probe, one, h, c, b)

    def forward(*arrays: Any) -> tuple[torch.Tensor, ...]:
        made = run(*arrays)
        return tuple(made[n] for n in OUTPUTS[op] if attrs.get("save") or n in ("y", "hn", "cn"))

    def backward(u: Any, *_: Any) -> tuple[torch.Tensor, ...]:
        x = torch.from_numpy(gx).requires_grad_()
        probe = torch.zeros(T, B, GATES[op] * H, dtype=torch.float64, requires_grad=True)
        states = [torch.from_numpy(s).requires_grad_() for s in start]
        made = run(x, u, *states, *bias, probe=probe)
        ends = {"dy": made["y"], "dh": made["hn"], "dc": made["cn"]}
        seeds = [torch.from_numpy(given[n]) for n in grads]
        dx, dq, *ds = torch.autograd.grad([ends[n] for n in grads], [x, probe, *states], seeds)
        dq = dq.transpose(0, 1) if attrs["batch_first"] else dq
        return dx, *([dq] if op == "gru" else []), made["before"].detach(), *ds

    made = run(gx, u, *start, *bias)
    saved = [np.ascontiguousarray(made[n].numpy()) for n in SAVED[op]]
    back = {k: v for k, v in attrs.items() if k not in ("save", "bias")} | {"grads": grads}
    return [(op, [gx, u, *start, *bias], dict(attrs), forward),
            (f"{op}_grad", [u, *saved, *start, *(given[n] for n in grads)], back, backward)]


def _with_product(case: Any, input_bias: bool) -> Any:
    """The forward case of a layer, with the product that gives it its gx."""
    op, (gx, *rest), attrs, fn = case
    given = [_normal(T * B, 4), _normal(gx.shape[2], 4), *[_normal(gx.shape[2])] * input_bias]

    def forward(x: Any, w: Any, *more: Any) -> Any:
        return fn((x @ w.T + sum(more[:input_bias])).reshape(gx.shape), *more[input_bias:])
    return (f"{op}_layer", [*given, *rest], {**attrs, "time": T, "input_bias": input_bias}, forward)


CASES = [
    *_cases("lstm", batch_first=False, reverse=False, states=False, save=True, grads=("dy",)),
    *_cases("lstm", batch_first=True, reverse=True, states=True, save=False,
            grads=("dy", "dh", "dc")),
    *_cases("gru", batch_first=True, reverse=False, states=False, save=True, bias=False,
            grads=("dh",)),
    *_cases("gru", batch_first=False, reverse=True, states=True, save=False, bias=True,
            grads=("dy", "dh")),
    *_cases("rnn", batch_first=False, reverse=False, states=True, relu=True, grads=("dy",)),
    *_cases("rnn", batch_first=True, reverse=True, states=False, relu=False, grads=("dy", "dh")),
]
CASES += [_with_product(case, input_bias=bool(i % 4)) for i, case in enumerate(CASES[::2])]
