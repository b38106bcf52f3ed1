"""Operations run one after the other by hand, with a copy or a wait planted at each, recorded as
the profiler records steps: what the profiler's own replay never does can be seen here."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from handtorch.dtypes import dtype
from handtorch.graph.node import Graph, Value
from handtorch.graph.step import Step as Planned
from handtorch.kernels.render import render, step_instance
from handtorch.profile import gaps
from handtorch.profile.clocks import Placed, Stamps, place, resolution_ns
from handtorch.profile.gaps import Action, Command
from handtorch.profile.peaks import peak_rows
from handtorch.profile.rows import as_run
from handtorch.profile.spared import Region, spared_bytes
from handtorch.record import Clock, Gap, Launch, Run, RunInfo, Step
from handtorch.record.row import Row
from handtorch.runtime.opencl.context import OpenCLContext
from handtorch.runtime.opencl.setting import setting_rows
from handtorch.runtime.opencl.sync import comparer, read_times
from handtorch.studies.backprop_one_op import Op

CLOCK = "CLOCK_MONOTONIC"
now = time.monotonic_ns


@dataclass
class Done:
    """A command: what it is, when the host called and had enqueued it, its event."""

    op: Op
    step: Planned | None                    # None: a copy
    nbytes: int
    called_ns: int
    enqueued_ns: int
    event: Any


@dataclass
class Recorded:
    begin_ns: int
    end_ns: int
    done: list[Done]
    actions: list[Action]
    waits: list[tuple[int, int]]


class ByHand:
    """The ops of a graph, each value in a buffer of its own.

    `copies`: operands are written and results read by blocking calls around each op. `waits`: the
    host waits after each op. With neither, there is one wait, at the end of a step."""

    def __init__(self, on: OpenCLContext, graph: Graph, ops: Sequence[Op], *, copies: bool = False,
                 waits: bool = False) -> None:
        self._on, self._ops, self._copies, self._waits = on, ops, copies, waits
        self._buffers: dict[int, Any] = {}
        self._host = {v.id: np.ones(v.shape, dtype(v.dtype).numpy) for v in graph.values()}
        program = on.build(render([s for op in ops for s in op.steps]))
        self._calls = [(op, [self._call(op, s, program) for s in op.steps]) for op in ops]
        self._steps: list[Recorded] = []
        self._sync = comparer(on)
        self._points = self._sync(True)

    def _buffer(self, op: Op, value: Value) -> Any:
        value = {a.new.id: a.old for a in op.aliases}.get(value.id, value)
        if value.id not in self._buffers:
            self._buffers[value.id] = self._on.buffer(value.nbytes)
            filled = np.zeros(max(value.nbytes, 4), np.uint8)
            self._on.cl.enqueue_copy(self._on.queue, self._buffers[value.id],
                                     filled[:value.nbytes])
        return self._buffers[value.id]

    def _call(self, op: Op, step: Planned, program: Any) -> tuple[Planned, Any]:
        kernel = self._on.cl.Kernel(program, step_instance(step))
        self._on.set_arguments(kernel, step, [(self._buffer(op, o.value), 0)
                                              for o in step.operands])
        return step, kernel

    def step(self, *, record: bool = True) -> None:
        """All ops once; afterwards they are done."""
        self._on.queue.finish()
        seen = Recorded(now(), 0, [], [], [])
        queue, cl = self._on.timed_queue, self._on.cl
        for op, launches in self._calls:
            if self._copies and launches:
                for value in dict.fromkeys(op.node.inputs):
                    self._copy(seen, op, value, into=True)
            for step, kernel in launches:
                at = now()
                event = cl.enqueue_nd_range_kernel(queue, kernel, step.global_size,
                                                   step.local_size)
                seen.actions.append(Action(at, now(), gaps.ENQUEUE))
                seen.done.append(Done(op, step, step.bytes, *seen.actions[-1][:2], event))
            if self._copies and launches:
                for value in op.node.outputs:
                    self._copy(seen, op, value, into=False)
            if self._waits and launches:
                self._wait(seen)
        self._wait(seen)
        seen.end_ns = now()
        if record:
            self._steps.append(seen)

    def _copy(self, seen: Recorded, op: Op, value: Value, *, into: bool) -> None:
        buffer, array, at = self._buffer(op, value), self._host[value.id], now()
        given = (buffer, array) if into else (array, buffer)
        event = self._on.cl.enqueue_copy(self._on.timed_queue, *given, is_blocking=True)
        seen.actions.append(Action(at, now(), gaps.WAKE))
        seen.done.append(Done(op, None, value.nbytes, *seen.actions[-1][:2], event))

    def _wait(self, seen: Recorded) -> None:
        at = now()
        self._on.timed_queue.finish()
        seen.actions.append(Action(at, now(), gaps.WAKE))
        seen.waits.append((at, now()))

    def run(self, subject: str) -> Run:
        """What was recorded, with the device's peaks and without the machine's other load."""
        placed = self._placed()
        label = self._on.found.label
        rows: list[Row] = [*setting_rows(self._on.found, "not run"),
                           Clock(name=CLOCK, offset_ns=0, error_ns=0, provenance="measured")]
        at, reached = 0, self._steps[0].begin_ns
        for number, seen in enumerate(self._steps):
            part = slice(at, at + len(seen.done))
            at = part.stop
            window = reached, max(reached, int(placed.end[part].max()))
            reached = window[1]
            rows.append(Step(id=number, place=label, subject=subject, number=number, clock=CLOCK,
                             kind="training", start_ns=window[0], end_ns=window[1],
                             provenance="measured"))
            rows += _rows(number, seen, placed, part, window)
        rows += peak_rows(self._on, "profile", label)
        return as_run(RunInfo(id="1", command="by hand", started_utc=""), rows)

    def _placed(self) -> Placed:
        self._points += self._sync(True)
        done = [d for s in self._steps for d in s.done]
        queued, submit, start, end = read_times(self._on, [d.event for d in done]).T
        stamps = Stamps(queued, submit, start, end,
                        np.array([d.called_ns for d in done], np.int64),
                        np.array([d.enqueued_ns for d in done], np.int64),
                        np.array([s.end_ns for s in self._steps for _ in s.done], np.int64))
        return place(stamps, self._points, resolution_ns(stamps, self._on.spec.timer_ns))


def _spared(done: Sequence[Done]) -> list[int]:
    """Each value is a piece of memory of its own, and none is kept."""
    touched = []
    for d in done:
        old = {a.new.id: a.old for a in d.op.aliases}
        touched.append([] if d.step is None else [
            Region(old.get(o.value.id, o.value).id, 0, o.value.nbytes, o.reads, o.writes)
            for o in d.step.operands])
    return spared_bytes(touched)


def _rows(number: int, seen: Recorded, placed: Placed, part: slice, window: tuple[int, int]
          ) -> Iterator[Row]:
    commands, spared = [], _spared(seen.done)
    for i, (done, k) in enumerate(zip(seen.done, range(part.start, part.stop), strict=True)):
        start, end = int(placed.start[k]), int(placed.end[k])
        handed = max(int(placed.submit[k]), done.called_ns) if not placed.reason[k] else None
        commands.append(Command(start, end, handed))
        node = done.op.node
        yield Launch(
            step=number, number=i, kernel=done.step.kernel if done.step else "copy",
            op=node.op if done.step else "copy", layer=node.layer,
            phase=node.phase if done.step else "transfer", source_line=str(node.where or ""),
            clock=CLOCK, queued_ns=None if placed.reason[k] else int(placed.queued[k]),
            submit_ns=None if placed.reason[k] else int(placed.submit[k]), start_ns=start,
            end_ns=end, times_reason=placed.reason[k], flops=done.step.flops if done.step else 0,
            moved_bytes=done.nbytes, provenance="measured", node=str(i),
            spared_bytes=spared[i], spared_reason="",
            quality="bounded" if placed.reason[k] else "stamped", error_ns=int(placed.error[k]))
    for i, (start, end) in enumerate(seen.waits, len(seen.done)):
        yield Launch(step=number, number=i, kernel="wait", op="wait", phase="host", clock=CLOCK,
                     queued_ns=None, submit_ns=None, start_ns=start, end_ns=end,
                     times_reason="no queue", flops=None, moved_bytes=None, work_reason="no rule",
                     provenance="measured", lane="host")
    for i, idle in enumerate(gaps.gaps(window, commands, seen.actions)):
        yield Gap(step=number, number=i, cause=idle.cause, clock=CLOCK, start_ns=idle.start_ns,
                  end_ns=idle.end_ns, provenance="measured")
