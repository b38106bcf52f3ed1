"""OpenCLResident: a program living on the device. A step is a replay of preset kernels."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np

from handtorch.dtypes import dtype
from handtorch.graph.node import State
from handtorch.graph.step import Step
from handtorch.kernels.render import step_instance
from handtorch.program import Program
from handtorch.runtime.device import Array, Counters, as_held, as_torch, was_closed
from handtorch.runtime.opencl.borrow import Borrowed, Lender
from handtorch.runtime.opencl.context import OpenCLContext, refused
from handtorch.runtime.opencl.prebuild import compile_steps
from handtorch.runtime.opencl.promises import Promises
from handtorch.runtime.opencl.shared import slot_kind
from handtorch.runtime.opencl.staging import Slot, SlotTicket
from handtorch.runtime.recorder import Recorder, now_ns

# Steps the host may run ahead of the device. Two would do to overlap the copy of a batch with a
# step; the third keeps the device fed when the enqueuing thread loses its core for a moment.
RING = 3

Sizes = tuple[int, ...]
Calls = tuple[tuple[Any, ...], tuple[Sizes, ...], tuple[Sizes, ...]]    # kernels, global, local


class Alone(NamedTuple):
    """One launch that the host waited for: its place in the step, CLOCK_MONOTONIC before it was
    enqueued and after the wait, and its event."""

    number: int
    before_ns: int
    after_ns: int
    event: Any


class OpenCLResident:
    """Arena, state and preset kernels of one program. Not safe for use from two threads.

    An interrupt (Ctrl-C) leaves the state of a whole number of steps, and the program usable.
    That does not hold when the driver refuses a launch in the middle of a step.

    While a `recorder` is on, steps run on the profiling queue and it keeps their events. While
    `alone` is a list, every launch is waited for before the next is enqueued, and the list gets
    them; an interrupt may then come in the middle of a step."""

    recorder: Recorder | None = None
    alone: list[Alone] | None = None

    @property
    def borrows_from_bytes(self) -> int | None:
        return self._lender.from_bytes

    def __init__(self, on: OpenCLContext, program: Program, states: Mapping[str, Array]) -> None:
        self._on, self._cl, self.program = on, on.cl, program
        self.counters = Counters()
        self._closed = False
        plan = program.plan
        self._bytes = plan.peak_bytes + RING * (plan.staging_in_bytes + plan.staging_out_bytes)
        on.check_room(self._bytes)
        self._states = {s.name: s for s in program.graph.states}
        self._banks = [on.buffer(n) for n in plan.bank_bytes]
        self._inputs = tuple((p.value, plan.places[p.value.id].offset_bytes)
                             for p in program.graph.inputs)
        self._outputs = tuple((p.value, plan.places[p.value.id].offset_bytes)
                              for p in program.graph.outputs)
        slot = slot_kind(on, plan)
        self._slots = [slot(on, plan, self._inputs, self._outputs) for _ in range(RING)]
        self._lent: tuple[Array, ...] = ()
        self._lender, self._promises = Lender(on), Promises()
        self._borrowed = [[Borrowed(value) for value, _ in self._inputs] for _ in self._slots]
        compiled = compile_steps(on, program.all_steps, plan, program.built)
        with on.asking("preparing the kernels"):
            self._calls = self._preset(compiled, program.steps)
            self._once = self._preset(compiled, program.once)[0]
        self._is_stale = True                   # what the steps that run once make of the states
        end = program.update_step
        self._partial = [(k[:end], g[:end], n[:end]) for k, g, n in self._calls]
        self._queue = on.queue
        self._in_bytes = sum(p.value.nbytes for p in program.graph.inputs)
        self._out_bytes = sum(p.value.nbytes for p in program.graph.outputs)
        for name in self._states:
            self.write_state(name, states[name])

    def _preset(self, compiled: Mapping[str, Any], steps: Sequence[Step]) -> list[Calls]:
        """The calls of one step, once per slot; only kernels that touch staging exist twice."""
        kernels: list[list[Any]] = [[] for _ in self._slots]
        for step in steps:
            self._on.check_launch(step)
            staged = any(self.program.plan.places[o.value.id].bank < 0 for o in step.operands)
            shared: Any = None
            for own, slot, inputs in zip(kernels, self._slots, self._borrowed, strict=True):
                if shared is None or staged:
                    name, where = step_instance(step), self._where(step, slot)
                    shared = self._cl.Kernel(compiled[name], name)
                    self._on.set_arguments(shared, step, where)
                    for of, (_, at) in zip(inputs, self._inputs, strict=True):
                        of.note(step, shared, self.program.plan, at, where)
                own.append(shared)
        sizes = tuple(s.global_size for s in steps), tuple(s.local_size for s in steps)
        return [(tuple(own), *sizes) for own in kernels]

    def _where(self, step: Step, slot: Slot) -> list[tuple[Any, int]]:
        banks = [*self._banks, slot.output, slot.input]     # where -2 and -1 point
        return [self._on.where(self.program.plan, o.value, banks) for o in step.operands]

    def stage(self) -> tuple[Array, ...]:
        """The inputs of the next step where the device will read them, for the caller to fill.

        Given to `submit` they are not copied: a batch made in place crosses for nothing on a device
        that shares the host's memory. What they hold before is undefined; the next `submit` takes
        them back, whatever batch it is given, and they must not be touched after it."""
        self._needs_open()
        slot = self._slots[self.counters.steps % RING]
        with self._on.asking("a step", self._bytes):
            slot.take(self._queue, self.counters)
        slot.keep_results()
        self._lent += (views := tuple(slot.view(value, at) for value, at in self._inputs))
        return views

    def submit(self, batch: Sequence[Array], *, timed: bool = False, update: bool = True
               ) -> SlotTicket:
        """Queue one step. Copies `batch` at once, so the caller may change it afterwards; what
        nobody can change is read where it lies, if the device can (`borrow.py`).

        Raises BadInput, once, if what was lent to an earlier step did change meanwhile."""
        self._needs_open()
        counters, turn = self.counters, self.counters.steps % RING
        slot = self._slots[turn]
        seen = None if self.recorder is None else self.recorder.begin_pass()
        try:
            slot.take(self._queue, counters)
            self._promises.look(counters.steps - RING)
            if seen is not None:
                seen[1].taken_ns = now_ns()
            lent, lend_ns = self._lend(turn, batch, timed)
            copy_ns = self._copy(turn, batch, lent, timed)
            if seen is not None:
                seen[1].copied_ns = now_ns()
            times = timed or seen is not None or self.alone is not None
            queue = self._switch(self._on.timed_queue if times else self._on.queue)
            unmaps = slot.unmap(queue)
            if self._is_stale:
                self._replay(queue, self._once)
                self._is_stale = False
            events = self._replay(queue, (self._calls if update else self._partial)[turn])
            maps = slot.map(queue, events[-1] if events else None)
            queue.flush()
        except self._cl.Error as e:
            raise refused(self._on.spec, "a step", self._bytes, e) from e
        done = partial(self._promises.look, counters.steps)
        ticket = (SlotTicket(self._on, slot, self._outputs, done, events, unmaps + maps, copy_ns,
                             lend_ns)
                  if timed else SlotTicket(self._on, slot, self._outputs, done))
        if seen is not None:
            assert self.recorder is not None
            self.recorder.keep(*seen, unmaps, events, maps)
            ticket.seen = seen
        counters.steps += 1
        counters.launches += len(events)
        counters.bytes_in += self._in_bytes
        counters.bytes_out += self._out_bytes
        return ticket

    def _lend(self, turn: int, batch: Sequence[Array], timed: bool) -> tuple[list[bool], int]:
        """Which of the batch the kernels were pointed at where it lies; if `timed`, the time this
        took this thread."""
        start_ns = time.thread_time_ns() if timed else 0
        lent = []
        for port, input, data in zip(self.program.graph.inputs, self._borrowed[turn], batch,
                                     strict=True):
            loan = input.borrow(self._lender, data)
            if loan is not None and loan.is_promised:
                self._promises.note(self.counters.steps, port.name, data)
            lent.append(loan is not None)
        return lent, time.thread_time_ns() - start_ns if timed else 0

    def _copy(self, turn: int, batch: Sequence[Array], lent: Sequence[bool], timed: bool) -> int:
        """Results out, and in what of `batch` was not `lent`; if `timed`, the time this took this
        thread, without the time in which the threads of a CPU device had its core."""
        start_ns = time.thread_time_ns() if timed else 0
        slot = self._slots[turn]
        slot.keep_results()
        for (value, offset), data, is_lent, input in zip(self._inputs, batch, lent,
                                                         self._borrowed[turn], strict=True):
            if is_lent:
                self.counters.bytes_borrowed += data.nbytes
            else:
                input.give_back()
                slot.put(value, offset, data)       # NumPy sees when both are the same memory
        for array in self._lent:
            array.flags.writeable = False
        self._lent = ()
        return time.thread_time_ns() - start_ns if timed else 0

    def _replay(self, queue: Any, calls: Calls) -> list[Any]:
        """One event per launch. `map` makes it a single step for the interpreter: a signal is
        served before or after, so that no update is ever half done."""
        if self.alone is not None:
            return self._one_by_one(queue, calls, self.alone)
        return list(map(self._cl.enqueue_nd_range_kernel, repeat(queue), *calls))

    def _one_by_one(self, queue: Any, calls: Calls, kept: list[Alone]) -> list[Any]:
        queue.finish()
        for number, call in enumerate(zip(*calls, strict=True)):
            before_ns = now_ns()
            event = self._cl.enqueue_nd_range_kernel(queue, *call)
            event.wait()
            kept.append(Alone(number, before_ns, now_ns(), event))
        return [launch.event for launch in kept[len(kept) - len(calls[0]):]]

    def _switch(self, queue: Any) -> Any:
        if queue is not self._queue:
            self._on.same_order(self._queue, queue)
            self._queue = queue
        return queue

    def _needs_open(self) -> None:
        if self._closed:
            raise was_closed()

    def _state_region(self, name: str) -> tuple[State, Any, int]:
        self._needs_open()
        state = self._states[name]
        place = self.program.plan.places[state.before.id]
        return state, self._banks[place.bank], place.offset_bytes

    def read_state(self, name: str) -> Array:
        """A copy of the state as the steps submitted so far leave it; waits for them."""
        state, bank, offset = self._state_region(name)
        out = np.empty(state.before.shape, dtype(state.before.dtype).numpy)
        if out.nbytes:
            with self._on.asking(f"reading {name}", out.nbytes):
                self._cl.enqueue_copy(self._queue, out, bank, src_offset=offset)
        self.counters.blocking_calls += 1
        self._promises.look(self.counters.steps - 1)
        return as_torch(state, out)

    def write_state(self, name: str, array: Array) -> None:
        """Steps submitted later see `array`; those submitted before do not.

        A single number, such as a learning rate or what fills a fresh moment, is written without
        waiting for them, and without an array of it."""
        state, bank, offset = self._state_region(name)
        self._is_stale |= not state.changes
        given = np.asarray(array, dtype(state.before.dtype).numpy)
        if given.size and not any(given.strides[i] for i, n in enumerate(given.shape) if n > 1):
            one = np.array([given.flat[0]])     # a fill takes its pattern along: nothing to hold
            assert given.size == state.before.size, f"{name}: {given.shape}"
            with self._on.asking(f"writing {name}", state.before.nbytes):
                self._cl.enqueue_fill_buffer(self._queue, bank, one, offset, state.before.nbytes)
            return
        data = as_held(state, np.ascontiguousarray(given))
        assert data.shape == state.before.shape, f"{name}: {data.shape}"
        if data.nbytes:
            with self._on.asking(f"writing {name}", data.nbytes):
                self._cl.enqueue_copy(self._queue, bank, data, dst_offset=offset)
        self.counters.blocking_calls += 1

    def copy_state(self, name: str, source: OpenCLResident) -> None:
        """On the device, in the order of the queue. What follows from weights alone stays."""
        state, bank, offset = self._state_region(name)
        _, theirs, at = source._state_region(name)
        assert state.changes, f"{name} is a weight"
        source._switch(self._switch(self._on.queue))
        with self._on.asking(f"copying {name}", state.before.nbytes):
            self._cl.enqueue_copy(self._queue, bank, theirs, byte_count=state.before.nbytes,
                                  src_offset=at, dst_offset=offset)

    def finish(self) -> None:
        self._needs_open()
        self.counters.blocking_calls += 1
        with self._on.asking("a step"):
            self._queue.finish()
        self._promises.look(self.counters.steps - 1)

    def close(self) -> None:
        """Release the device's memory; results already asked for stay readable."""
        if self._closed:
            return
        self._closed = True
        with self._on.asking("a step"):
            self._queue.finish()
        for inputs in self._borrowed:
            for input in inputs:
                input.give_back()
        self._calls.clear()
        self._once = (), (), ()
        self._partial.clear()
        for slot in self._slots:
            slot.close(self._queue)
        for bank in self._banks:
            bank.release()
        self._banks.clear()
