"""Recurrent layers: the kernels of `rnn_loop`, and cases for each cell, edge and way to run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count

import numpy as np

from handtorch.graph.node import Shape, Value
from handtorch.kernels.case import Array, Case
from handtorch.kernels.rnn_loop import (
    BACKWARD,
    FORWARD,
    GATES,
    KERNELS,
    Choice,
    Layer,
    loop_steps,
    pack_steps,
)

__all__ = ["KERNELS", "cases", "passes"]


@dataclass
class _Data:
    """Arrays by value id while a case is put together."""

    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(5))
    given: dict[int, Array] = field(default_factory=dict)
    fresh: Iterator[int] = field(default_factory=count)

    def take(self, array: Array) -> Value:
        value = Value(next(self.fresh), array.shape)
        self.given[value.id] = array.astype("f4")
        return value

    def normal(self, *shape: int) -> Value:
        return self.take(self.rng.normal(0, 0.7, shape))

    def blank(self, shape: Shape) -> Value:
        return self.take(np.zeros(shape))

    def exact(self, value: Value) -> Array:
        return self.given[value.id].astype("f8")


def _sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def _order(layer: Layer) -> list[int]:
    steps = list(range(layer.time))
    return steps[::-1] if layer.reverse else steps


def _forward(layer: Layer, gx: Array, u: Array, h: Array, c: Array, bias: Array
             ) -> tuple[Array, Array, Array]:
    """y, what is saved of the gates and the cells; time first."""
    y, gates, cells = (np.zeros((layer.time, layer.batch, n * layer.hidden)) for n in (1, 4, 1))
    for t in _order(layer):
        if layer.cell == "lstm":
            i, f, g, o = np.split(gx[t] + h @ u.T, 4, 1)
            i, f, g, o = _sigmoid(i), _sigmoid(f), np.tanh(g), _sigmoid(o)
            c = f * c + i * g
            h, gates[t], cells[t] = o * np.tanh(c), np.concatenate((i, f, g, o), 1), c
        elif layer.cell == "gru":
            (r, z, n), (hr, hz, q) = np.split(gx[t], 3, 1), np.split(h @ u.T + bias, 3, 1)
            r, z = _sigmoid(r + hr), _sigmoid(z + hz)
            n = np.tanh(n + r * q)
            h, gates[t] = n + z * (h - n), np.concatenate((r, z, n, q), 1)
        else:
            a = gx[t] + h @ u.T
            h = np.maximum(a, 0) if layer.cell == "relu" else np.tanh(a)
        y[t] = h
    return y, gates, cells


def _backward(layer: Layer, u: Array, saved: Mapping[str, Array], h0: Array, c0: Array, dy: Array,
              dh: Array, dc: Array) -> tuple[Array, ...]:
    """dg, dq, the h before each step, dh0, dc0; time first."""
    y, gates, cells = saved["y"], saved["gates"], saved["cells"]
    shape = (layer.time, layer.batch, GATES[layer.cell] * layer.hidden)
    dg, dq, before = np.zeros(shape), np.zeros(shape), np.zeros(y.shape)
    order = _order(layer)
    for s, t in reversed(list(enumerate(order))):
        was, old = (y[order[s - 1]], cells[order[s - 1]]) if s else (h0, c0)
        before[t], e, rest = was, dh + dy[t], np.zeros(())
        if layer.cell == "lstm":
            (i, f, g, o), th = np.split(gates[t], 4, 1), np.tanh(cells[t])
            dc = dc + e * o * (1 - th * th)
            parts = [dc * g * i * (1 - i), dc * old * f * (1 - f), dc * i * (1 - g * g),
                     e * th * o * (1 - o)]
            dc, inner = dc * f, parts
        elif layer.cell == "gru":
            r, z, n, q = np.split(gates[t], 4, 1)
            dn, rest = e * (1 - z) * (1 - n * n), e * z
            parts = [dn * q * r * (1 - r), e * (was - n) * z * (1 - z), dn]
            inner = [*parts[:2], dn * r]
        else:
            parts = inner = [e * ((y[t] > 0) if layer.cell == "relu" else 1 - y[t] ** 2)]
        dg[t], dq[t] = np.concatenate(parts, 1), np.concatenate(inner, 1)
        dh = rest + dq[t] @ u
    return dg, dq, before, dh, dc


def _inputs(d: _Data, layer: Layer, rows: tuple[int, int], bias: bool
            ) -> tuple[list[Value], list[Value], Array]:
    """Input weights and what else the loop is given to begin with, and what gx is."""
    columns = GATES[layer.cell] * layer.hidden
    if not layer.inputs:
        gx = d.normal(*rows, columns)
        return [], [gx], d.exact(gx)
    x, w = d.normal(*rows, layer.inputs), d.normal(columns, layer.inputs)
    more = [d.normal(columns)] if bias else []
    return [w], [x, *more], np.asarray(d.exact(x) @ d.exact(w).T + sum(map(d.exact, more)))


def _time_first(layer: Layer, x: Array) -> Array:
    return x.swapaxes(0, 1) if layer.batch_first else x


def passes(name: str, layer: Layer, choice: Choice, *, states: bool = True, save: bool = True,
           bias: bool = True, given: str = "dy dh dc") -> Iterator[Case]:
    """The layer run in this way; with `save` its gradients too. `bias` are those of both products
    that the loop does."""
    d, cell, b, h = _Data(), layer.cell, layer.batch, layer.hidden
    rows = (b, layer.time) if layer.batch_first else (layer.time, b)
    weights, inputs, gx = _inputs(d, layer, rows, bias)
    u = d.normal(GATES[cell] * h, h)
    lstm, gated = cell == "lstm", cell in ("lstm", "gru")
    start = {"h0": d.normal(b, h)} if states else {}
    start |= {"c0": d.normal(b, h)} if states and lstm else {}
    bias_v = d.normal(3 * h) if bias and cell == "gru" else None
    zeros = np.zeros((b, h))
    h0, c0 = (d.exact(start[n]) if n in start else zeros for n in ("h0", "c0"))
    y, gates, cells = _forward(layer, _time_first(layer, gx), d.exact(u), h0, c0,
                               d.exact(bias_v) if bias_v else np.zeros(3 * h))
    packed, pack = pack_steps(layer, (*weights, u), False, choice, node=0, scratch=d.blank)
    outs = {"y": _time_first(layer, y), "hn": y[_order(layer)[-1]]}
    outs |= {"cn": cells[_order(layer)[-1]]} if lstm else {}
    outs |= {"cells": _time_first(layer, cells)} if lstm and save else {}
    outs |= {"gates": _time_first(layer, gates)} if gated and save else {}
    made = {n: d.blank(a.shape) for n, a in outs.items()}
    if lstm and not save:
        made["cells"] = d.blank((2, b, h))
    places = [made[n] for n in ("y", "hn", "cn", "cells", "gates") if n in made]
    reads = [*inputs, packed, *([bias_v] if bias_v else []), *start.values()]
    steps = loop_steps(FORWARD, layer, choice, reads, places,
                       {"SAVE": int(save), "STATES": int(states), "BIAS": int(bias_v is not None),
                        "INPUT_BIAS": int(len(inputs) > 1)}, node=0, flops=0)
    yield Case(f"rnn_forward {name}", (pack, *steps), d.given,
               {made[n].id: a for n, a in outs.items()})
    if save:
        saved = {"y": _time_first(layer, y), "gates": _time_first(layer, gates),
                 "cells": _time_first(layer, cells)}
        yield _backward_case(f"rnn_backward {name}", layer, choice, d.exact(u), saved, h0, c0,
                             states, given.split())


def _backward_case(name: str, layer: Layer, choice: Choice, u: Array, saved: Mapping[str, Array],
                   h0: Array, c0: Array, states: bool, given: list[str]) -> Case:
    d, cell, b, h = _Data(), layer.cell, layer.batch, layer.hidden
    lstm, gated = cell == "lstm", cell in ("lstm", "gru")
    weight = d.take(u)
    used = ["y", *(["gates"] if gated else []), *(["cells"] if lstm else [])]
    reads = [d.take(saved[n]) for n in used]
    reads += [d.take(x) for x in (h0, c0)[:1 + lstm]] if states else []
    shapes = {"dy": saved["y"].shape, "dh": (b, h), "dc": (b, h)}
    there = [n for n in given if n != "dc" or lstm]
    grads = {n: d.normal(*shapes[n]) for n in there}
    dy, dh, dc = (d.exact(grads[n]) if n in grads else np.zeros(shapes[n]) for n in shapes)
    dg, dq, before, dh0, dc0 = _backward(
        layer, u, {n: _time_first(layer, a) for n, a in saved.items()}, h0, c0,
        _time_first(layer, dy), dh, dc)
    outs = [_time_first(layer, dg), *([_time_first(layer, dq)] if cell == "gru" else []),
            _time_first(layer, before), *((dh0, dc0)[:1 + lstm] if states else ())]
    packed, pack = pack_steps(layer, (weight,), True, choice, node=0, scratch=d.blank)
    carry = [d.blank((2, b, h))] if gated else []
    places = [d.blank(a.shape) for a in outs]
    steps = loop_steps(BACKWARD, layer, choice, (packed, *reads, *grads.values()),
                       (*carry, *places),
                       {"STATES": int(states), **{n.upper(): int(n in grads) for n in shapes}},
                       node=0, flops=0)
    return Case(name, (pack, *steps), d.given,
                {v.id: a for v, a in zip(places, outs, strict=True)})


def cases() -> Iterator[Case]:
    """Each cell once with everything; the other edges and ways to run on one cell each."""
    for cell in GATES:
        yield from passes(f"{cell} 5 units", Layer(cell, 3, 3, 5, reverse=True),
                          Choice(2, 4, 1, False))
    for cell in ("gru", "lstm"):
        yield from passes(f"{cell} plain", Layer(cell, 1, 2, 16, batch_first=True),
                          Choice(1, 16, 1, False), states=False, bias=False, given="dy")
    yield from passes("lstm shared", Layer("lstm", 3, 3, 9, True, True), Choice(2, 2, 4, False),
                      given="dh")
    yield from passes("gru stepped", Layer("gru", 5, 2, 7), Choice(4, 4, 2, True))
    yield from passes("tanh one", Layer("tanh", 1, 1, 1), Choice(1, 1, 1, False), given="dh",
                      states=False)
    yield from passes("relu forty units", Layer("relu", 1, 2, 40), Choice(1, 16, 1, False),
                      given="dy")
    yield from passes("gru 33 units fed", Layer("gru", 1, 2, 33, inputs=39),
                      Choice(1, 16, 1, False), states=False, save=False)
    yield from passes("lstm not saved", Layer("lstm", 2, 4, 17, True), Choice(2, 16, 1, False),
                      save=False)
    for cell in GATES:
        yield from passes(f"{cell} fed", Layer(cell, 3, 3, 5, reverse=True, inputs=3),
                          Choice(2, 4, 1, False), save=False)
    for cell in ("gru", "lstm"):
        yield from passes(f"{cell} fed without biases", Layer(cell, 1, 2, 16, True, inputs=1),
                          Choice(1, 16, 1, False), states=False, save=False, bias=False)
    for cell in GATES:
        yield from passes(f"{cell} in pairs", Layer(cell, 2, 3, 8),
                          Choice(1, 2, 1, False, vectors=2), given="dy")
        yield from passes(f"{cell} in fours", Layer(cell, 3, 3, 8),
                          Choice(4, 2, 1, False, vectors=4))
    yield from passes("lstm in pairs, stepped", Layer("lstm", 5, 2, 16, True),
                      Choice(4, 4, 1, True, vectors=2), given="dy")
    yield from passes("gru two by four", Layer("gru", 2, 2, 16), Choice(2, 2, 1, False, vectors=4),
                      states=False, given="dy")
