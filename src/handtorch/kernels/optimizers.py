"""Optimizer updates but SGD: specs and cases."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from handtorch.graph.node import Value
from handtorch.kernels.case import Array, Case
from handtorch.kernels.spec import Defines, Geometry, Kernel, Sizes, ceil_div, number

SMALL_GROUP, LARGE_GROUP = 16, 256
MANY_ITEMS = 32 * LARGE_GROUP          # from here on large groups still make 32 of them


def group_for(count: int) -> int:
    """Small groups share few elements between cores, large ones are faster on many."""
    return LARGE_GROUP if count >= MANY_ITEMS else SMALL_GROUP


def _per_element(defines: Defines, sizes: Sizes) -> Geometry:
    group = number(defines, "GROUP")
    return (ceil_div(max(int(sizes["COUNT"]), 1), group) * group,), (group,)


def _floats(*names: str) -> dict[str, str]:
    return dict.fromkeys(names, "float")


TICK = Kernel("tick", ("r", "rw", "w"), lambda _, __: ((1,), (1,)),
              _floats("LOG_B1", "LOG_B2", "DECAY", "LR_DECAY"))
ADAM = Kernel("adam", ("r", "r", "rw", "rw", "rw", "rw"), _per_element,
              {"COUNT": "int", **_floats("SIGN", "DECAY", "REST1", "BETA2", "REST2", "EPS")},
              {"GROUP": SMALL_GROUP, "HAS_TOP": 1, "DECOUPLED": 0})
RMSPROP = Kernel("rmsprop", ("r", "r", "rw", "rw", "rw", "rw"), _per_element,
                 {"COUNT": "int", **_floats("SIGN", "DECAY", "ALPHA", "REST", "EPS", "MOMENTUM")},
                 {"GROUP": SMALL_GROUP, "CENTERED": 1, "HAS_MOMENTUM": 1})
ADAGRAD = Kernel("adagrad", ("r", "r", "rw", "rw"), _per_element,
                 {"COUNT": "int", **_floats("SIGN", "DECAY", "EPS")}, {"GROUP": SMALL_GROUP})
KERNELS = (TICK, ADAM, RMSPROP, ADAGRAD)


def access_for(moments: int) -> tuple[str, ...]:
    """Gradient and coefficients are read; parameter and moments are updated."""
    return ("r", "r", *["rw"] * (1 + moments))


def _case(name: str, kernel: Kernel, given: list[Array], sizes: Sizes, expected: list[Array],
          **defines: int) -> Case:
    values = [Value(i, a.shape) for i, a in enumerate(given)]
    step = kernel.step(values, sizes, defines, access=access_for(len(given) - 3))
    return Case(name, (step,), dict(enumerate(given)), dict(enumerate(expected, 2)))


def cases() -> Iterator[Case]:
    rng = np.random.default_rng(17)

    def normal(*shape: int) -> Array:
        return rng.normal(0, 2, shape).astype("f4")

    for steps in (0, 1, 999):
        yield _tick_case(steps)
    for count in (1, 16, 17):
        g, w, m = normal(count), normal(count), normal(count)
        squares = m * m + np.abs(normal(count)) + np.float32(0.1)
        c = np.array([0.02, 1.5, 0.9], "f4")
        yield from _adam_cases([g, c, w, m, squares], normal)
        yield from _rmsprop_cases([g, c, w, squares, m], normal)
        d = 0.01 * w.astype("f8") - g
        total = squares + d * d
        yield _case(f"adagrad {count}", ADAGRAD, [g, c, w, squares],
                    {"COUNT": count, "SIGN": -1.0, "DECAY": 0.01, "EPS": 1e-3},
                    [w - 0.02 * d / (np.sqrt(total) + 1e-3), total])


def _tick_case(steps: int) -> Case:
    rate, count, c = (np.full(n, x, "f4") for n, x in ((1, 0.1), (1, steps), (3, 0)))
    now = steps + 1
    want = [0.1 / (1 + (now - 1) * 0.01) / (1 - 0.9 ** now), (1 - 0.999 ** now) ** -0.5,
            1 - 0.1 * 0.02]
    sizes = {"LOG_B1": np.log(0.9), "LOG_B2": np.log(0.999), "DECAY": 0.02, "LR_DECAY": 0.01}
    values = [Value(i, a.shape) for i, a in enumerate((rate, count, c))]
    return Case(f"tick {steps}", (TICK.step(values, sizes),), {0: rate, 1: count, 2: c},
                {1: np.array([float(now)]), 2: np.array(want)}, tolerance=1e-6)


def _adam_cases(given: list[Array], normal: Callable[..., Array]) -> Iterator[Case]:
    g, _, w, m, v = (a.astype("f8") for a in given)
    sizes = {"COUNT": len(g), "SIGN": 1.0, "DECAY": 0.01, "REST1": 0.1, "BETA2": 0.9,
             "REST2": 0.1, "EPS": 1e-3}
    top = np.abs(normal(len(g)))
    for decoupled in (0, 1):
        d = g if decoupled else g + 0.01 * w
        old = w * 0.9 if decoupled else w
        mean, square = 0.9 * m + 0.1 * d, 0.9 * v + 0.1 * d * d
        new = old - 0.02 * mean / (np.sqrt(square) * 1.5 + 1e-3)
        yield _case(f"adam {len(g)} {decoupled}", ADAM, given, sizes, [new, mean, square],
                    HAS_TOP=0, DECOUPLED=decoupled)
        most = np.maximum(top, square)
        new = old - 0.02 * mean / (np.sqrt(most) * 1.5 + 1e-3)
        yield _case(f"adam amsgrad {len(g)} {decoupled}", ADAM, [*given, top], sizes,
                    [new, mean, square, most], DECOUPLED=decoupled)


def _rmsprop_cases(given: list[Array], normal: Callable[..., Array]) -> Iterator[Case]:
    g, _, w, s, a = (x.astype("f8") for x in given)
    sizes = {"COUNT": len(g), "SIGN": 1.0, "DECAY": 0.01, "ALPHA": 0.9, "REST": 0.1, "EPS": 1e-3,
             "MOMENTUM": 0.8}
    b, d = normal(len(g)), g + 0.01 * w
    square, mean = 0.9 * s + 0.1 * d * d, 0.9 * a + 0.1 * d
    for centered in (0, 1):
        first = [*given[:4], *given[4:4 + centered]]
        means = [mean] * centered
        u = d / (np.sqrt(square - centered * mean * mean) + 1e-3)
        yield _case(f"rmsprop {len(g)} {centered}", RMSPROP, first, sizes,
                    [w - 0.02 * u, square, *means], CENTERED=centered, HAS_MOMENTUM=0)
        moved = 0.8 * b + u
        yield _case(f"rmsprop momentum {len(g)} {centered}", RMSPROP, [*first, b], sizes,
                    [w - 0.02 * moved, square, *means, moved], CENTERED=centered)
