"""How long launches take, before they run: from a roofline, or from times that were taken."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from handtorch.graph.device_spec import DeviceSpec
from handtorch.graph.step import Step

# Where a sheet does not tell. A share of peak that our kernels reach, operations a clock of one
# lane (multiply, add), lanes of a GPU's compute unit, and bytes of memory for each operation: low
# in phones, where eight cores share one narrow bus.
_REACHED = 0.5
_OPERATIONS = 2
_GPU_LANES = 64
_CLOCK_MHZ = 600
_BYTES_PER_FLOP = 1 / 16
_LAUNCH_NS = 20_000.0


@dataclass(frozen=True)
class Roofline:
    """What a device does at best; `source` is measured or estimated."""

    flops_per_s: float
    bytes_per_s: float
    launch_ns: float
    source: str

    def is_moving(self, step: Step) -> bool:
        """Whether memory is what it waits for."""
        return step.flops / self.flops_per_s <= step.bytes / self.bytes_per_s

    def step_ns(self, step: Step) -> float:
        """Arithmetic or memory, whichever takes longer, and the launch."""
        busy_s = max(step.flops / self.flops_per_s, step.bytes / self.bytes_per_s)
        return 1e9 * busy_s + self.launch_ns


def estimated(spec: DeviceSpec) -> Roofline:
    """From the facts of a sheet, which know units and clocks but neither lanes nor memory."""
    lanes = spec.float_width if spec.kind == "cpu" else _GPU_LANES
    peak = spec.compute_units * lanes * _OPERATIONS * 1e6 * (spec.clock_mhz or _CLOCK_MHZ)
    return Roofline(_REACHED * peak, peak * _BYTES_PER_FLOP, _LAUNCH_NS, "estimated")


class Shape(NamedTuple):
    """Launches of the same shape take the same time."""

    kernel: str
    defines: tuple[tuple[str, int | str], ...]
    scalars: tuple[tuple[str, int | float], ...]
    global_size: tuple[int, ...]
    sizes: tuple[int, ...]


def shape_of(step: Step) -> Shape:
    return Shape(step.kernel, step.defines, step.scalars, step.global_size,
                 tuple(o.value.size for o in step.operands))


def node_times_ns(steps: Sequence[Step], nodes: int, roofline: Roofline,
                  taken_ns: Mapping[Shape, float]) -> list[float]:
    """For each node the time of its launches: as taken, and of the roofline where none was."""
    times = [0.0] * nodes
    for step in steps:
        known = taken_ns.get(shape_of(step))
        times[step.node] += roofline.step_ns(step) if known is None else known
    return times


def moving_nodes(steps: Sequence[Step], roofline: Roofline) -> set[int]:
    """The nodes all of whose launches wait for memory: what those cost is well foretold, while a
    product's share of the peak depends on its shape."""
    return {s.node for s in steps} - {s.node for s in steps if not roofline.is_moving(s)}


def workspace_bytes(steps: Sequence[Step], nodes: int, known: set[int]) -> list[int]:
    """For each node the most that its launches need besides the values of the graph, `known`."""
    most = [0] * nodes
    for step in steps:
        own = {o.value.id: o.value.nbytes for o in step.operands if o.value.id not in known}
        most[step.node] = max(most[step.node], sum(own.values()))
    return most
