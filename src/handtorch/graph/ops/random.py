"""Random numbers, counter-based: a number depends on seed, step, stream and element alone.

The state is u32[3]: the low and the high word of the seed, the number of steps made. Each node has
a `stream` of its own, so that nodes never share numbers."""

from __future__ import annotations

from handtorch.errors import BadInput
from handtorch.graph.node import Node
from handtorch.graph.ops.op import Op, Types, like, no_flops, shape_attr

RNG_SHAPE = (3,)


def _whole(node: Node) -> Types:
    return ((node.numbers("shape"), "i32"),)


OPS: tuple[Op, ...] = (
    Op("rand", shape_attr, no_flops),                   # uniform in [0, 1), multiples of 2^-24
    Op("randn", shape_attr, no_flops),                  # normal with mean 0 and variance 1
    Op("randint", _whole, no_flops),                    # uniform in `low`..`high` - 1
    Op("rng_next", like(0), no_flops, in_place=((0, 0),)),
)


def seed_words(seed: int) -> tuple[int, int, int]:
    """The state before the first step; a seed has 64 bits."""
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**64:
        raise BadInput(f"seed {seed!r}", why="a seed is a whole number from 0 to 2^64 - 1")
    return seed & 0xFFFFFFFF, seed >> 32, 0
