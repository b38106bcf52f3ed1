"""A program living on a device: right over many steps, never waiting, and hard to break."""

from __future__ import annotations

import gc
import os
import random
import signal
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from handtorch.errors import DeviceError
from handtorch.graph.node import Graph, Node, Port, State, Value
from handtorch.pipeline import compile_graph
from handtorch.plan.plan import aligned
from handtorch.runtime.host import RefExecutor
from handtorch.runtime.opencl import shared
from handtorch.runtime.opencl.discover import FoundDevice
from handtorch.runtime.opencl.executor import OpenCLExecutor
from handtorch.runtime.opencl.resident import OpenCLResident
from handtorch.runtime.opencl.staging import spans
from tests.runtime.opencl.mlp import Mlp, four_kernels, mlp

STATES = ("w1", "w2", "bias", "w1.momentum", "w2.momentum", "bias.momentum", "rate")


@pytest.fixture(scope="module")
def on(opencl_device: FoundDevice) -> OpenCLExecutor:
    return OpenCLExecutor(opencl_device)


@pytest.fixture(scope="module")
def m() -> Mlp:
    return mlp()


def load(on: OpenCLExecutor, m: Mlp) -> OpenCLResident:
    return on.load(compile_graph(m.graph, on.spec), m.states)


@pytest.fixture
def resident(on: OpenCLExecutor, m: Mlp) -> Iterator[OpenCLResident]:
    made = load(on, m)
    yield made
    made.close()


def losses(resident: OpenCLResident, m: Mlp, count: int) -> list[float]:
    return [float(resident.submit(m.batch(i)).result()[0]) for i in range(count)]


def test_two_hundred_steps_equal_the_reference(
        on: OpenCLExecutor, m: Mlp, resident: OpenCLResident) -> None:
    """1e-4 of the largest number: 200 steps add up the rounding of float32 (6e-8) in each."""
    ref = RefExecutor(on.spec).load(resident.program, m.states)
    ours = losses(resident, m, 200)
    theirs = [float(ref.submit(m.batch(i)).result()[0]) for i in range(200)]
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)
    for name in STATES:
        want = ref.read_state(name)
        np.testing.assert_allclose(resident.read_state(name), want, rtol=0,
                                   atol=1e-4 * max(1.0, float(np.abs(want).max())), err_msg=name)


def test_the_same_steps_give_the_same_bits(on: OpenCLExecutor, m: Mlp) -> None:
    first, second = load(on, m), load(on, m)
    assert losses(first, m, 20) == losses(second, m, 20)
    for name in STATES:
        assert first.read_state(name).tobytes() == second.read_state(name).tobytes()
    first.close()
    second.close()


def test_results_may_be_read_late_and_in_any_order(
        on: OpenCLExecutor, m: Mlp, resident: OpenCLResident) -> None:
    """A hundred steps through a ring of three; every ticket keeps what its step made."""
    expected = losses(load(on, m), m, 100)
    tickets = list(enumerate(resident.submit(m.batch(i)) for i in range(100)))
    random.Random(5).shuffle(tickets)
    assert all(float(t.result()[0]) == expected[i] for i, t in tickets)
    assert all(float(t.result()[0]) == expected[i] for i, t in tickets)      # and once more


def test_results_nobody_holds_are_not_kept(m: Mlp, resident: OpenCLResident) -> None:
    held = [resident.submit(m.batch(i)) for i in range(7)]
    del held[::2]
    expected = [float(t.result()[0]) for t in held]
    for i in range(9):
        resident.submit(m.batch(i))
    assert [float(t.result()[0]) for t in held] == expected


def test_a_batch_changed_after_submit_does_not_change_the_step(
        on: OpenCLExecutor, m: Mlp, resident: OpenCLResident) -> None:
    expected = losses(load(on, m), m, 12)
    tickets = []
    for i in range(12):
        x, y = m.batch(i)
        tickets.append(resident.submit((x, y)))
        x[:], y[:] = np.nan, 0
    assert [float(t.result()[0]) for t in tickets] == expected


