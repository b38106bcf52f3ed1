"""Three phones that are not here: the facts that launches are chosen by, and must keep to.

Each figure is what the device's own driver says, from a `clinfo` that somebody published; those
texts lie in the optional data (`data/clinfo`), and a test compares. None is what one kernel may
have: a kernel of many registers gets fewer items, which no sheet tells."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from handtorch.graph.device_spec import GENERIC, DeviceSpec
from handtorch.graph.step import Step
from handtorch.kernels.catalog import KERNELS

_SAME = replace(
    GENERIC, platform_version="", driver="", max_work_group=1024,
    max_work_items=(1024, 1024, 1024), local_bytes=32768, base_align_bytes=128, float_width=1,
    fp16=True, subgroups=True, images=True, max_parameter_bytes=1024, timer_ns=1000)
_ADRENO = replace(_SAME, name="QUALCOMM Adreno(TM)", vendor="QUALCOMM",
                  platform="QUALCOMM Snapdragon(TM)", constant_bytes=65536)
PHONES: dict[str, DeviceSpec] = {
    "adreno650": replace(                       # from the issue xmrig/xmrig#2383
        _ADRENO, device_version="OpenCL 2.0 Adreno(TM) 650", opencl_c="2.0", compute_units=3,
        group_multiple=128, local_is_dedicated=True, unified_memory=True,
        global_bytes=3992293376, largest_allocation_bytes=998073344),
    "adreno730": replace(                       # a Snapdragon 8+ Gen 1
        _ADRENO, device_version="OpenCL 3.0 Adreno(TM) 730", compute_units=4,
        global_bytes=5973733376, largest_allocation_bytes=1073741824),
    "mali-g610": replace(                       # an RK3588S, from bbaranoff/OrangePi5-OpenCL
        _SAME, name="Mali-LODX r0p0", vendor="ARM", platform="ARM Platform",
        device_version="OpenCL 2.1 v1.g6p0-01eac0.efb75e2978d783a80fe78be1bfb0efc1",
        opencl_c="2.0", compute_units=4, group_multiple=16, clock_mhz=1000,
        local_is_dedicated=False, unified_memory=True, constant_bytes=8055664640,
        global_bytes=8055664640, largest_allocation_bytes=8055664640)}
# The least of any phone, and of any kernel of many registers: what the cases for all devices,
# which no device's facts have shaped, must keep to.
LEAST = GENERIC


def over_limits(step: Step, spec: DeviceSpec) -> str:
    """What of this launch the device cannot take, empty if nothing."""
    offsets = 12 * len(step.operands)           # a pointer and a uint each; all scalars have 4 B
    wanted = {
        "items": (prod(step.local_size), spec.max_work_group),
        **{f"items on axis {i}": (n, most) for i, (n, most) in
           enumerate(zip(step.local_size, spec.max_work_items, strict=False))},
        "B of local memory": (KERNELS[step.kernel].local_bytes(dict(step.defines)),
                              spec.local_bytes),
        "B of arguments": (offsets + 4 * len(step.scalars), spec.max_parameter_bytes),
        "B in one allocation": (max((o.value.nbytes for o in step.operands), default=0),
                                spec.largest_allocation_bytes)}
    over = [f"{n} {what}, not {most}" for what, (n, most) in wanted.items() if n > most]
    if any(g % n for g, n in zip(step.global_size, step.local_size, strict=True)):
        over.append(f"{step.global_size} items in groups of {step.local_size}")
    return f"{step.kernel}: {'; '.join(over)}" if over else ""
