"""A processor of a sheet as predictions and as lowering need it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from handtorch.errors import BadInput
from handtorch.graph.device_spec import GENERIC, DeviceSpec
from handtorch.place.predict import Rates
from handtorch.place.sheet import Processor, Sheet

_NEEDED = ("flops_per_s", "bytes_per_s", "launch_s")


def rates_of(processor: Processor) -> Rates:
    """Its figures. Copies of an unknown cost are free: `doubts` says so; others are needed."""
    figures = processor.figures()
    for name in _NEEDED:
        if not figures[name].value:
            raise BadInput(f"{processor.name}: no {name}", why=figures[name].source,
                           fix="a figure with its source in the sheet, see docs/sheets.md")
    known = {name: f.value for name, f in figures.items() if f.value}
    return Rates(**known)


def doubts(processor: Processor) -> tuple[str, ...]:
    """What is not sure about its figures, one line each."""
    lines = []
    for name, figure in processor.figures().items():
        if figure.value is None:
            lines.append(f"{name} is not counted: {figure.source}")
        elif figure.doubt:
            lines.append(f"{name} is {figure.doubt}: {figure.source}")
    return tuple(lines)


def spec_of(sheet: Sheet, processor: Processor) -> DeviceSpec:
    """What kernels are chosen for: the limits that the sheet has, and for the rest those of the
    weakest phone, which `assumed` names. A quarter of memory may be one allocation, OpenCL's least.
    """
    limits: dict[str, Any] = dict(processor.limits)
    if "global_bytes" not in limits and sheet.capacity_bytes.value is not None:
        limits["global_bytes"] = int(sheet.capacity_bytes.value)
    if "global_bytes" in limits:
        limits.setdefault("largest_allocation_bytes", limits["global_bytes"] // 4)
    if "max_work_group" in limits:
        limits["max_work_items"] = (limits["max_work_group"],) * 3
    assumed = ("max_work_group", "local_bytes", "global_bytes", "compute_units", "float_width")
    return replace(GENERIC, name=processor.name, platform=sheet.name, kind=processor.kind,
                   **limits, assumed=tuple(n for n in assumed if n not in limits))