def test_batches_of_any_layout_and_width(on: OpenCLExecutor, m: Mlp, resident: OpenCLResident
                                         ) -> None:
    """Strided, reversed and read-only arrays, labels of 32 and 64 bits: the same numbers."""
    x, y = m.batch(0)
    wide = np.asfortranarray(x)
    backwards = np.ascontiguousarray(x[::-1])[::-1]
    frozen = x.copy()
    frozen.flags.writeable = False
    expected = losses(load(on, m), m, 1)[0]
    for batch in ((wide, y), (backwards, y), (frozen, y.astype("i4"))):
        for name in STATES:
            resident.write_state(name, m.states[name])
        assert float(resident.submit(batch).result()[0]) == expected


def test_each_launch_has_four_times_in_order(m: Mlp, resident: OpenCLResident) -> None:
    for i in range(5):
        ticket = resident.submit(m.batch(i), timed=True)
        times = ticket.launch_times()
        assert len(times) == len(resident.program.steps)
        for t in times:
            assert 0 < t.queued_ns <= t.submit_ns <= t.start_ns <= t.end_ns
        for before, after in pairwise(times):
            assert before.end_ns <= after.start_ns          # one in-order queue
            assert before.queued_ns <= after.queued_ns


def test_timing_some_steps_changes_none(on: OpenCLExecutor, m: Mlp, resident: OpenCLResident
                                        ) -> None:
    """Both queues work on the same state: a switch must not let a step overtake another."""
    expected = losses(load(on, m), m, 60)
    dice = random.Random(9)
    tickets = [resident.submit(m.batch(i), timed=dice.random() < 0.5) for i in range(60)]
    assert [float(t.result()[0]) for t in tickets] == expected


def test_a_step_that_was_not_timed_says_so(m: Mlp, resident: OpenCLResident) -> None:
    ticket = resident.submit(m.batch(0))
    for what, ask in (("launch times", ticket.launch_times), ("data movement", ticket.movement)):
        with pytest.raises(DeviceError) as caught:
            ask()
        assert str(caught.value) == (f"{what}: the step was not timed\n"
                                     "  try: `step(..., timed=True)`")


def test_nothing_but_batch_and_loss_crosses_and_nobody_waits(
        m: Mlp, resident: OpenCLResident) -> None:
    losses(resident, m, 3)
    c = resident.counters
    before = (c.steps, c.launches, c.bytes_in, c.bytes_out, c.blocking_calls)
    for i in range(50):
        resident.submit(m.batch(i))
    assert (c.steps, c.launches, c.bytes_in, c.bytes_out, c.blocking_calls) == (
        before[0] + 50, before[1] + 50 * len(resident.program.steps),
        before[2] + 50 * m.bytes_in, before[3] + 50 * 4, before[4])
    assert m.bytes_in + 4 == resident.program.bytes_crossing()
    resident.read_state("w1")
    assert c.blocking_calls == before[4] + 1


def test_a_batch_made_in_place_is_not_copied(
        on: OpenCLExecutor, m: Mlp, resident: OpenCLResident) -> None:
    """The arrays given are the memory that the device reads; the losses are those of a copy."""
    expected, tickets = losses(load(on, m), m, 12), []
    for i in range(12):
        staged = resident.stage()
        for array, data in zip(staged, m.batch(i), strict=True):
            array[...] = data
            assert np.shares_memory(array, resident.stage()[data.ndim == 1])
        tickets.append(resident.submit(staged))
    assert [float(t.result()[0]) for t in tickets] == expected


def test_staged_arrays_are_taken_back(on: OpenCLExecutor, m: Mlp, resident: OpenCLResident) -> None:
    """Whatever batch is given; writing to them later would change a step under way."""
    x, y = resident.stage()
    x[:], y[:] = np.nan, 0
    assert [float(resident.submit(m.batch(0)).result()[0])] == losses(load(on, m), m, 1)
    for array in (x, y):
        with pytest.raises(ValueError, match="read-only"):
            array[:] = 0
    x, y = resident.stage()
    x[:], y[:] = 0, 0                       # the next ones are open again


