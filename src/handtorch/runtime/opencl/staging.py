"""The staging ring: how a batch gets in and results get out without anybody waiting.

Each slot has one buffer for inputs and one for outputs, in memory both sides see. A slot is mapped
by a non-blocking call at the end of the step that used it; by the time its turn comes again the
map has long completed. So the host copies the next batch while the device computes."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from handtorch.dtypes import dtype
from handtorch.errors import DeviceError
from handtorch.graph.node import Value
from handtorch.plan.plan import Plan
from handtorch.runtime.device import Array, Counters, LaunchTime
from handtorch.runtime.opencl.context import OpenCLContext

_EXECUTION_STATUS_DONE = 0           # CL_COMPLETE


@dataclass(frozen=True)
class Mapped:
    """Both buffers in the host's address space, to be touched only after `done`."""

    input: Array
    output: Array
    done: Any


class Slot:
    """One place in the ring. Mapped: the host owns it. Unmapped: the device does.

    Ctrl-C may come between any two lines: `_mapped` changes in one go, and a slot found unmapped
    when its turn comes is mapped then."""

    def __init__(self, on: OpenCLContext, plan: Plan) -> None:
        self._on, self._cl = on, on.cl
        self._in_bytes, self._out_bytes = plan.staging_in_bytes, plan.staging_out_bytes
        self.input = on.buffer(self._in_bytes, host_visible=True)
        self.output = on.buffer(self._out_bytes, host_visible=True)
        self.ticket: weakref.ref[SlotTicket] | None = None
        self._mapped: Mapped | None = None
        with on.asking("mapping a buffer", self._in_bytes + self._out_bytes):
            self.map(on.queue)

    def map(self, queue: Any) -> None:
        """Hand the slot to the host once everything queued so far is done; returns at once."""
        flags, enqueue = self._cl.map_flags, self._cl.enqueue_map_buffer
        to_fill, _ = enqueue(queue, self.input, flags.WRITE_INVALIDATE_REGION, 0,
                             (max(self._in_bytes, 1),), np.uint8, is_blocking=False)
        to_read, done = enqueue(queue, self.output, flags.READ, 0, (max(self._out_bytes, 1),),
                                np.uint8, is_blocking=False)
        self._mapped = Mapped(to_fill, to_read, done)

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
        kind = np.dtype(dtype(value.dtype).numpy)
        view = self._owned.input[offset:offset + value.nbytes].view(kind).reshape(value.shape)
        np.copyto(view, data, casting="same_kind")

    def get(self, value: Value, offset: int) -> Array:
        kind = np.dtype(dtype(value.dtype).numpy)
        view = self._owned.output[offset:offset + value.nbytes].view(kind).reshape(value.shape)
        return np.array(view)

    def unmap(self, queue: Any) -> None:
        """Hand the slot to the device; the arrays mapped before must not be used again."""
        mapped, self._mapped = self._owned, None
        for array in (mapped.input, mapped.output):
            base: Any = array.base
            base.release(queue)

    def close(self, queue: Any) -> None:
        """Keep the results that may still be asked for, then give the memory back."""
        if self._mapped is not None:
            self.keep_results()
            self.unmap(queue)
        self.input.release()
        self.output.release()


class SlotTicket:
    """A step on its way. Its results are kept when its slot is given to another step."""

    def __init__(self, on: OpenCLContext, slot: Slot, outputs: Sequence[tuple[Value, int]],
                 events: list[Any] | None) -> None:
        self._on, self._outputs, self._events = on, outputs, events
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
            self._slot.wait()
            self.keep()
        return self._kept

    def launch_times(self) -> tuple[LaunchTime, ...]:
        if self._events is None:
            raise DeviceError("launch times", why="the step was not timed",
                              fix="`step(..., timed=True)`")
        self.result()
        return tuple(self._on.times(e) for e in self._events)
