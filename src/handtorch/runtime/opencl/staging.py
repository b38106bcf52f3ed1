"""The staging ring: how a batch gets in and results get out without anybody waiting.

Each slot has one buffer for inputs and one for outputs, in memory both sides see. A slot is mapped
by a non-blocking call at the end of the step that used it; by the time its turn comes again the
map has long completed. So the host copies the next batch while the device computes. Small slots
need not be mapped where host and device share memory (`shared.py`).

Only what the ports hold is mapped: on a device with memory of its own a map or its end transfers
the whole region, and the gaps that alignment leaves between two ports would go along."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from handtorch.dtypes import dtype
from handtorch.errors import DeviceError
from handtorch.graph.node import Value
from handtorch.plan.plan import Plan
from handtorch.runtime.device import Array, Counters, LaunchTime
from handtorch.runtime.opencl.context import OpenCLContext
from handtorch.runtime.recorder import Call, Pass, now_ns

_EXECUTION_STATUS_DONE = 0           # CL_COMPLETE

Ports = Sequence[tuple[Value, int]]  # each with its offset in the slot's buffer
Span = tuple[int, int]               # from, to, in bytes
Region = tuple[int, Array]           # where it begins in the buffer, and its bytes


@dataclass(frozen=True)
class Mapped:
    """Both buffers in the host's address space, to be touched only after `done`."""

    input: tuple[Region, ...]
    output: tuple[Region, ...]
    done: Any


@dataclass(frozen=True)
class Movement:
    """What one step spent on moving data: the host's copies into and out of the ring, in time of
    its processor, and each map and unmap on the device's clock. Beside it, what the host spent on
    finding arrays that need not be moved and on pointing kernels at them."""

    copy_ns: int
    commands: tuple[LaunchTime, ...]
    lend_ns: int = 0

    @property
    def commands_ns(self) -> int:
        return sum(c.end_ns - c.start_ns for c in self.commands)


def spans(ports: Ports) -> tuple[Span, ...]:
    """The bytes that the ports hold, those without a gap between them together."""
    held: list[Span] = []
    for start, end in sorted({(at, at + value.nbytes) for value, at in ports if value.nbytes}):
        if held and start <= held[-1][1]:
            held[-1] = held[-1][0], max(end, held[-1][1])
        else:
            held.append((start, end))
    return tuple(held)


class Slot:
    """One place in the ring. Mapped: the host owns it. Unmapped: the device does.

    Ctrl-C may come between any two lines: `_mapped` changes in one go, and a slot found unmapped
    when its turn comes is mapped then. What is not among `inputs` and `outputs` stays on the
    device; None stands for the whole buffer."""

    def __init__(self, on: OpenCLContext, plan: Plan, inputs: Ports | None = None,
                 outputs: Ports | None = None) -> None:
        self._on, self._cl = on, on.cl
        in_bytes, out_bytes = plan.staging_in_bytes, plan.staging_out_bytes
        self._to_fill = ((0, max(in_bytes, 1)),) if inputs is None else spans(inputs)
        self._to_read = ((0, max(out_bytes, 1)),) if outputs is None else spans(outputs)
        self.input, self.output = self._memory(in_bytes), self._memory(out_bytes)
        self.ticket: weakref.ref[SlotTicket] | None = None
        self._mapped: Mapped | None = None
        with on.asking("mapping a buffer", in_bytes + out_bytes):
            self.map(on.queue)

    def _memory(self, nbytes: int) -> Any:
        """What kernels get as an argument."""
        return self._on.buffer(nbytes, host_visible=True)

    def map(self, queue: Any, last: Any = None) -> list[Any]:
        """Hand the slot to the host once everything queued so far is done; returns at once, the
        events of the maps. `last` is the event of what was queued last, if it is known."""
        flags, events = self._cl.map_flags, []
        regions: list[list[Region]] = []
        for buffer, mode, held in (
                (self.input, flags.WRITE_INVALIDATE_REGION, self._to_fill),
                (self.output, flags.READ, self._to_read)):
            regions.append([])
            for start, end in held:
                array, event = self._cl.enqueue_map_buffer(
                    queue, buffer, mode, start, (end - start,), np.uint8, is_blocking=False)
                regions[-1].append((start, array))
                events.append(event)
        done = events[-1] if events else self._cl.enqueue_marker(queue)
        self._mapped = Mapped(tuple(regions[0]), tuple(regions[1]), done)
        return events

    def take(self, queue: Any, counters: Counters) -> None:
        """Wait until the host owns the slot; counts only if there was something to wait for."""
        if self._mapped is None:
            self.map(queue)
        if self._owned.done.command_execution_status != _EXECUTION_STATUS_DONE:
            counters.waits_for_slot += 1
            self.wait()

    def wait(self) -> None:
        """Until the last step here is done; its failure on the device is raised here."""
        with self._on.asking("a step"):
            self._owned.done.wait()

    @property
    def _owned(self) -> Mapped:
        assert self._mapped is not None, "the device owns this slot"
        return self._mapped

    def keep_results(self) -> None:
        """If somebody may still ask for the results of the last step here, copy them out."""
        ticket = self.ticket() if self.ticket is not None else None
        if ticket is not None:
            ticket.keep()

    def put(self, value: Value, offset: int, data: Array) -> None:
        """Copy one input in, converting its type (int64 labels become int32)."""
        np.copyto(self.view(value, offset), data, casting="same_kind")

    def view(self, value: Value, offset: int) -> Array:
        """One input where the device will read it; of no use once the slot is unmapped."""
        return _seen(self._owned.input, value, offset)

    def get(self, value: Value, offset: int) -> Array:
        return np.array(_seen(self._owned.output, value, offset))

    def unmap(self, queue: Any) -> list[Any]:
        """Hand the slot to the device; the arrays mapped before must not be used again. Returns
        at once, the events of the unmaps."""
        mapped, self._mapped = self._owned, None
        bases: list[Any] = [array.base for _, array in (*mapped.input, *mapped.output)]
        return [base.release(queue) for base in bases]

    def close(self, queue: Any) -> None:
        """Keep the results that may still be asked for, then give the memory back."""
        if self._mapped is not None:
            self.keep_results()
            self.unmap(queue)
        self.input.release()
        self.output.release()


