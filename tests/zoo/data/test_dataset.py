from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handtorch.errors import BadInput
from handtorch.zoo.data.dataset import GENERATED, DataSet, rows_of, settle, split_off


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 40), st.integers(1, 60), st.integers(0, 5))
def test_each_epoch_has_every_sample_once(count: int, size: int, seed: int) -> None:
    rows = np.concatenate([rows_of(count, size, k, seed) for k in range(2 * count + 4)])
    for epoch in rows[:len(rows) // count * count].reshape(-1, count)[:4]:
        assert sorted(epoch) == list(range(count))
    assert np.array_equal(rows_of(count, size, 3, seed), rows[3 * size:4 * size])


def test_the_order_depends_on_the_seed_and_changes_with_the_epoch() -> None:
    first = rows_of(100, 100, 0, 0)
    assert not np.array_equal(first, rows_of(100, 100, 0, 1))
    assert not np.array_equal(first, rows_of(100, 100, 1, 0))
    with pytest.raises(BadInput):
        rows_of(10, 0, 0, 0)


def test_arrays_are_settled_down_to_their_memory() -> None:
    base = np.zeros((10, 4))
    train, held_out = split_off((base,))
    DataSet("a", GENERATED, train, held_out)
    assert not base.flags.writeable and not train[0].flags.writeable
    assert len(train[0]) == 9 and len(held_out[0]) == 1
    view = np.zeros((3, 3))[1:, 1:]
    assert settle(view) is view and not view.base.flags.writeable


def test_a_set_without_samples_is_refused() -> None:
    with pytest.raises(BadInput) as error:
        DataSet("a", "b.npz", (np.zeros(0),), (np.zeros(1),))
    assert str(error.value) == ("the data set a from b.npz: it has no training samples\n"
                                "  try: give it more data")
