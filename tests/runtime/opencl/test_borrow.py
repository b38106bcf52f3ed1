"""Read-only batches: which ones count as such, and that the device reads them rightly."""

from __future__ import annotations

import array
import ctypes
import gc
import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from handtorch.errors import BadInput
from handtorch.pipeline import compile_graph
from handtorch.runtime.lent import lend
from handtorch.runtime.opencl import borrow
from handtorch.runtime.opencl.borrow import settled_root
from handtorch.runtime.opencl.discover import FoundDevice
from handtorch.runtime.opencl.executor import OpenCLExecutor
from handtorch.runtime.opencl.resident import OpenCLResident
from handtorch.runtime.session import Session, index_limits
from tests.runtime.opencl.mlp import Mlp, mlp

ROWS, FEATURES = 2001, 37                  # 296 KB, and no batch begins on a border
BATCHES = 7


def fixed(array: Any) -> Any:
    array.flags.writeable = False
    return array


@pytest.fixture(scope="module")
def m() -> Mlp:
    return mlp(ROWS, FEATURES)


@pytest.fixture(scope="module")
def on(opencl_device: FoundDevice) -> OpenCLExecutor:
    return OpenCLExecutor(opencl_device)


@pytest.fixture
def resident(on: OpenCLExecutor, m: Mlp) -> Iterator[OpenCLResident]:
    made = on.load(compile_graph(m.graph, on.spec), m.states)
    yield made
    made.close()


@pytest.fixture
def data(m: Mlp) -> tuple[Any, list[Any]]:
    """One data set and the labels of its batches."""
    batches = [m.batch(i) for i in range(BATCHES)]
    return np.concatenate([x for x, _ in batches]), [y for _, y in batches]


def train(resident: OpenCLResident, xs: Any, ys: Any) -> list[float]:
    tickets = [resident.submit((x, y)) for x, y in zip(xs, ys, strict=True)]
    return [float(t.result()[0]) for t in tickets]


def borrows(resident: OpenCLResident, m: Mlp, xs: Any, ys: Any, expected: list[float], count: int
            ) -> None:
    """From the same start these batches give the expected losses, and `count` of them are lent."""
    for name, state in m.states.items():
        resident.write_state(name, state)
    before = resident.counters.bytes_borrowed
    assert train(resident, xs, ys) == expected
    assert resident.counters.bytes_borrowed - before == count * ROWS * FEATURES * 4
    gc.collect()