def _seen(regions: Sequence[Region], value: Value, offset: int) -> Array:
    """The value at `offset` of a buffer of which `regions` are mapped."""
    kind = dtype(value.dtype).numpy
    for start, array in regions:
        if start <= offset and offset + value.nbytes <= start + array.size:
            return np.ndarray(value.shape, kind, array.data, offset - start)
    assert not value.nbytes, f"{value} at {offset} is not mapped"
    return np.empty(value.shape, kind)


class SlotTicket:
    """A step on its way. Its results are kept when its slot is given to another step.

    `done` is called when somebody has waited for the step, and may say what went wrong in it.
    Of a step that is recorded, `seen` is told when somebody waited for it."""

    seen: tuple[Call, Pass] | None = None

    def __init__(self, on: OpenCLContext, slot: Slot, outputs: Ports, done: Callable[[], None],
                 events: list[Any] | None = None, moves: Sequence[Any] = (), copy_ns: int = 0,
                 lend_ns: int = 0) -> None:
        self._on, self._outputs, self._done, self._events = on, outputs, done, events
        self._moves, self._copy_ns, self._lend_ns = moves, copy_ns, lend_ns
        self._slot: Slot | None = slot
        self._kept: tuple[Array, ...] = ()
        slot.ticket = weakref.ref(self)

    def keep(self) -> None:
        """Copy the results out of the slot, which the host must own, and let go of it."""
        if self._slot is not None:
            self._kept = tuple(self._slot.get(v, at) for v, at in self._outputs)
            self._slot = None

    def result(self) -> tuple[Array, ...]:
        if self._slot is not None:
            begin = now_ns()
            self._slot.wait()
            if self.seen is not None:
                call, only = self.seen
                only.seen_ns = now_ns()
                call.waits.append((begin, only.seen_ns))
            self.keep()
            self._done()
        return self._kept

    def launch_times(self) -> tuple[LaunchTime, ...]:
        events = self._timed("launch times", self._events)
        return tuple(self._on.times(e) for e in events)

    def movement(self) -> Movement:
        """What the step spent on moving data, if it was submitted `timed`; waits."""
        self._timed("data movement", self._events)
        return Movement(self._copy_ns, tuple(self._on.times(e) for e in self._moves),
                        self._lend_ns)

    def _timed(self, what: str, events: list[Any] | None) -> list[Any]:
        """The events, all of them complete."""
        if events is None:
            raise DeviceError(what, why="the step was not timed", fix="`step(..., timed=True)`")
        self.result()
        return events
