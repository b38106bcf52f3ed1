"""A slot of the staging ring: who owns it, what it holds, and a ring that is full."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from handtorch.errors import DeviceError, OutOfMemory
from handtorch.graph.device_spec import DeviceSpec
from handtorch.graph.node import Graph, Node, Port, Value
from handtorch.pipeline import compile_graph
from handtorch.plan.plan import Plan
from handtorch.runtime.device import Counters
from handtorch.runtime.opencl.discover import FoundDevice
from handtorch.runtime.opencl.executor import OpenCLExecutor
from handtorch.runtime.opencl.resident import RING
from handtorch.runtime.opencl.shared import MOST_BYTES, SharedSlot, slot_kind
from handtorch.runtime.opencl.staging import Slot, SlotTicket
from tests.runtime.opencl.mlp import four_kernels

X, LABELS = Value(0, (3, 5)), Value(1, (4,), "i32")


def _nothing() -> None:
    """What is done when a step is."""


@pytest.fixture(scope="module")
def on(opencl_device: FoundDevice) -> OpenCLExecutor:
    return OpenCLExecutor(opencl_device)


@pytest.fixture(params=[Slot, SharedSlot])
def kind(on: OpenCLExecutor, request: pytest.FixtureRequest) -> type[Slot]:
    """Mapped, or in memory that is never mapped, where the driver has it."""
    if request.param is SharedSlot and not on.shares_memory:
        pytest.skip("this driver shares no memory with the host")
    slot: type[Slot] = request.param
    return slot


def plan(in_bytes: int, out_bytes: int) -> Plan:
    return Plan({}, (), 0, 0, in_bytes, out_bytes, 0, ())


def through(on: OpenCLExecutor, slot: Slot) -> None:
    """What a program that copies its input to its output does with a slot."""
    slot.unmap(on.queue)
    whole = {} if isinstance(slot, SharedSlot) else {"byte_count": 512}
    on.cl.enqueue_copy(on.queue, slot.output, slot.input, **whole)
    slot.map(on.queue)


def test_what_is_put_in_comes_out(on: OpenCLExecutor, kind: type[Slot]) -> None:
    slot, counters = kind(on, plan(512, 512)), Counters()
    x = np.arange(15, dtype="f4").reshape(3, 5)
    for turn in range(4):
        slot.take(on.queue, counters)
        slot.put(X, 0, x + turn)
        slot.put(LABELS, 256, np.array([1, -100, 2**31 - 1, -2**31]))       # int64
        through(on, slot)
        ticket = SlotTicket(on, slot, ((X, 0), (LABELS, 256)), _nothing)
        got, labels = ticket.result()
        assert (got == x + turn).all() and got.dtype == np.float32
        assert labels.tolist() == [1, -100, 2**31 - 1, -2**31] and labels.dtype == np.int32
    slot.close(on.queue)


def test_a_result_is_a_copy(on: OpenCLExecutor, kind: type[Slot]) -> None:
    """The next step writes where it came from."""
    slot, counters, tickets = kind(on, plan(512, 512)), Counters(), []
    for turn in range(3):
        slot.take(on.queue, counters)
        slot.keep_results()
        slot.put(X, 0, np.full((3, 5), turn, "f4"))
        through(on, slot)
        tickets.append(SlotTicket(on, slot, ((X, 0),), _nothing))
    assert [float(t.result()[0][2, 4]) for t in tickets] == [0, 1, 2]
    tickets[0].result()[0][:] = 9
    assert float(tickets[2].result()[0][0, 0]) == 2
    slot.close(on.queue)


def test_a_slot_left_unmapped_by_an_interrupt_is_mapped_at_its_turn(
        on: OpenCLExecutor, kind: type[Slot]) -> None:
    slot, counters = kind(on, plan(512, 512)), Counters()
    slot.unmap(on.queue)
    slot.take(on.queue, counters)
    slot.put(X, 0, np.ones((3, 5), "f4"))
    through(on, slot)
    assert (SlotTicket(on, slot, ((X, 0),), _nothing).result()[0] == 1).all()
    slot.unmap(on.queue)
    slot.close(on.queue)                        # also while the device owns it


def test_a_step_without_inputs(on: OpenCLExecutor) -> None:
    """Nothing to stage still takes part in the ring."""
    y = Value(0, (3,))
    node = Node("fill", (), (y,), {"shape": (3,), "number": 2.5})
    program = compile_graph(Graph((node,), (), (), (Port("y", y),)), on.spec)
    assert program.plan.staging_in_bytes == 0
    resident = on.load(program, {})
    assert [resident.submit(()).result()[0].tolist() for _ in range(5)] == [[2.5] * 3] * 5
    resident.close()


def test_the_host_waits_when_it_is_a_whole_ring_ahead(on: OpenCLExecutor) -> None:
    """A step over 12 MB takes longer than the submission of a small batch."""
    m = four_kernels(3_000_000)
    resident = on.load(compile_graph(m.graph, on.spec), m.states)
    batch = m.batch(0)
    for _ in range(RING):
        resident.submit(batch)
    assert resident.counters.waits_for_slot == 0
    for _ in range(20):
        resident.submit(batch)
    assert 0 < resident.counters.waits_for_slot <= 20
    resident.close()


class Failing:
    """An event whose step failed on the device."""

    command_execution_status = -5

    def __init__(self, error: Any) -> None:
        self._error = error

    def wait(self) -> None:
        raise self._error


def test_a_step_that_failed_on_the_device_says_so(on: OpenCLExecutor, kind: type[Slot]) -> None:
    slot = kind(on, plan(512, 512))
    ticket = SlotTicket(on, slot, ((X, 0),), _nothing)
    assert slot._mapped is not None
    real = slot._mapped
    with pytest.raises(on.cl.Error) as provoked:
        _ = on.cl.enqueue_marker(on.queue).profile.start         # not the profiling queue
    error = provoked.value
    slot._mapped = dataclasses.replace(real, done=Failing(error))
    with pytest.raises(DeviceError) as caught:
        ticket.result()
    assert str(caught.value) == (
        f"a step on {on.spec.name}: the driver said: {error}\n"
        "  try: `handtorch devices` runs the device's self-test")
    slot._mapped = real
    slot.close(on.queue)


def test_small_batches_cross_in_shared_memory(on: OpenCLExecutor) -> None:
    small = SharedSlot if on.shares_memory else Slot
    assert slot_kind(on, plan(MOST_BYTES, 4)) is slot_kind(on, plan(0, 0)) is small
    assert slot_kind(on, plan(MOST_BYTES + 1, 4)) is slot_kind(on, plan(4, MOST_BYTES + 1)) is Slot


def test_a_batch_larger_than_an_allocation(opencl_device: FoundDevice) -> None:
    spec: DeviceSpec = dataclasses.replace(opencl_device.spec, largest_allocation_bytes=1000)
    small = OpenCLExecutor(dataclasses.replace(opencl_device, spec=spec))
    with pytest.raises(OutOfMemory) as caught:
        Slot(small, plan(1024, 256))
    assert str(caught.value) == (
        f"a buffer of 1024 B: {spec.name} allows 1000 B in one allocation\n"
        "  try: a smaller batch or model, or another device")
