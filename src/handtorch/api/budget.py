"""A step made to fit into so many bytes: what is traded for them, and what that costs.

The budget counts what the device holds for the step: the arena with weights and optimizer state,
and the ring through which batches enter and results leave."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from handtorch.errors import BadInput, OutOfMemory
from handtorch.graph.device_spec import DeviceSpec
from handtorch.graph.node import Graph
from handtorch.passes.recompute import recompute
from handtorch.passes.tape import Tape
from handtorch.passes.trade import Trade, least, trade
from handtorch.pipeline import finished, prepared, spared, tape_of
from handtorch.plan.cost import Roofline, Shape, estimated, node_times_ns
from handtorch.plan.plan import Plan
from handtorch.program import Program
from handtorch.runtime.opencl.resident import RING

# Times single launches of a program that fits on the device; None where there is no device.
Clock = Callable[[Program], Mapping[Shape, float]]

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
    without budget; `whole_bytes` is what that would hold.

    >>> small = ht.train_step(model, loss_fn, optimizer, example=(x, y), memory="1MiB")
    >>> small.fitted.held_bytes <= small.fitted.memory_bytes
    True
    """

    program: Program
    memory_bytes: int
    whole_bytes: int
    slow_down: float
    times: str
    again: tuple[tuple[str, int, int], ...]         # op, how often, bytes freed
    parts: int = 1                                  # micro-batches that the budget asked for

    @property
    def held_bytes(self) -> int:
        """What the device holds for the step: the arena and the staging ring.

        >>> small = ht.train_step(model, loss_fn, optimizer, example=(x, y), memory="1MiB")
        >>> small.fitted.held_bytes < 2**20
        True
        """
        return device_bytes(self.program.plan)

    def text(self) -> str:
        """What was traded for the budget, in words; part of `print(step)`.

        >>> small = ht.train_step(model, loss_fn, optimizer, example=(x, y), memory="1MiB")
        >>> print(small.fitted.text())
        budget 1,048,576 bytes: the step holds ..., arena and staging; nothing was traded
        """
        head = (f"budget {self.memory_bytes:,} bytes: the step holds {self.held_bytes:,}, arena "
                f"and staging")
        if not self.again and self.parts == 1:
            return f"{head}; nothing was traded"
        told = f"predicted slow-down {self.slow_down:.2f} (times {self.times})"
        told += f", {self.parts} micro-batches" if self.parts > 1 else ""
        lines = [f"{head}; without a budget {self.whole_bytes:,}",
                 f"{told}, made again instead of kept:" if self.again else told]
        lines += [f"  {nbytes:>14,}  {count} x {op}" for op, count, nbytes in self.again]
        return "\n".join(lines)


