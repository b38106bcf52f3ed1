"""Slots of the staging ring that are never mapped: memory that host and device share.

A map and its end are two commands for each region, and beside a step of some microseconds they are
most of what a call costs. Where the driver has fine-grained shared virtual memory the host writes a
batch where the kernels read it, and the end of the last launch is all there is to wait for."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from handtorch.plan.plan import Plan
from handtorch.runtime.device import Array
from handtorch.runtime.opencl.context import OpenCLContext
from handtorch.runtime.opencl.staging import Mapped, Ports, Region, Slot

# Beside the copy of a larger batch a map counts for nothing, and a large buffer has huge pages.
MOST_BYTES = 1 << 20
# As a buffer's: no driver allows more than its widest type, a long16.
BORDER_BYTES = 128


class SharedSlot(Slot):
    """As a Slot; what is called mapped here is always seen by both sides, and touched in turns.

    A driver keeps a buffer until the commands that use it are done, but not shared memory: it is
    gone at once. So also a slot that is dropped without `close` waits for its last step."""

    def __init__(self, on: OpenCLContext, plan: Plan, inputs: Ports | None = None,
                 outputs: Ports | None = None) -> None:
        super().__init__(on, plan, inputs, outputs)
        self._give_back = weakref.finalize(self, _give_back, (on.queue, on.timed_queue),
                                           (self.input, self.output))

    def close(self, queue: Any) -> None:
        if self._mapped is not None:
            self.keep_results()
            self._mapped = None
        self._give_back()

    def _memory(self, nbytes: int) -> Any:
        flags = self._cl.svm_mem_flags
        with self._on.asking("shared memory", nbytes):
            return self._cl.SVMAllocation(self._on.context, max(nbytes, 1), BORDER_BYTES,
                                          flags.READ_WRITE | flags.SVM_FINE_GRAIN_BUFFER)

    @cached_property
    def _regions(self) -> tuple[tuple[Region], tuple[Region]]:
        return ((0, _seen_by_host(self.input)),), ((0, _seen_by_host(self.output)),)

    def map(self, queue: Any, last: Any = None) -> list[Any]:
        done = self._cl.enqueue_marker(queue) if last is None else last
        self._mapped = Mapped(*self._regions, done)
        return []

    def unmap(self, queue: Any) -> list[Any]:
        assert self._mapped is not None, "the device owns this slot"
        self._mapped = None
        return []


def _give_back(queues: Sequence[Any], held: Sequence[Any]) -> None:
    for queue in queues:
        queue.finish()
    for memory in held:
        memory.release()


def _seen_by_host(memory: Any) -> Array:
    raw = (ctypes.c_uint8 * memory.size).from_address(memory.svm_ptr)
    return np.frombuffer(raw, np.uint8)


def slot_kind(on: OpenCLContext, plan: Plan) -> type[Slot]:
    """How batches of this program cross."""
    nbytes = max(plan.staging_in_bytes, plan.staging_out_bytes)
    return SharedSlot if on.shares_memory and nbytes <= MOST_BYTES else Slot
