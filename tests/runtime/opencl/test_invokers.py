"""Objects of one kernel share the code that pyopencl makes for calling them."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

from handtorch.runtime.opencl import invokers
from handtorch.runtime.opencl.context import OpenCLContext
from handtorch.runtime.opencl.discover import FoundDevice

SOURCE = "__kernel void add(__global float *x, const float a) { x[get_global_id(0)] += a; }"


def test_code_is_made_once_and_kernels_work_also_when_called(opencl_device: FoundDevice) -> None:
    on = OpenCLContext(opencl_device)
    program = on.build(SOURCE)
    made = importlib.import_module("pyopencl.invoker").generate_enqueue_and_set_args.shared
    first = on.cl.Kernel(program, "add")
    before = len(made)
    other = on.cl.Kernel(program, "add")
    assert len(made) == before
    data, out = np.zeros(3, "f4"), np.empty(3, "f4")
    buffer = on.buffer(data.nbytes)
    on.cl.enqueue_copy(on.queue, buffer, data)
    first(on.queue, (3,), None, buffer, np.float32(1))
    other.set_args(buffer, np.float32(2))
    on.cl.enqueue_nd_range_kernel(on.queue, other, (3,), None)
    on.cl.enqueue_copy(on.queue, out, buffer)
    assert out.tolist() == [3, 3, 3]


def test_what_cannot_be_a_key_is_made_each_time() -> None:
    calls: list[object] = []

    def count(*args: object, devs: object = None) -> int:
        calls.append(args)
        return len(calls)
    make = invokers._shared(count)
    assert (make("f", [1, 2]), make("f", [1, 2]), make("f", [3])) == (1, 1, 2)
    assert (make("f", devs=[1]), make("f", devs=[1]), make("f", devs=[2])) == (3, 3, 4)
    assert (make("f", {}), make("f", {})) == (5, 6)


def test_a_pyopencl_without_it_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module("pyopencl.invoker")
    monkeypatch.delattr(module, "generate_enqueue_and_set_args")
    invokers.share_invokers()
    assert not hasattr(module, "generate_enqueue_and_set_args")