def test_a_timed_step_in_shared_memory_moved_by_copies_alone(
        on: OpenCLExecutor, m: Mlp, resident: OpenCLResident) -> None:
    if not on.shares_memory:
        pytest.skip("this driver shares no memory with the host")
    moved = resident.submit(m.batch(0), timed=True).movement()
    assert moved.copy_ns > 0 and moved.commands == ()


def test_a_timed_step_knows_what_it_moved(on: OpenCLExecutor, m: Mlp,
                                          monkeypatch: pytest.MonkeyPatch) -> None:
    """x, y and the loss, each mapped and unmapped, around the launches of the step."""
    monkeypatch.setattr(shared, "MOST_BYTES", -1)
    resident = on.load(compile_graph(m.graph, on.spec), m.states)
    for i in range(4):
        ticket = resident.submit(m.batch(i), timed=True)
        moved, launches = ticket.movement(), ticket.launch_times()
        assert moved.copy_ns > 0
        assert moved.commands_ns == sum(c.end_ns - c.start_ns for c in moved.commands)
        assert len(moved.commands) == 6
        assert all(c.end_ns <= launches[0].start_ns for c in moved.commands[:3])
        assert all(c.start_ns >= launches[-1].end_ns for c in moved.commands[3:])
    resident.close()


@pytest.mark.parametrize("sizes, expected", [
    ((), ()), ((60,), ((0, 60),)), ((256, 16), ((0, 272),)), ((60, 16), ((0, 60), (256, 272))),
    ((0, 60, 0), ((0, 60),)), ((512, 8, 512, 4), ((0, 520), (768, 1284)))])
def test_gaps_between_ports_do_not_cross(sizes: tuple[int, ...], expected: tuple[Any, ...]) -> None:
    ports, at = [], 0
    for i, size in enumerate(sizes):
        ports.append((Value(i, (size,), "bool"), at))
        at += aligned(size)
    assert spans(ports) == spans(ports[::-1]) == spans(ports * 2) == expected


def test_a_step_that_takes_and_gives_nothing(on: OpenCLExecutor) -> None:
    """There is nothing to map, and still something to wait for."""
    w, doubled = Value(0, (3,)), Value(1, (3,))
    node = Node("add", (w, w), (doubled,), phase="optimizer")
    graph = Graph((node,), (), (State("w", "parameter", w, doubled),), ())
    resident = on.load(compile_graph(graph, on.spec), {"w": np.ones(3, "f4")})
    for _ in range(10):
        assert resident.submit((), timed=True).movement().commands == ()
    assert resident.read_state("w").tolist() == [2.0 ** 10] * 3
    resident.close()


def test_a_state_in_another_order_crosses_as_torch_has_it(on: OpenCLExecutor) -> None:
    """The step, which adds rows as they lie on the device, sees the order; the host does not."""
    w, row, sum_ = Value(0, (3, 2)), Value(1, (2,)), Value(2, (3, 2))
    graph = Graph((Node("add", (w, row), (sum_,), phase="optimizer"),), (Port("row", row),),
                  (State("w", "parameter", w, sum_, (1, 0)),), ())
    start = np.arange(6, dtype="f4").reshape(2, 3)
    for executor in (on, RefExecutor(on.spec)):
        resident = executor.load(compile_graph(graph, on.spec), {"w": start})
        resident.submit((np.array([10, 20], "f4"),))
        got = resident.read_state("w")
        assert got.tolist() == [[10, 11, 12], [23, 24, 25]] and got.flags.c_contiguous
        resident.write_state("w", got[:, ::-1])                 # its bytes do not lie in order
        assert resident.read_state("w").tolist() == got[:, ::-1].tolist()
        resident.close()


def test_a_state_written_between_steps_counts_from_there(
        on: OpenCLExecutor, m: Mlp, resident: OpenCLResident) -> None:
    """A rate of 0 stops the weights; steps queued before it were still made with the old one."""
    other = load(on, m)
    losses(other, m, 4)
    for i in range(4):
        resident.submit(m.batch(i))
    resident.write_state("rate", np.zeros(1, "f4"))
    for i in range(4):
        resident.submit(m.batch(i), timed=i % 2 == 0)
    assert resident.read_state("w1").tobytes() == other.read_state("w1").tobytes()
    other.close()


