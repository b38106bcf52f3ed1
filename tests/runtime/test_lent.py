"""lend: the same numbers in the same memory, and what cannot be lent."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest
import torch

from handtorch.errors import BadInput
from handtorch.runtime.lent import lend


@pytest.mark.parametrize("x", [np.arange(6, dtype="f4"), torch.arange(6.0), np.zeros((0, 3), "i8"),
                               torch.ones(2, 3, requires_grad=True), np.ones((4, 6), "f4")[:, ::2]])
def test_it_is_the_same_memory_and_cannot_be_written_to(x: Any) -> None:
    lent, plain = lend(x), np.asarray(x.detach() if isinstance(x, torch.Tensor) else x)
    assert type(lent) is np.ndarray and lent.dtype == plain.dtype
    assert not x.shape[0] or (lent.strides, lent.ctypes.data) == (plain.strides, plain.ctypes.data)
    np.testing.assert_array_equal(lent, plain)
    with pytest.raises(ValueError, match="read-only"):
        lent[...] = 1
    plain[...] = 2                          # its owner still can, and has promised not to
    np.testing.assert_array_equal(lent, plain)


def test_the_memory_lives_as_long_as_what_was_lent() -> None:
    owner = np.ones(1000, "f4")
    gone, part = weakref.ref(owner), lend(owner)[10:20]
    del owner
    gc.collect()
    assert gone() is not None and part.sum() == 10
    del part
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("x, said", [
    ([[1, 2], [3]], "lending a list"), (object(), "lending a object"),
    (torch.ones(2, device="meta"), "lending a Tensor")])
def test_what_has_no_memory_here_is_refused(x: Any, said: str) -> None:
    with pytest.raises(BadInput) as refused:
        lend(x)
    assert said in str(refused.value) and "try: a CPU tensor or an array" in str(refused.value)