def parts(x: Any) -> list[Any]:
    return [x[i * ROWS:(i + 1) * ROWS] for i in range(len(x) // ROWS)]


def test_what_nobody_can_change(tmp_path: Path) -> None:
    x = np.arange(6, dtype="f4")
    assert settled_root(x) is None
    assert settled_root(fixed(x[:3])) is None                       # x itself can be written to
    fixed(x)
    assert settled_root(x) is x and settled_root(x[1:3]) is x
    assert settled_root(np.frombuffer(bytes(8), "f4")) is not None
    assert settled_root(fixed(np.frombuffer(bytearray(8), "f4"))) is None
    assert settled_root(fixed(torch.zeros(3).numpy())) is None
    y = np.zeros(3, "f4")                   # a view that cannot write is no promise of the owner's
    assert settled_root(np.asarray(memoryview(y).toreadonly())) is None
    shared = mmap.mmap(-1, 4096)            # as shared memory between processes is
    for owner in (bytearray(8), array.array("f", [0, 0]), (ctypes.c_float * 2)(), shared):
        assert settled_root(np.frombuffer(memoryview(owner).toreadonly(), "f4")) is None
    np.save(tmp_path / "x.npy", x)
    assert settled_root(np.load(tmp_path / "x.npy", mmap_mode="r")[2:]) is not None
    assert settled_root(fixed(np.load(tmp_path / "x.npy", mmap_mode="r+")[2:])) is None


def test_read_only_batches_are_not_copied(on: OpenCLExecutor, m: Mlp, resident: OpenCLResident,
                                          data: Any, tmp_path: Path) -> None:
    """As parts of a data set, from a mapped file, each alone and dropped at once, and in turns
    with others: bit for bit the losses of copies."""
    x, labels = data
    expected = train(on.load(resident.program, m.states), parts(x), labels)
    np.save(tmp_path / "x.npy", x)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    alone = (fixed(np.array(part)) for part in parts(x))
    mixed = [part if i % 2 else fixed(np.array(part)) for i, part in enumerate(parts(x))]
    for given, count in ((parts(fixed(np.array(x))), BATCHES), (parts(mapped), BATCHES),
                         (alone, BATCHES), (mixed, 4), (parts(x), 0)):
        borrows(resident, m, given, labels, expected, count)


def test_lent_batches_are_read_where_they_lie(resident: OpenCLResident, on: OpenCLExecutor,
                                              m: Mlp, data: Any) -> None:
    """Tensors of a loader, each dropped at once, and parts of a lent data set: bit for bit the
    losses of copies. What lies beside the promise, a part of the same memory, is copied."""
    x, labels = data
    expected = train(on.load(resident.program, m.states), parts(x), labels)
    tensors = (lend(torch.from_numpy(part.copy())) for part in parts(x))
    for given, count in ((tensors, BATCHES), (parts(lend(x)), BATCHES), (parts(x), 0)):
        borrows(resident, m, given, labels, expected, count)


def test_the_buffers_of_data_sets_are_few(resident: OpenCLResident, data: Any,
                                          monkeypatch: pytest.MonkeyPatch) -> None:
    """One for a data set however many batches it has; the oldest go when many are in play."""
    made = []
    real = borrow.Lender._on_loan
    monkeypatch.setattr(borrow.Lender, "_on_loan",
                        lambda self, *root: made.append(root) or real(self, *root))
    x, labels = data
    sets = [fixed(np.array(x[:2 * ROWS])) for _ in range(borrow.KEPT + 1)]
    for _ in range(2):
        for part in parts(sets[0]):
            resident.submit((part, labels[0]))
    assert len(made) == 1
    for whole in sets[1:]:
        resident.submit((whole[:ROWS], labels[0]))
    resident.submit((sets[0][:ROWS], labels[0]))
    assert len(made) == borrow.KEPT + 2     # each once, and the first again


def test_small_or_foreign_arrays_are_copied(on: OpenCLExecutor, resident: OpenCLResident,
                                            data: Any) -> None:
    lender = borrow.Lender(on)
    assert lender.loan(fixed(np.zeros(borrow.LEAST_BYTES - 1, "u1"))) is None
    assert lender.loan(fixed(np.zeros((600, 300), "f4")).T) is None
    apart = fixed(np.zeros(400_001, "u1"))[1:].view("f4")           # no border of a float
    assert lender.loan(apart) is None
    resident.submit((fixed(np.array(data[0][:ROWS])), fixed(np.array(data[1][0]))))
    assert resident.counters.bytes_borrowed == ROWS * FEATURES * 4  # labels are too few


def test_tensors_are_read_where_they_lie_and_stay_what_they_were(
        on: OpenCLExecutor, m: Mlp, resident: OpenCLResident, data: Any) -> None:
    """As a loader stacks them, written to by their owner at once: bit for bit the losses of
    copies. What NumPy has seen is copied."""
    x, labels = data
    expected = train(on.load(resident.program, m.states), parts(x), labels)
    session = Session.__new__(Session)
    session.program, session.executor, session.resident = resident.program, on, resident
    session._limits = index_limits(resident.program.graph)
    for see, count in ((False, BATCHES), (True, 0)):
        for name, state in m.states.items():
            resident.write_state(name, state)
        before, tickets = resident.counters.bytes_borrowed, []
        for part, y in zip(parts(x), labels, strict=True):
            given = torch.tensor(part)
            if see:
                given.numpy()
            tickets.append(session.run((given, y)))
            given.zero_()
        assert [float(t.result()[0]) for t in tickets] == expected
        assert resident.counters.bytes_borrowed - before == count * ROWS * FEATURES * 4


def test_a_broken_promise_is_told(resident: OpenCLResident, data: Any) -> None:
    """By the loss that may be wrong, and if that is not read, by a later step; then no more."""
    x, labels = data
    part = parts(x)[0].copy()
    ticket = resident.submit((lend(part), labels[0]))
    part += 1
    with pytest.raises(BadInput, match="changed while step 0 was reading it"):
        ticket.result()
    assert len(ticket.result()) == 1
    resident.submit((lend(part), labels[0]))
    resident.finish()
    part += 1                               # after the step: nothing was promised for this
    resident.submit((lend(part), labels[0]))
    part += 1
    with pytest.raises(BadInput, match="changed while step 2 was reading it"):
        for _ in range(4):
            resident.submit((x[:ROWS], labels[0]))
    resident.submit((x[:ROWS], labels[0])).result()
