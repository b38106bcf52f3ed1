"""OpenCLContext: one device, its two queues, and what is asked of the driver directly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from handtorch.errors import DeviceError, OutOfMemory
from handtorch.graph.device_spec import DeviceSpec
from handtorch.graph.step import Step
from handtorch.runtime.device import LaunchTime
from handtorch.runtime.opencl.build import build
from handtorch.runtime.opencl.discover import FoundDevice
from handtorch.runtime.opencl.loader import load

_SCALARS: dict[str, Any] = {"int": np.int32, "uint": np.uint32, "float": np.float32}


class OpenCLContext:
    """Holds the context and the queues; programs and buffers hold on to it.

    Both queues are in order. The profiling queue is used only for timed steps: on the two CPU
    runtimes it costs nothing, some mobile drivers run every launch alone on one."""

    def __init__(self, found: FoundDevice) -> None:
        self.cl: Any = load()
        self.found = found
        self.context = self.cl.Context([found.handle])
        self.queue = self.cl.CommandQueue(self.context)
        self.timed_queue = self.cl.CommandQueue(
            self.context, properties=self.cl.command_queue_properties.PROFILING_ENABLE)

    @property
    def spec(self) -> DeviceSpec:
        return self.found.spec

    def build(self, source: str) -> Any:
        return build(self.cl, self.context, self.found, source)

    def buffer(self, nbytes: int, *, host_visible: bool = False) -> Any:
        """A buffer of `nbytes`, at least one; refuses with figures what the device cannot hold."""
        limit, flags = self.spec.largest_allocation_bytes, self.cl.mem_flags
        if nbytes > limit:
            raise OutOfMemory(f"a buffer of {nbytes} B",
                              why=f"{self.spec.name} allows {limit} B in one allocation",
                              fix="a smaller batch or model, or another device")
        mode = flags.READ_WRITE | (flags.ALLOC_HOST_PTR if host_visible else 0)
        try:
            return self.cl.Buffer(self.context, mode, size=max(nbytes, 1))
        except (self.cl.MemoryError, self.cl.RuntimeError) as e:
            raise out_of_memory(self.spec, nbytes, str(e)) from e

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

    def check_launch(self, step: Step) -> None:
        """Refuse before the driver does, with the numbers."""
        items = int(np.prod(step.local_size))
        if items > self.spec.max_work_group:
            raise DeviceError(f"kernel {step.kernel}",
                              why=f"a work-group of {items} items, {self.spec.name} allows "
                                  f"{self.spec.max_work_group}")
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


def out_of_memory(spec: DeviceSpec, nbytes: int, said: str) -> OutOfMemory:
    return OutOfMemory(f"{spec.name} has no room for {nbytes} B",
                       why=f"it has {spec.global_bytes} B in all; the driver said: {said}",
                       fix="a smaller batch, or close other programs that use the device")
