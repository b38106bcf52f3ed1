"""Which gradients of weights are computed together, and how they are cut."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import pytest

from handtorch.graph.device_spec import GENERIC
from handtorch.graph.node import Shape, Value
from handtorch.kernels.rnn_loop import WeightsTile
from handtorch.kernels.weights_grad import tile_for, weights_steps

AVX2 = replace(GENERIC, kind="cpu", float_width=8)


@pytest.mark.parametrize(("m", "columns", "fits"), [
    (128, (32, 9), True),
    (96, (32,), True),
    (20, (32, 9), False),                       # no whole number of vectors
    (128, (32, 3), False),                      # narrower than a tile
    (1024, (256, 256), False),                  # too many to stay in the cache
])
def test_where_it_is_used(m: int, columns: tuple[int, ...], fits: bool) -> None:
    xs = [Value(1 + i, (4096, n)) for i, n in enumerate(columns)]
    assert (tile_for(Value(0, (4096, m)), xs, AVX2) is not None) == fits
    assert tile_for(Value(0, (4096, m)), xs, GENERIC) is None


def test_tiles_waste_as_little_as_they_can_and_parts_keep_every_unit_busy() -> None:
    fresh = count()

    def value(*shape: int) -> Value:
        return Value(next(fresh), shape)

    def scratch(shape: Shape) -> Value:
        return value(*shape)
    tile = WeightsTile(8, 2, (4, 5, 6), 32, 4, 1 << 16)
    for columns, high in (((32, 9), 4), ((10, 5), 5), ((6,), 6), ((4, 12), 4)):
        grad, fold = weights_steps(
            value(1000, 32), [value(1000, n) for n in columns], [value(32, n) for n in columns],
            value(32), tile=tile, units=3, node=5, scratch=scratch)
        assert dict(grad.defines)["J"] == high
        assert grad.global_size == (12,) and fold.global_size == (sum(columns) + 1,)
        assert grad.operands[-1].value == fold.operands[0].value
        assert grad.node == fold.node == 5
    (grad, _) = weights_steps(value(40, 32), [value(40, 8)], [value(32, 8)], None, tile=tile,
                              units=3, node=0, scratch=scratch)
    assert grad.global_size == (2,), "parts of at least one chunk"
