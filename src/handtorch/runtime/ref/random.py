"""Random numbers: Philox4x32-10, the same bits as on every device.

Element `4 i + lane` is word `lane` of the block with counter (i, step, stream, 0); the key is the
seed. (Salmon et al., Parallel random numbers: as easy as 1, 2, 3, 2011.)"""

from __future__ import annotations

from math import prod

import numpy as np

from handtorch.graph.node import Node, Shape
from handtorch.runtime.device import Array
from handtorch.runtime.ref.registry import reference

_MULTIPLIERS = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_WEYL = np.array([0x9E3779B9, 0xBB67AE85], "u4")
_LOW, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)


def philox(counter: Array, key: Array) -> Array:
    """u32[..., 4] from counters u32[..., 4] and a key u32[2]: ten rounds."""
    c0, c1, c2, c3 = (counter[..., i].astype("u4") for i in range(4))
    k0, k1 = key.astype("u4")
    for _ in range(10):
        first, second = (c.astype("u8") * m for c, m in zip((c0, c2), _MULTIPLIERS, strict=True))
        c0, c1, c2, c3 = ((second >> _HALF).astype("u4") ^ c1 ^ k0, (second & _LOW).astype("u4"),
                          (first >> _HALF).astype("u4") ^ c3 ^ k1, (first & _LOW).astype("u4"))
        with np.errstate(over="ignore"):
            k0, k1 = k0 + _WEYL[0], k1 + _WEYL[1]
    return np.stack([c0, c1, c2, c3], axis=-1)


def bits(state: Array, stream: int, shape: Shape) -> Array:
    """The 32 random bits of every element."""
    count = prod(shape)
    counter = np.zeros((-(-count // 4), 4), "u4")
    counter[:, 0] = np.arange(len(counter), dtype="u4")
    counter[:, 1], counter[:, 2] = state[2], stream
    return np.asarray(philox(counter, state[:2]).reshape(-1)[:count].reshape(shape))


def uniform(state: Array, stream: int, shape: Shape) -> Array:
    """Exact in float32: the upper 24 bits, scaled; never 1."""
    high = bits(state, stream, shape) >> np.uint32(8)
    return np.asarray(high.astype("f4") * np.float32(2**-24))


@reference("rand")
def _rand(node: Node, state: Array) -> Array:
    return uniform(state, int(node.number("stream")), node.numbers("shape"))


@reference("randn")
def _randn(node: Node, state: Array) -> Array:
    """Box and Muller: words 0 and 1 of a block make its first two numbers, 2 and 3 the others."""
    shape = node.numbers("shape")
    blocks = -(-prod(shape) // 4)
    u = uniform(state, int(node.number("stream")), (blocks, 2, 2))
    radius = np.sqrt(np.float32(-2) * np.log(np.float32(1) - u[..., 0]))
    angle = np.float32(2 * np.pi) * u[..., 1]
    both = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=-1)
    return np.asarray(both.reshape(-1)[:prod(shape)].reshape(shape))


@reference("randint")
def _randint(node: Node, state: Array) -> Array:
    low, high = int(node.number("low")), int(node.number("high"))
    wide = bits(state, int(node.number("stream")), node.numbers("shape")).astype("u8")
    return np.asarray(((wide * np.uint64(high - low)) >> _HALF).astype("i8") + low).astype("i4")


@reference("rng_next")
def _rng_next(node: Node, state: Array) -> Array:
    with np.errstate(over="ignore"):
        return np.asarray(state + np.array([0, 0, 1], "u4"))
