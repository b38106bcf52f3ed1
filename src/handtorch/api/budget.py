"""A step made to fit into so many bytes: what is traded for them, and what that costs.

The budget counts what the device holds for the step: the arena with weights and optimizer state,
and the ring through which batches enter and results leave."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from handtorch.errors import BadInput, OutOfMemory
from handtorch.graph.device_spec import DeviceSpec
from handtorch.graph.node import Graph
from handtorch.graph.step import Step
from handtorch.passes.recompute import recompute
from handtorch.passes.tape import Tape, make_tape
from handtorch.passes.trade import Trade, least, trade
from handtorch.pipeline import finished, prepared
from handtorch.plan.cost import Roofline, Shape, estimated, node_times_ns, workspace_bytes
from handtorch.plan.plan import Plan
from handtorch.program import Program
from handtorch.runtime.opencl.resident import RING

Clock = Callable[[Sequence[Step]], Mapping[Shape, float]]

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9,
          "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}
_ROUNDS = 8                      # plans tried with ever less room until one fits


def as_bytes(given: Any) -> int:
    """`2GiB`, `1.5 GB`, `512MiB`, or a number of bytes."""
    if isinstance(given, int) and not isinstance(given, bool) and given > 0:
        return given
    if isinstance(given, str):
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", given)
        if found and found[2].upper() in _UNITS and float(found[1]) > 0:
            return int(float(found[1]) * _UNITS[found[2].upper()])
    raise BadInput(f"memory={given!r}", why="a budget is a number of bytes",
                   fix="memory='2GiB', '512MiB', '1.5GB', or an int")


def device_bytes(plan: Plan) -> int:
    """What a device holds for a step: the arena and the staging ring."""
    return plan.peak_bytes + RING * (plan.staging_in_bytes + plan.staging_out_bytes)


@dataclass(frozen=True)
class Fitted:
    """A program within a budget. `slow_down` is predicted: the time of a step to that of one
    without budget; `whole_bytes` is what that would hold."""

    program: Program
    memory_bytes: int
    whole_bytes: int
    slow_down: float
    times: str
    again: tuple[tuple[str, int, int], ...]         # op, how often, bytes freed

    @property
    def held_bytes(self) -> int:
        return device_bytes(self.program.plan)

    def text(self) -> str:
        head = (f"budget {self.memory_bytes:,} bytes: the step holds {self.held_bytes:,}, arena "
                f"and staging")
        if not self.again:
            return f"{head}; nothing was traded"
        lines = [f"{head}; without a budget {self.whole_bytes:,}",
                 f"predicted slow-down {self.slow_down:.2f} (times {self.times}), made again "
                 "instead of kept:"]
        lines += [f"  {nbytes:>14,}  {count} x {op}" for op, count, nbytes in self.again]
        return "\\n".join(lines)


class Fitting:
    """One captured step and all that is asked of it: the whole program, a smaller one, the least.

    Nothing runs here; `clock` may time single launches on the device, once."""

    def __init__(self, graph: Graph, spec: DeviceSpec, clock: Clock | None = None) -> None:
        self._spec, self._clock = spec, clock
        self.whole = finished(prepared(graph), spec)
        self._tape: Tape | None = None

    @property
    def tape(self) -> Tape:
        if self._tape is None:
            program, nodes = self.whole, len(self.whole.graph.nodes)
            taken = self._clock(program.steps) if self._clock else {}
            times = node_times_ns(program.steps, nodes, self.roofline, taken)
            known = {v.id for v in program.graph.values()}
            self._tape = make_tape(program.graph, times,
                                   workspace_bytes(program.steps, nodes, known))
        return self._tape

    @property
    def roofline(self) -> Roofline:
        return estimated(self._spec)

    def within(self, memory_bytes: int) -> Fitted | None:
        """The cheapest program we find that holds no more; None where there is none."""
        if device_bytes(self.whole.plan) <= memory_bytes:
            return self._fitted(self.whole, memory_bytes, None)
        target = memory_bytes - (device_bytes(self.whole.plan) - self.whole.plan.peak_bytes)
        for _ in range(_ROUNDS):
            if target <= 0:
                return None
            found = trade(self.tape, target)
            if not found.fits:
                return None
            program = finished(recompute(self.tape, found.drops), self._spec)
            if (over := device_bytes(program.plan) - memory_bytes) <= 0:
                return self._fitted(program, memory_bytes, found)
            target = min(target, found.peak_bytes) - over
        return None

    def least(self) -> Fitted:
        """The smallest program the search comes down to."""
        found = least(self.tape)
        program = finished(recompute(self.tape, found.drops), self._spec)
        return self._fitted(program, device_bytes(program.plan), found)

    def _fitted(self, program: Program, memory_bytes: int, found: Trade | None) -> Fitted:
        whole = device_bytes(self.whole.plan)
        times = "measured" if self._clock else "estimated"
        if found is None:
            return Fitted(program, memory_bytes, whole, 1.0, times, ())
        count, freed = Counter[str](), Counter[str]()
        for root, drops in found.drops.items():
            for drop in drops:
                op = self.tape.graph.nodes[drop.way.row].op
                op = f"slice of a {op}" if drop.way.part else op
                count[op] += 1
                freed[op] += self.tape.nbytes[root]
        again = tuple((op, count[op], nbytes) for op, nbytes in freed.most_common())
        return Fitted(program, memory_bytes, whole, found.time_ns / self.tape.time_ns, times,
                      again)


def fit(graph: Graph, spec: DeviceSpec, memory_bytes: int, clock: Clock | None = None) -> Fitted:
    """The captured step within the budget; refuses, with the least it needs, what cannot be."""
    fitting = Fitting(graph, spec, clock)
    found = fitting.within(memory_bytes)
    if found is not None:
        return found
    lowest = fitting.least()
    raise OutOfMemory(
        f"a step within {memory_bytes:,} bytes",
        why=f"it holds {device_bytes(fitting.whole.plan):,}, and {lowest.held_bytes:,} with all "
            f"made again that can be, of which {lowest.program.plan.lasting_bytes:,} are weights "
            "and what lasts beside them",
        fix="a smaller batch, or more memory")
