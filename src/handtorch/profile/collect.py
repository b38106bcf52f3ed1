"""What a recorder kept, as rows of a run: launches, steps and gaps on one clock."""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from handtorch.profile import gaps
from handtorch.profile.clocks import Ints, Placed, Stamps, place, resolution_ns
from handtorch.profile.gaps import Action, Command
from handtorch.profile.spared import of_program
from handtorch.program import Program
from handtorch.record import Clock, Gap, Launch, Sample, Step, Sync
from handtorch.record.row import Row
from handtorch.runtime.opencl.staging import Ports, spans
from handtorch.runtime.recorder import Call, Pass, Recorder, SyncPoint

HOST_CLOCK = "CLOCK_MONOTONIC"
DEVICE_CLOCK = "opencl"
QUEUE, HOST = "queue", "host"               # lanes
TRANSFER, FEEDING = "transfer", "host"      # phases besides those of nodes
_NO_WORK = "no rule for what a host does"
_NO_QUEUE = "an action of the host is in no queue"
# What the host does, as it is called in a row, and as the cause of a gap.
_CAUSES = {"check": gaps.STAGING, "slot": gaps.WAKE, "stage": gaps.STAGING,
           "enqueue": gaps.ENQUEUE, "wait": gaps.WAKE, "profile": gaps.PROFILER}


@dataclass(frozen=True)
class Subject:
    """What was profiled: its program, what it is called, and where it ran."""

    program: Program
    name: str
    kind: str                               # training or inference
    place: str
    ring: int


@dataclass(frozen=True)
class Work:
    """A host's action with its name; `call` is the index of the step it belongs to."""

    start_ns: int
    end_ns: int
    name: str
    call: int | None


def collected(recorder: Recorder, of: Subject) -> list[Row]:
    """Clocks, steps, launches, gaps and samples of all steps that were recorded.

    While recording is on, steps tile the time: each begins where the one before ended, the first
    with its call, and ends with its last command; the last when who waited for it had noticed."""
    calls = [c for c in recorder.calls if c.passes]
    passes = [(c, p) for c in calls for p in c.passes]
    stamps = _stamps(recorder, passes, of.ring)
    placed = place(stamps, recorder.syncs, resolution_ns(stamps, of.program.spec.timer_ns))
    host = _host(recorder, calls)
    rows: list[Row] = [Clock(name=HOST_CLOCK, offset_ns=0, error_ns=0, provenance="measured"),
                       *_clock(recorder.syncs, placed)]
    labels = _Labels(of.program)
    at, window_end = 0, None
    for i, call in enumerate(calls):
        count = sum(len(_times(p)) for p in call.passes)
        part = slice(at, at + count)
        at += count
        follows = i > 0 and calls[i - 1].stretch == call.stretch
        start = window_end if follows and window_end is not None else call.begin_ns
        window_end = max(start, int(placed.end[part].max(initial=start)))
        if i + 1 == len(calls) or calls[i + 1].stretch != call.stretch:
            window_end = max([window_end, *(end for _, end in call.waits)])
        rows += _step(of, i, call, (start, window_end), placed, part, host, labels)
    return rows


def _times(seen: Pass) -> Ints:
    assert seen.times is not None, "the recorder was not stopped"
    return seen.times


def _stamps(recorder: Recorder, passes: Sequence[tuple[Call, Pass]], ring: int) -> Stamps:
    """The device's times of all passes, and what the host knows of each: it ran after the batch was
    copied, and before somebody saw it done: who waited for it, or who took its place in the ring.
    """
    done = []
    for i, (call, seen) in enumerate(passes):
        known = [recorder.ends_ns[call.stretch], *([seen.seen_ns] if seen.seen_ns else [])]
        if i + ring < len(passes) and passes[i + ring][0].stretch == call.stretch:
            known.append(passes[i + ring][1].taken_ns)
        done.append(min(known))
    counts = [len(_times(p)) for _, p in passes]
    times = np.concatenate([np.zeros((0, 4), np.int64), *(_times(p) for _, p in passes)])
    queued, submit, start, end = times.T
    host = ([p.copied_ns for _, p in passes], [p.flushed_ns for _, p in passes], done)
    return Stamps(queued, submit, start, end,
                  *(np.repeat(np.array(stamps, np.int64), counts) for stamps in host))


