"""Random numbers: specs and cases."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from handtorch.graph.node import Value
from handtorch.kernels.case import Array, Case
from handtorch.kernels.spec import Defines, Geometry, Kernel, Sizes, ceil_div, number

SMALL_GROUP, LARGE_GROUP = 16, 256
KINDS = {"rand": 0, "randn": 1, "randint": 2}


def group_for(count: int) -> int:
    """Large groups as soon as they still make 32 of them; an item makes four numbers."""
    return LARGE_GROUP if count >= 4 * 32 * LARGE_GROUP else SMALL_GROUP


def _per_block(defines: Defines, sizes: Sizes) -> Geometry:
    group = number(defines, "GROUP")
    blocks = ceil_div(max(int(sizes["COUNT"]), 1), 4)
    return (ceil_div(blocks, group) * group,), (group,)


RANDOM = Kernel("random", ("r", "w"), _per_block,
                {"COUNT": "uint", "STREAM": "uint", "LOW": "int", "RANGE": "uint"},
                {"GROUP": SMALL_GROUP, "KIND": 0})
RNG_NEXT = Kernel("rng_next", ("rw",), lambda _, __: ((1,), (1,)))
KERNELS: tuple[Kernel, ...] = (RANDOM, RNG_NEXT)

# The first block of Philox4x32-10 for counter 0 and key 0, as its authors published it.
KNOWN = np.array([0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8], "u4")


def _case(name: str, kind: str, state: Array, expected: Array, stream: int, low: int = 0,
          span: int = 0) -> Case:
    values = [Value(0, (3,), "u32"),
              Value(1, expected.shape, "i32" if kind == "randint" else "f32")]
    step = RANDOM.step(values, {"COUNT": expected.size, "STREAM": stream, "LOW": low,
                                "RANGE": span}, {"KIND": KINDS[kind]})
    # Bits are bits: the uniform numbers leave no room for rounding.
    return Case(f"random {name}", (step,), {0: state}, {1: expected},
                tolerance=2e-6 if kind == "randn" else 1e-9)


def cases() -> Iterator[Case]:
    zero = np.zeros(3, "u4")
    u = (KNOWN >> np.uint32(8)) * 2.0**-24
    for count in (1, 3, 4):
        yield _case(f"rand {count}", "rand", zero, u[:count], 0)
    radius = np.sqrt(-2 * np.log(1 - u[::2]))
    turns = 2 * np.pi * u[1::2]
    normal = np.stack([radius * np.cos(turns), radius * np.sin(turns)], axis=-1).reshape(-1)
    yield _case("randn", "randn", zero, normal, 0)
    whole = (KNOWN.astype("u8") * np.uint64(10) >> np.uint64(32)).astype("f8") - 3
    yield _case("randint", "randint", zero, whole, 0, -3, 10)
    state = np.array([5, 6, 7], "u4")
    step = RNG_NEXT.step([Value(0, (3,), "u32")])
    yield Case("rng_next", (step,), {0: state}, {0: np.array([5.0, 6.0, 8.0])}, tolerance=1e-9)
