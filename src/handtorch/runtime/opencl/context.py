"""OpenCLContext: one device, its two queues, and what is asked of the driver directly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np

from handtorch.dtypes import dtype
from handtorch.errors import DeviceError, OutOfMemory
from handtorch.graph.device_spec import DeviceSpec
from handtorch.graph.node import Value
from handtorch.graph.step import Step
from handtorch.kernels.catalog import KERNELS
from handtorch.plan.plan import Plan
from handtorch.runtime.device import LaunchTime
from handtorch.runtime.opencl.build import build
from handtorch.runtime.opencl.discover import FoundDevice
from handtorch.runtime.opencl.huge_pages import HUGE_PAGE, huge_pages, prefer_huge_pages
from handtorch.runtime.opencl.loader import load

_SCALARS: dict[str, Any] = {"int": np.int32, "uint": np.uint32, "float": np.float32}
# MEM_OBJECT_ALLOCATION_FAILURE, OUT_OF_RESOURCES, OUT_OF_HOST_MEMORY
_NO_ROOM = (-4, -5, -6)


class OpenCLContext:
    """Holds the context and the queues; programs and buffers hold on to it.

    Both queues are in order. The profiling queue is used only for timed steps: on the two CPU
    runtimes it costs nothing, some mobile drivers run every launch alone on one."""

    def __init__(self, found: FoundDevice) -> None:
        self.cl: Any = load()
        self.found = found
        self.builds = Counter[str]()            # programs by where they came from
        with self.asking("opening the device"):
            self.context = self.cl.Context([found.handle])
            self.queue = self.cl.CommandQueue(self.context)
            self.timed_queue = self.cl.CommandQueue(
                self.context, properties=self.cl.command_queue_properties.PROFILING_ENABLE)

    @property
    def spec(self) -> DeviceSpec:
        return self.found.spec

    @cached_property
    def shares_memory(self) -> bool:
        """Whether host and device see what the other wrote without a map between them, as far as
        the driver says: fine-grained shared virtual memory, which OpenCL 1.2 does not have."""
        try:
            found = int(self.found.handle.svm_capabilities)
        except self.cl.Error:
            return False
        return bool(found & self.cl.device_svm_capabilities.FINE_GRAIN_BUFFER)

    def build(self, source: str, given: bytes | None = None) -> Any:
        """`source` compiled, or its binary `given`, which is run as it is: the caller trusts it."""
        program, origin = build(self.cl, self.context, self.found, source, given)
        self.builds[origin] += 1
        return program

    def binary(self, source: str) -> bytes:
        """What the driver makes of `source`; some drivers compile all of it anew for this."""
        with self.asking("a program's binary"):
            (binary,) = self.build(source).get_info(self.cl.program_info.BINARIES)
        return bytes(binary)

    @contextmanager
    def asking(self, what: str, nbytes: int = 0) -> Iterator[None]:
        """What the driver refuses inside is our error, with `what` was asked of it."""
        try:
            yield
        except self.cl.Error as e:
            raise refused(self.spec, what, nbytes, e) from e

    def check_room(self, nbytes: int) -> None:
        """Refuse a program that the whole device cannot hold.

        Linux promises memory it does not have, so no driver would refuse in time."""
        if nbytes > self.spec.global_bytes:
            raise OutOfMemory(f"the program takes {nbytes} B",
                              why=f"{self.spec.name} has {self.spec.global_bytes} B in all",
                              fix="a smaller batch or model, or another device")

    def buffer(self, nbytes: int, *, host_visible: bool = False) -> Any:
        """A buffer of `nbytes`, at least one; refuses with figures what the device cannot hold."""
        limit, flags = self.spec.largest_allocation_bytes, self.cl.mem_flags
        if nbytes > limit:
            raise OutOfMemory(f"a buffer of {nbytes} B",
                              why=f"{self.spec.name} allows {limit} B in one allocation",
                              fix="a smaller batch or model, or another device")
        # A CPU's memory is the host's anyway. PoCL allocates other buffers only at their first
        # use, and ends the process there if it cannot.
        host = host_visible or self.spec.kind == "cpu"
        mode = flags.READ_WRITE | (flags.ALLOC_HOST_PTR if host else 0)
        with self.asking("a buffer", nbytes):
            if self.spec.kind == "cpu" and huge_pages(nbytes) and nbytes <= limit - HUGE_PAGE:
                return self._in_huge_pages(nbytes, mode)
            return self.cl.Buffer(self.context, mode, size=max(nbytes, 1))

    def _in_huge_pages(self, nbytes: int, mode: int) -> Any:
        """A part that starts on a huge page, of a buffer one page longer."""
        longer = self.cl.Buffer(self.context, mode, size=nbytes + HUGE_PAGE)
        seen, _ = self.cl.enqueue_map_buffer(
            self.queue, longer, self.cl.map_flags.WRITE_INVALIDATE_REGION, 0, (1,), np.uint8)
        address = seen.ctypes.data
        seen.base.release(self.queue)
        start = -address % HUGE_PAGE
        prefer_huge_pages(address + start, huge_pages(nbytes))
        return longer.get_sub_region(start, nbytes)

    def set_arguments(self, kernel: Any, step: Step, where: Sequence[tuple[Any, int]]) -> None:
        """Preset every argument: a (buffer, element offset) pair each, then the scalars.

        The caller must keep the buffers: OpenCL does not retain what an argument names."""
        at = 0
        for buffer, offset in where:
            kernel.set_arg(at, buffer)
            kernel.set_arg(at + 1, np.uint32(offset))
            at += 2
        for kind, number in step.scalars:
            kernel.set_arg(at, _SCALARS[kind](number))
            at += 1

    def where(self, plan: Plan, value: Value, banks: Sequence[Any]) -> tuple[Any, int]:
        """The value's buffer and element offset; staging is at the end of `banks`."""
        place = plan.places[value.id]
        return banks[place.bank], place.offset_bytes // dtype(value.dtype).size_bytes

    def check_launch(self, step: Step) -> None:
        """Refuse before the driver does, with the numbers."""
        items, spec = int(np.prod(step.local_size)), self.spec
        if items > spec.max_work_group:
            raise DeviceError(f"kernel {step.kernel}",
                              why=f"a work-group of {items} items, {spec.name} allows "
                                  f"{spec.max_work_group}")
        for n, most in zip(step.local_size, spec.max_work_items, strict=False):
            if n > most:
                raise DeviceError(f"kernel {step.kernel}",
                                  why=f"a work-group of {step.local_size}, {spec.name} allows "
                                      f"{spec.max_work_items}")
        need = KERNELS[step.kernel].local_bytes(dict(step.defines))
        if need > spec.local_bytes:
            raise DeviceError(f"kernel {step.kernel}",
                              why=f"{need} B of local memory, {spec.name} has "
                                  f"{spec.local_bytes} B")
        ragged = [g % n for g, n in zip(step.global_size, step.local_size, strict=True)]
        assert not any(ragged), f"{step.kernel}: {step.global_size} / {step.local_size}"

    def times(self, event: Any) -> LaunchTime:
        p = event.profile
        return LaunchTime(p.queued, p.submit, p.start, p.end)

    def same_order(self, before: Any, after: Any) -> None:
        """What `after` is given next starts when all of `before` is done; nobody waits here."""
        marker = self.cl.enqueue_marker(before)
        before.flush()
        self.cl.enqueue_barrier(after, wait_for=[marker])


def refused(spec: DeviceSpec, what: str, nbytes: int, error: Any) -> DeviceError:
    """The driver's `error` while `what` was asked of it, `nbytes` being the memory in play."""
    if error.code in _NO_ROOM:
        return OutOfMemory(f"{spec.name} has no room for {what} of {nbytes} B" if nbytes else
                           f"{spec.name} has no room for {what}",
                           why=f"it has {spec.global_bytes} B in all; the driver said: {error}",
                           fix="a smaller batch, or close other programs that use the device")
    return DeviceError(f"{what} on {spec.name}", why=f"the driver said: {error}",
                       fix="`handtorch devices` runs the device's self-test")