def _host(recorder: Recorder, calls: Sequence[Call]) -> list[Work]:
    """All that the feeding thread did, in order. What took no time is left out."""
    found = [Work(a, b, "profile", None) for a, b in recorder.reads]
    for i, call in enumerate(calls):
        found.append(Work(call.begin_ns, call.passes[0].begin_ns, "check", i))
        for p in call.passes:
            found += [Work(p.begin_ns, p.taken_ns, "slot", i),
                      Work(p.taken_ns, p.copied_ns, "stage", i),
                      Work(p.copied_ns, p.flushed_ns, "enqueue", i)]
        found += [Work(a, b, "wait", i) for a, b in call.waits]
    return sorted((w for w in found if w.end_ns > w.start_ns), key=lambda w: w.start_ns)


def _clock(points: Sequence[SyncPoint], placed: Placed) -> Iterator[Row]:
    """The device's clock, with the worst error of any event placed by it, and its sync points."""
    good = [int(e) for e, why in zip(placed.error, placed.reason, strict=True) if not why]
    if not points:
        yield Clock(name=DEVICE_CLOCK, offset_ns=None, error_ns=None, provenance="measured",
                    offset_reason="the driver gave no time to compare with the host's")
        return
    last = points[-1]
    yield Clock(name=DEVICE_CLOCK, offset_ns=(last.low_ns + last.high_ns) // 2,
                error_ns=max(good, default=(last.high_ns - last.low_ns) // 2 + 1),
                provenance="measured")
    for p in points:
        middle = (p.low_ns + p.high_ns) // 2
        yield Sync(clock=DEVICE_CLOCK, device_ns=p.device_ns, monotonic_ns=p.device_ns + middle,
                   error_ns=p.high_ns - middle, kind=p.kind, provenance="measured")


def _step(of: Subject, number: int, call: Call, window: tuple[int, int], placed: Placed,
          part: slice, host: Sequence[Work], labels: _Labels) -> Iterator[Row]:
    yield Step(id=number, place=of.place, subject=of.name, number=call.number, kind=of.kind,
               clock=HOST_CLOCK, start_ns=window[0], end_ns=window[1], provenance="measured")
    handed = _handed(call, placed, part)
    told = [label for i, p in enumerate(call.passes) for label in labels.of(p, i)]
    ours = [w for w in host if w.call == number]
    numbers = itertools.count(len(of.program.steps) * len(call.passes))
    for label, i in zip(told, range(part.start, part.stop), strict=True):
        yield _launch(number, next(numbers) if label["number"] is None else label["number"],
                      label, placed, i)
    for work in ours:
        yield _action(number, next(numbers), work)
    commands = [Command(int(placed.start[i]), int(placed.end[i]), h)
                for i, h in zip(range(part.start, part.stop), handed, strict=True)]
    near = _near(host, window)
    for n, idle in enumerate(gaps.gaps(window, commands, near)):
        yield Gap(step=number, number=n, cause=idle.cause, clock=HOST_CLOCK,
                  start_ns=idle.start_ns, end_ns=idle.end_ns, provenance="measured")
    yield Sample(time_ns=call.end_ns, clock=HOST_CLOCK, meter="process", quantity="process_cpu_s",
                 value=call.cpu_ns / 1e9, provenance="measured")


def _near(host: Sequence[Work], window: tuple[int, int]) -> list[Action]:
    """The host's actions that meet the window. One thread does one thing at a time, so that ends
    are in order too."""
    first = bisect_right(host, window[0], key=lambda w: w.end_ns)
    last = bisect_right(host, window[1], key=lambda w: w.start_ns)
    return [Action(w.start_ns, w.end_ns, _CAUSES[w.name]) for w in host[first:last]]


def _handed(call: Call, placed: Placed, part: slice) -> list[int | None]:
    """When each command was the driver's to start: SUBMIT, but not before QUEUED, and not after
    the host had flushed the queue; None where the driver's times mean nothing."""
    flushed = np.repeat(np.array([p.flushed_ns for p in call.passes], np.int64),
                        [len(_times(p)) for p in call.passes])
    queued, submit = placed.queued[part], placed.submit[part]
    handed = np.clip(submit, queued, np.maximum(queued, flushed))
    return [None if why else int(t)
            for t, why in zip(handed, placed.reason[part], strict=True)]


class _Labels:
    """What each event of a pass is; the same for every pass, so it is worked out once."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._known: dict[tuple[int, ...], list[dict[str, Any]]] = {}
        self._spared = of_program(program)

    def of(self, seen: Pass, turn: int) -> list[dict[str, Any]]:
        """In the order in which they were enqueued. A launch has the number of its place in the
        program; those of a second micro-batch come behind all of the first."""
        key = (turn, seen.unmaps, seen.launches, len(_times(seen)))
        if key not in self._known:
            self._known[key] = list(self._made(*key))
        return self._known[key]

    def _made(self, turn: int, unmaps: int, launches: int, events: int
              ) -> Iterator[dict[str, Any]]:
        program = self._program
        ins, outs = ([b - a for a, b in spans(_ports(program, ports))]
                     for ports in (program.graph.inputs, program.graph.outputs))
        yield from _moves("unmap", unmaps, [*ins, *(0 for _ in outs)])
        for i, step in enumerate(program.steps[:launches]):
            node = program.node_of(step)
            yield {"number": turn * len(program.steps) + i, "kernel": step.kernel, "op": node.op,
                   "layer": node.layer, "phase": node.phase,
                   "source_line": str(node.where or ""), "node": str(step.node),
                   "flops": step.flops, "moved_bytes": step.bytes,
                   "spared_bytes": self._spared[i], "spared_reason": ""}
        yield from _moves("map", events - unmaps - launches, [*(0 for _ in ins), *outs])


def _ports(program: Program, ports: Sequence[Any]) -> Ports:
    return [(p.value, program.plan.places[p.value.id].offset_bytes) for p in ports]


def _moves(kernel: str, count: int, moved: Sequence[int]) -> Iterator[dict[str, Any]]:
    """A batch crosses when its place is unmapped, results when theirs is mapped."""
    known = len(moved) == count
    for i in range(count):
        yield {"number": None, "kernel": kernel, "op": kernel, "layer": "", "phase": TRANSFER,
               "source_line": "", "node": "", "flops": 0 if known else None,
               "moved_bytes": moved[i] if known else None,
               "work_reason": "" if known else "it is not known which region this is"}


def _launch(step: int, number: int, label: dict[str, Any], placed: Placed, i: int) -> Launch:
    why = placed.reason[i]
    return Launch(**label | {"number": number}, step=step, clock=HOST_CLOCK,
                  queued_ns=None if why else int(placed.queued[i]),
                  submit_ns=None if why else int(placed.submit[i]),
                  start_ns=int(placed.start[i]), end_ns=int(placed.end[i]), times_reason=why,
                  lane=QUEUE, quality="bounded" if why else "stamped",
                  error_ns=int(placed.error[i]), provenance="measured")


def _action(step: int, number: int, work: Work) -> Launch:
    phase = TRANSFER if work.name == "stage" else FEEDING
    return Launch(step=step, number=number, kernel=work.name, op=work.name, phase=phase,
                  clock=HOST_CLOCK, queued_ns=None, submit_ns=None, start_ns=work.start_ns,
                  end_ns=work.end_ns, times_reason=_NO_QUEUE, flops=None, moved_bytes=None,
                  work_reason=_NO_WORK, lane=HOST, provenance="measured")
