from __future__ import annotations

from handtorch.profile.peaks import peak_rows
from handtorch.runtime.opencl.context import OpenCLContext
from handtorch.runtime.opencl.discover import FoundDevice


def test_a_device_has_three_best_rates(opencl_device: FoundDevice) -> None:
    rows = {r.name: r for r in peak_rows(OpenCLContext(opencl_device), "profile", "here")}
    assert {n: r.unit for n, r in rows.items()} == {
        "arithmetic peak": "FLOP/s", "memory peak": "B/s", "launch time": "ns"}
    assert all(r.repeats >= 7 and r.subject == opencl_device.spec.name for r in rows.values())
    flops, rate, launch = (r.value or 0 for r in rows.values())
    # Whatever this runs on, it is between a microcontroller and a rack.
    assert 1e7 < flops < 1e15 and 1e6 < rate < 1e14 and 10 < launch < 1e8
