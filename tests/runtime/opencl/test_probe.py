"""Staging is measured with the bytes really moved."""

from __future__ import annotations

from handtorch.runtime.opencl.context import OpenCLContext
from handtorch.runtime.opencl.discover import FoundDevice
from handtorch.runtime.opencl.probe import staging


def test_each_way_is_timed_as_often_as_asked(opencl_device: FoundDevice) -> None:
    found = staging(OpenCLContext(opencl_device), 100_000, repeats=3)
    assert found.nbytes == 100_000
    for seconds in (found.copy_s, found.map_s, found.map_only_s):
        assert len(seconds) == 3
        assert all(0 < s < 1 for s in seconds)
