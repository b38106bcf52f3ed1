"""until_written: what is taken stays what it was, and what torch could not guard is not taken."""

from __future__ import annotations

import ctypes
import gc
import multiprocessing
import os
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from handtorch.capture.until_written import Unwritten, until_written

COUNT = 100
SHARED = Path("/dev/shm")
shares_memory = pytest.mark.skipif(
    not os.access(SHARED, os.W_OK), reason=f"this user may not write to {SHARED}")


def fresh() -> torch.Tensor:
    return torch.arange(float(COUNT))


def read(found: Unwritten | None, count: int = COUNT) -> list[float]:
    assert found is not None
    return list((ctypes.c_float * count).from_address(found.address))


@pytest.mark.parametrize("write", [
    lambda x: x.add_(1), lambda x: x.numpy().fill(7), lambda x: x.detach().mul_(3),
    lambda x: np.from_dlpack(x).fill(7), lambda x: torch.add(x, 1, out=x), lambda x: x[3:].zero_(),
    lambda x: ctypes.memset(x.data_ptr(), 1, 8), lambda x: x.untyped_storage().fill_(1),
    lambda x: x.set_(torch.ones(3)),
    pytest.param(lambda x: x.share_memory_().zero_(), marks=shares_memory),
    lambda x: torch._foreach_mul_([x], 2.0)])
def test_whoever_writes_is_given_a_copy(write: Callable[[torch.Tensor], Any]) -> None:
    x = fresh()
    found = until_written(x)
    assert found is not None and found.address == torch._C._data_address(x)
    write(x)
    assert read(found) == list(range(COUNT)) and x.tolist() != list(range(COUNT))


def test_whoever_comes_last_keeps_the_memory() -> None:
    x = fresh()
    address = torch._C._data_address(x)
    found = until_written(x)
    assert read(found)[:3] == [0, 1, 2]
    del found
    x.add_(1)
    assert x.data_ptr() == address


def test_the_memory_lives_as_long_as_what_was_taken() -> None:
    x = fresh()
    found, gone = until_written(x), weakref.ref(x)
    del x
    gc.collect()
    assert gone() is None and read(found) == list(range(COUNT))


def test_a_loaders_batches_and_parts_of_a_data_set_are_taken() -> None:
    data = torch.randn(10, 4)
    for (batch,) in DataLoader(TensorDataset(data), batch_size=5):
        assert read(until_written(batch), 20) == batch.flatten().tolist()
    part = data[5:]
    before, found = part.flatten().tolist(), until_written(part)
    data.zero_()
    assert read(found, 20) == before and not part.any()
    del part
    assert read(until_written(data[2:7]), 20) == [0.0] * 20


def seen_by_numpy() -> Any:
    x = fresh()
    return x, x.numpy()


def seen_by_numpy_as_detached() -> Any:
    x = fresh()
    return x, x.detach().numpy()


def from_numpy() -> Any:
    array = np.zeros(COUNT, "f4")
    return torch.from_numpy(array), array


def given_to_dlpack() -> Any:
    x = fresh()
    return x, x.__dlpack__()


def part_given_to_dlpack() -> Any:
    x = fresh()
    return x, x[3:].__dlpack__()


def of_a_whole_given_to_dlpack() -> Any:
    x = fresh()
    return x[3:], x.__dlpack__()


def of_a_whole_seen_by_numpy() -> Any:
    x = fresh()
    return x[3:], x.numpy()


def one_of_two_parts() -> Any:
    x = fresh()
    return x[:3], x[3:]


def from_a_buffer() -> Any:
    buffer = bytearray(4 * COUNT)
    return torch.frombuffer(buffer, dtype=torch.float32), buffer


def shared_between_processes() -> Any:
    return fresh().share_memory_(), multiprocessing.current_process()


def transposed() -> Any:
    return torch.ones(3, 4).T, None


def with_a_gradient() -> Any:
    return torch.ones(3, requires_grad=True), None


def a_parameter() -> Any:
    return torch.nn.Parameter(torch.ones(3), requires_grad=False), None


def on_no_device() -> Any:
    return torch.ones(3, device="meta"), None


def sparse() -> Any:
    return torch.ones(3).to_sparse(), None


@pytest.mark.parametrize("made", [
    seen_by_numpy, seen_by_numpy_as_detached, from_numpy, given_to_dlpack, part_given_to_dlpack,
    of_a_whole_given_to_dlpack, of_a_whole_seen_by_numpy, one_of_two_parts, from_a_buffer,
    pytest.param(shared_between_processes, marks=shares_memory, id="shared_between_processes"),
    transposed, with_a_gradient, a_parameter, on_no_device, sparse],
    ids=lambda made: getattr(made, "__name__", None))
def test_what_others_could_write_to_unseen_is_not_taken(made: Callable[[], Any]) -> None:
    x, holder = made()
    assert until_written(x) is None
    del holder


@shares_memory
def test_a_loader_with_workers_has_shared_memory() -> None:
    (batch,) = next(iter(DataLoader(TensorDataset(fresh()), batch_size=5, num_workers=1)))
    assert until_written(batch) is None


def test_of_another_torch_nothing_private_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "__version__", "2.14.0")
    monkeypatch.delattr(torch, "_lazy_clone")
    assert until_written(fresh()) is None
