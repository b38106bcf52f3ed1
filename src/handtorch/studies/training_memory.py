"""Whether the memory of a cell's process is what was planned, and what else is in it.

A process that trains holds the plan (arena and staging ring), its batches, and

    a constant      interpreter, NumPy, OpenCL loader, driver and its compiler: measured in each run
                    by a process that trains a perceptron of 272 weights
    per launch      Python's own objects of a launch and its node: graph, step, arguments
    per kernel      compiled code, and the driver's objects for it

The two rates are stated here, not fitted to the cells they are judged by: see docs/training.md."""

from __future__ import annotations

from handtorch.studies.training_cells import Cell
from handtorch.studies.training_run import Bare

PER_LAUNCH_BYTES = 20 << 10
PER_KERNEL_BYTES = 80 << 10
WITHIN = 0.10


def expected_bytes(cell: Cell, bare: Bare) -> int | None:
    """What the process should hold at its peak; None for a cell without a plan."""
    memory = cell.memory
    if memory is None or memory.planned_bytes is None:
        return None
    return (constant_bytes(bare) + memory.planned_bytes + memory.batches_bytes
            + (memory.launches - bare.launches) * PER_LAUNCH_BYTES
            + (memory.kernels - bare.kernels) * PER_KERNEL_BYTES)


def constant_bytes(bare: Bare) -> int:
    return bare.bytes - bare.planned


def off(cell: Cell, bare: Bare) -> float | None:
    """(measured - expected) / expected."""
    expected = expected_bytes(cell, bare)
    if expected is None or cell.memory is None:
        return None
    return cell.memory.peak_bytes / expected - 1