def rss_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_memory_is_flat_over_ten_thousand_steps(m: Mlp, resident: OpenCLResident) -> None:
    """Nobody reads a loss. 1 MiB is 116 bytes a step, less than a single event or array kept."""
    batches = [m.batch(i) for i in range(8)]
    for i in range(1_000):
        resident.submit(batches[i % 8])
    after_1000 = rss_bytes()
    for i in range(9_000):
        resident.submit(batches[i % 8])
    assert rss_bytes() - after_1000 < 1 << 20
    assert resident.counters.blocking_calls == len(STATES) - 1      # all of them before step 1


@pytest.mark.parametrize("closed", [True, False], ids=["closed", "dropped"])
def test_the_memory_of_a_program_comes_back(on: OpenCLExecutor, closed: bool) -> None:
    """Ten times a program of 24 MB; the heap of a process that has run many tests may keep four."""
    large = four_kernels(3_000_000)
    load(on, large).close()
    before = rss_bytes()
    for _ in range(10):
        resident = load(on, large)
        assert resident.program.plan.peak_bytes >= 24_000_000
        ticket = resident.submit(large.batch(0))
        if closed:
            resident.close()
        del resident
        assert np.isfinite(ticket.result()[0])      # a result outlives its program
    gc.collect()
    assert rss_bytes() - before < 100 << 20


def test_a_closed_program_refuses_and_its_results_stay(on: OpenCLExecutor, m: Mlp) -> None:
    expected = losses(load(on, m), m, 5)
    resident = load(on, m)
    tickets = [resident.submit(m.batch(i)) for i in range(5)]
    resident.close()
    resident.close()
    assert [float(t.result()[0]) for t in tickets] == expected
    for call in (lambda: resident.submit(m.batch(0)), lambda: resident.read_state("w1"),
                 lambda: resident.write_state("w1", m.states["w1"]), resident.finish,
                 resident.stage):
        with pytest.raises(DeviceError) as caught:
            call()
        assert str(caught.value) == "this program was closed\n  try: make the step again"


STEPS = 1000


class Interrupted(BaseException):
    """Stands for KeyboardInterrupt, which pytest keeps for itself."""


def test_interrupts_leave_whole_steps(on: OpenCLExecutor, m: Mlp, resident: OpenCLResident) -> None:
    """A signal at any moment of a step: the weights are those after a whole number of steps, and
    the next step goes on from there."""
    batch, other = m.batch(0), load(on, m)
    path = {other.read_state("w1").tobytes(): 0}
    for i in range(STEPS):
        other.submit(batch)
        path[other.read_state("w1").tobytes()] = i + 1
    assert len(path) == STEPS + 1

    def interrupt(*_: Any) -> None:
        raise Interrupted

    old = signal.signal(signal.SIGALRM, interrupt)
    dice, reached = random.Random(4), 0
    try:
        while reached < STEPS - 100:
            counted = 0
            try:
                signal.setitimer(signal.ITIMER_REAL, dice.uniform(1e-4, 1.5e-3))
                while True:
                    resident.submit(batch, timed=dice.random() < 0.2)
                    counted += 1
            except Interrupted:
                pass
            now = path[resident.read_state("w1").tobytes()]
            assert 0 <= now - reached - counted <= 1        # one may be queued but not handed out
            reached = now
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    for _ in range(STEPS - reached):
        resident.submit(batch)
    assert path[resident.read_state("w1").tobytes()] == STEPS       # none was lost or made twice
    other.close()


def test_one_number_everywhere_is_written_without_an_array(m: Mlp, resident: OpenCLResident
                                                           ) -> None:
    shape = m.states["w1"].shape
    before = resident.counters.blocking_calls
    resident.write_state("w1", np.broadcast_to(np.float32(2.5), shape))
    assert resident.counters.blocking_calls == before
    np.testing.assert_array_equal(resident.read_state("w1"), np.full(shape, 2.5, "f4"))
    resident.write_state("w1", m.states["w1"])
    np.testing.assert_array_equal(resident.read_state("w1"), m.states["w1"])