class Fitting:
    """One captured step and all that is asked of it: the whole program, a smaller one, the least.

    Only the clock runs anything, and nothing larger than one launch."""

    def __init__(self, graph: Graph, spec: DeviceSpec, clock: Clock | None = None,
                 roofline: Roofline | None = None) -> None:
        self._spec, self._clock = spec, clock
        self._roofline = roofline or estimated(spec)
        self._keeping = finished(prepared(graph), spec)     # every value; budgets begin here
        self.whole = spared(self._keeping)
        self._taken: dict[Shape, float] = {}
        self._tape: Tape | None = None
        self._least: Fitted | None = None           # by that tape

    @property
    def tape(self) -> Tape:
        if self._tape is None:
            self._tape = tape_of(self._keeping, self._roofline, self._taken)
        return self._tape

    def fits(self, memory_bytes: int) -> bool:
        """Whether there is a program that holds no more."""
        return (device_bytes(self.whole.plan) <= memory_bytes
                or self._cheapest(memory_bytes) is not None)

    def within(self, memory_bytes: int) -> Fitted | None:
        """The cheapest program we find that holds no more; None where there is none.

        One is found with estimated times; its launches are timed, and the search is made again."""
        if device_bytes(self.whole.plan) <= memory_bytes:
            return self._fitted(self.whole, memory_bytes, None)
        found = self._cheapest(memory_bytes)
        if found is None or self._clock is None:
            return found
        if not self._taken:
            self._taken, self._tape, self._least = dict(self._clock(found.program)), None, None
            found = self._cheapest(memory_bytes) or found
        return self.timed(found)

    def timed(self, found: Fitted) -> Fitted:
        """With the slow-down by times of its launches, where there is a clock."""
        return found if self._clock is None else replace(
            found, slow_down=self._slow_down(found.program, self._clock), times="measured")

    def _cheapest(self, memory_bytes: int) -> Fitted | None:
        """The least of all takes another way down, which takes a while to find: only where there
        is no other."""
        found = self._searched(memory_bytes)
        if found is not None:
            return found
        other = replace(self.least(), memory_bytes=memory_bytes)
        return other if other.held_bytes <= memory_bytes else None

    def _slow_down(self, program: Program, clock: Clock) -> float:
        """From times of all launches of both: the second search may have chosen other kinds than
        were timed for the first, or none."""
        for one in (self.whole, program):
            self._taken.update(clock(one))
        whole, smaller = (sum(node_times_ns(p.steps, len(p.graph.nodes), estimated(self._spec),
                                            self._taken)) for p in (self.whole, program))
        return smaller / whole

    def _searched(self, memory_bytes: int) -> Fitted | None:
        plan = self._keeping.plan
        target = memory_bytes - (device_bytes(plan) - plan.peak_bytes)
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
        if self._least is None:
            found = least(self.tape)
            program = finished(recompute(self.tape, found.drops), self._spec)
            self._least = self._fitted(program, device_bytes(program.plan), found)
        return self._least

    def _fitted(self, program: Program, memory_bytes: int, found: Trade | None) -> Fitted:
        whole = device_bytes(self.whole.plan)
        times = "measured" if self._taken else "estimated"
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
        usual = sum(node_times_ns(self.whole.steps, len(self.whole.graph.nodes), self._roofline,
                                  self._taken))
        return Fitted(program, memory_bytes, whole, found.time_ns / usual, times, again)


@dataclass(frozen=True)
class Sized:
    """A step that can be captured for any number of rows up to `most`."""

    capture: Callable[[int], Graph]
    rows: int
    most: int

    def largest(self, memory_bytes: int, spec: DeviceSpec) -> int:
        """The most rows found to fit: foretold from the least of two sizes, since bytes grow with
        rows in a straight line, and then tried; 0 if not even one does."""
        known = {n: held for n in (self.rows // 2, self.rows, 2 * self.rows)
                 if 1 <= n <= max(self.most, self.rows)
                 and (held := self._least_bytes(n, spec)) is not None}
        if len(known) < 2:
            return self._down(self.rows // 2, memory_bytes, spec)
        (a, low), *_, (b, high) = sorted(known.items())
        each = (high - low) / (b - a)
        rows = b + int((memory_bytes - high) / each) if each > 0 else self.most
        rows = min(rows, self.most)
        found = self._down(rows, memory_bytes, spec)
        while found == rows < self.most and self._fits(rows + 1, memory_bytes, spec):
            found = rows = rows + 1
        return found

    def _down(self, rows: int, memory_bytes: int, spec: DeviceSpec) -> int:
        """The first that fits, going down: by one, or by a part where there are many."""
        while rows >= 1 and not self._fits(rows, memory_bytes, spec):
            rows -= max(1, rows // 32)
        return max(rows, 0)

    def _fits(self, rows: int, memory_bytes: int, spec: DeviceSpec) -> bool:
        try:
            return Fitting(self.capture(rows), spec).fits(memory_bytes)
        except OutOfMemory:                         # one tensor is too large for the device
            return False

    def _least_bytes(self, rows: int, spec: DeviceSpec) -> int | None:
        try:
            return Fitting(self.capture(rows), spec).least().held_bytes
        except OutOfMemory:
            return None


def alive(program: Program, shown: int = 3) -> str:
    """The largest values at the peak that do not last, in words."""
    values = {v.id: v for v in program.graph.values()}
    lasting = {s.before.id for s in program.graph.states}
    maker = {v.id: n for n in program.graph.nodes for v in n.outputs}
    found = sorted((values[k] for k in program.plan.alive_at_peak
                    if k in values and k not in lasting), key=lambda v: (-v.nbytes, v.id))
    return ", ".join(f"{v.nbytes:,} of {maker[v.id].op} in {maker[v.id].layer or 'the step'}"
                     for v in found[:shown] if v.id in maker)
