"""BareSteps: steps on a buffer of their own per value, outside any program.

For checking kernels (an overrun cannot hide in a neighbour), tuning and benchmarks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from handtorch.dtypes import dtype
from handtorch.graph.node import Value
from handtorch.graph.step import Step
from handtorch.kernels.render import render, step_instance
from handtorch.runtime.device import Array, LaunchTime
from handtorch.runtime.opencl.context import OpenCLContext


class BareSteps:
    """Compiled, arguments preset, data uploaded; values without data start as zeros.

    `program` holds the kernels already compiled, if they are."""

    def __init__(self, executor: OpenCLContext, steps: Sequence[Step],
                 given: Mapping[int, Array], program: Any = None) -> None:
        self._on, self._cl = executor, executor.cl
        values = {o.value.id: o.value for s in steps for o in s.operands}
        self._buffers = {k: executor.buffer(v.nbytes) for k, v in values.items()}
        for key, value in values.items():
            start = given.get(key, np.zeros(value.shape, dtype(value.dtype).numpy))
            self.write(value, start)
        self._program = program or executor.build(render(steps))
        self._calls: list[tuple[Any, tuple[int, ...], tuple[int, ...]]] = []
        for step in steps:
            executor.check_launch(step)
            kernel = self._cl.Kernel(self._program, step_instance(step))
            where = [(self._buffers[o.value.id], 0) for o in step.operands]
            executor.set_arguments(kernel, step, where)
            self._calls.append((kernel, step.global_size, step.local_size))

    def write(self, value: Value, data: Array) -> None:
        array = np.asarray(data, dtype(value.dtype).numpy, order="C")
        assert array.shape == value.shape, f"{array.shape} for {value}"
        if array.nbytes:
            self._cl.enqueue_copy(self._on.queue, self._buffers[value.id], array)

    def enqueue(self, times: int = 1) -> None:
        """Queue all steps `times` times; returns at once."""
        enqueue, queue = self._cl.enqueue_nd_range_kernel, self._on.queue
        for _ in range(times):
            for kernel, global_size, local_size in self._calls:
                enqueue(queue, kernel, global_size, local_size)

    def finish(self) -> None:
        self._on.queue.finish()

    def times(self, times: int = 1) -> list[LaunchTime]:
        """Run all steps `times` times on the profiling queue; one LaunchTime per launch."""
        self._on.queue.finish()
        queue = self._on.timed_queue
        events = [self._cl.enqueue_nd_range_kernel(queue, kernel, g, n)
                  for _ in range(times) for kernel, g, n in self._calls]
        queue.finish()
        return [self._on.times(e) for e in events]

    def enqueue_timed(self) -> Any:
        """All steps once on the profiling queue; the event of the last."""
        for kernel, global_size, local_size in self._calls:
            event = self._cl.enqueue_nd_range_kernel(self._on.timed_queue, kernel, global_size,
                                                     local_size)
        return event

    def read(self, value: Value) -> Array:
        out = np.empty(value.shape, dtype(value.dtype).numpy)
        if out.nbytes:
            self._cl.enqueue_copy(self._on.queue, out, self._buffers[value.id])
        return out

    def close(self) -> None:
        self._on.queue.finish()
        for buffer in self._buffers.values():
            buffer.release()
        self._buffers.clear()
        self._calls.clear()
