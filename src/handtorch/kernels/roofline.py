"""Kernels that measure a device and nothing else: peak arithmetic, and copying memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from handtorch.graph.device_spec import DeviceSpec
from handtorch.graph.node import Value
from handtorch.graph.step import Step
from handtorch.kernels.case import Array, Case
from handtorch.kernels.spec import Defines, Geometry, Kernel, Sizes, ceil_div, number


def _line(count: str, width: Callable[[Defines], int]) -> Callable[[Defines, Sizes], Geometry]:
    def geometry(defines: Defines, sizes: Sizes) -> Geometry:
        group = number(defines, "WG")
        items = ceil_div(int(sizes[count]), width(defines))
        return (ceil_div(items, group) * group,), (group,)
    return geometry


PEAK_FMA = Kernel("peak_fma", ("w",), _line("ITEMS", lambda _: 1),
                  {"ITEMS": "int", "LOOPS": "int", "X": "float", "Y": "float"},
                  {"V": 4, "CHAINS": 8, "WG": 1}, space={"V": (4, 8, 16), "CHAINS": (8, 12, 16)})
COPY = Kernel("copy", ("r", "w"), _line("COUNT", lambda d: number(d, "V")), {"COUNT": "int"},
              {"V": 4, "WG": 64}, space={"V": (4, 8, 16), "WG": (64, 128, 256)})
KERNELS = (PEAK_FMA, COPY)

_X, _Y = 0, 1
_DECAY, _ADD = 0.5, 0.25                    # no overflow, no denormals: goes to _ADD / (1 - _DECAY)


def fma_step(spec: DeviceSpec, loops: int) -> Step:
    """Multiply-adds on every compute unit: 64 groups each, vectors as wide as the device's."""
    is_cpu = spec.kind == "cpu"
    wide = max(4, min(16, spec.float_width))
    group = 1 if is_cpu else min(64, spec.max_work_group)
    macros = {"V": wide, "CHAINS": 12 if is_cpu else 8, "WG": group}
    return _fma(macros, 64 * spec.compute_units * group, loops)


def copy_step(spec: DeviceSpec, count: int, first_id: int = 0) -> Step:
    """`count` floats copied; values `first_id` and the next."""
    macros = {"V": max(4, min(16, spec.float_width)), "WG": min(256, spec.max_work_group)}
    values = (Value(first_id, (count,)), Value(first_id + 1, (count,)))
    return COPY.step(values, {"COUNT": count}, macros)


def cases() -> Iterator[Case]:
    for macros, items, loops in (({"V": 4, "CHAINS": 8, "WG": 1}, 3, 7),
                                 ({"V": 16, "CHAINS": 12, "WG": 1}, 2, 2),
                                 ({"V": 8, "CHAINS": 1, "WG": 4}, 5, 3)):
        want = _fma_reference(macros, items, loops)
        yield Case(f"peak_fma {macros} {items}x{loops}", (_fma(macros, items, loops),), {},
                   {_Y: want}, 1e-6)
    for macros, count in (({"V": 4, "WG": 64}, 1), ({"V": 16, "WG": 256}, 65),
                          ({"V": 8, "WG": 16}, 128), ({"V": 4, "WG": 1}, 7)):
        x = np.random.default_rng(count).normal(size=count).astype("f4")
        values = (Value(_X, (count,)), Value(_Y, (count,)))
        yield Case(f"copy {macros} {count}", (COPY.step(values, {"COUNT": count}, macros),),
                   {_X: x}, {_Y: x}, 1e-12)


def _fma(macros: dict[str, int], items: int, loops: int) -> Step:
    sizes = {"ITEMS": items, "LOOPS": loops, "X": _DECAY, "Y": _ADD}
    return PEAK_FMA.step((Value(_Y, (items,)),), sizes, macros,
                         flops=2 * items * loops * macros["V"] * macros["CHAINS"])


def _fma_reference(macros: dict[str, int], items: int, loops: int) -> Array:
    c: Array = np.arange(items, dtype="f8")[:, None] + np.arange(macros["CHAINS"], dtype="f8")
    for _ in range(loops):
        c = c * _DECAY + _ADD
    return np.asarray(macros["V"] * c.sum(axis=1))
