"""The kernels that measure a device compute what they say."""

from __future__ import annotations

from dataclasses import replace

import pytest

from handtorch.graph.device_spec import GENERIC
from handtorch.kernels.case import Case
from handtorch.kernels.roofline import cases, copy_step, fma_step
from handtorch.runtime.opencl.context import OpenCLContext
from handtorch.runtime.opencl.discover import FoundDevice
from handtorch.selftest import run_case


@pytest.mark.parametrize("case", list(cases()), ids=lambda case: case.name)
def test_each_case_is_right(opencl_device: FoundDevice, case: Case) -> None:
    assert case.error(run_case(OpenCLContext(opencl_device), case)) <= 1


def test_work_is_counted() -> None:
    cpu = replace(GENERIC, kind="cpu", float_width=16, compute_units=2)
    step = fma_step(cpu, loops=10)
    assert step.global_size == (128,)
    assert step.flops == 2 * 128 * 10 * 16 * 12         # items, loops, lanes, chains
    assert copy_step(cpu, 1000).bytes == 8000           # read and written


def test_a_phone_gets_groups_of_its_own_size() -> None:
    assert fma_step(GENERIC, 1).local_size == (64,)
    assert copy_step(replace(GENERIC, max_work_group=32), 64).local_size == (32,)
