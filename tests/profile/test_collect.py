"""A recorder filled by hand: what becomes of times that a driver garbled, and of the host's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from handtorch.graph.device_spec import GENERIC
from handtorch.pipeline import compile_graph
from handtorch.profile.collect import Subject, collected
from handtorch.program import Program
from handtorch.record import Clock, Gap, Launch, Sample, Step, Sync
from handtorch.runtime.recorder import Call, Pass, Recorder, SyncPoint
from tests.runtime.opencl.mlp import mlp

OFFSET = 1_000_000


@pytest.fixture(scope="module")
def program() -> Program:
    return compile_graph(mlp().graph, GENERIC)


def recorder(program: Program, steps: int, waits: bool = True) -> Recorder:
    """Steps of 10 us a launch with 2 us between; the host's clock is a millisecond ahead."""
    made = Recorder(read=lambda e: np.zeros((0, 4)), sync=lambda idle: [], finish=lambda: None,
                    ring=3)
    now = 5_000_000
    for number in range(steps):
        call = Call(number, 0, now)
        events = 4 + len(program.steps)
        seen = Pass(now + 1000, taken_ns=now + 2000, copied_ns=now + 5000, flushed_ns=now + 20_000,
                    unmaps=2, launches=len(program.steps))
        start = now + 8000 - OFFSET + 12_000 * np.arange(events) + np.arange(events) % 3
        queued = np.minimum(now + 6000 + 100 * np.arange(events), now + 19_000) - OFFSET
        seen.times = np.stack([queued, queued, start, start + 10_000], axis=1)
        call.passes.append(seen)
        now = int(start[-1]) + 10_000 + OFFSET + 3000
        if waits:
            seen.seen_ns = now
            call.waits.append((call.begin_ns + 21_000, now))
        call.end_ns, call.cpu_ns = call.begin_ns + 20_500, 7_000_000_000 + number
        now += 40_000                                       # the caller thinks
        made.calls.append(call)
    made.ends_ns.append(now)
    made.syncs += [SyncPoint(10, OFFSET - 50, OFFSET + 50, "timer"),
                   SyncPoint(now - OFFSET, OFFSET - 50, OFFSET + 50, "timer")]
    return made


def rows(made: Recorder, program: Program, kind: type[Any]) -> list[Any]:
    of = Subject(program, "mlp", "training", "here", 3)
    return [r for r in collected(made, of) if isinstance(r, kind)]


def test_steps_tile_the_time_and_gaps_have_their_causes(program: Program) -> None:
    made = recorder(program, 3)
    first, second, third = rows(made, program, Step)
    assert first.start_ns == made.calls[0].begin_ns
    assert (first.end_ns, second.end_ns) == (second.start_ns, third.start_ns)
    assert third.end_ns == made.calls[2].waits[0][1]        # the host had noticed
    idle: dict[str, int] = {}
    for gap in rows(made, program, Gap):
        if gap.step == 1:
            idle[gap.cause] = idle.get(gap.cause, 0) + gap.end_ns - gap.start_ns
    commands = 4 + len(program.steps)
    # Waking up 3 us, the caller 40, checks and copies 5 of which a wait for the ring 1, enqueuing
    # until the first command was handed over 1, and 2 us before each command that was.
    known = {"wake": 4000, "input": 40_000, "staging": 4000, "enqueue": 1000,
             "launch": 2000 * commands}
    assert {c: pytest.approx(n, abs=60) for c, n in known.items()} == idle


def test_events_lie_on_the_hosts_clock_within_the_bound(program: Program) -> None:
    made = recorder(program, 2)
    launches = [la for la in rows(made, program, Launch) if la.lane == "queue" and la.step == 0]
    times = made.calls[0].passes[0].times
    assert times is not None
    for la, (queued, _, start, end) in zip(launches, times + OFFSET, strict=True):
        assert abs(la.start_ns - start) <= la.error_ns and la.end_ns - la.start_ns == end - start
        assert la.queued_ns - la.start_ns == queued - start
        assert la.error_ns < 100 and la.quality == "stamped"
    clock = next(c for c in rows(made, program, Clock) if c.name == "opencl")
    assert clock.offset_ns == OFFSET and clock.error_ns == max(la.error_ns for la in launches)
    assert [(s.device_ns, s.error_ns) for s in rows(made, program, Sync)[:1]] == [(10, 50)]
    assert [s.value for s in rows(made, program, Sample)] == [7.0, 7.000000001]


def test_start_after_end_is_flagged_and_bounded(program: Program) -> None:
    made = recorder(program, 2)
    times = made.calls[0].passes[0].times
    assert times is not None
    times[3, 2:] = times[3, 3], times[3, 2]
    before, bad, after = [la for la in rows(made, program, Launch) if la.lane == "queue"][2:5]
    assert bad.quality == "bounded" and bad.times_reason == "the driver gave START after END"
    assert (bad.start_ns, bad.end_ns) == (before.end_ns, after.start_ns)
    assert bad.queued_ns is None
    assert before.quality == after.quality == "stamped"


def test_without_a_clock_to_follow_everything_is_bounded_by_the_host(program: Program) -> None:
    made = recorder(program, 1)
    made.syncs.clear()
    launches = [la for la in rows(made, program, Launch) if la.lane == "queue"]
    assert {la.quality for la in launches} == {"bounded"}
    (clock,) = (c for c in rows(made, program, Clock) if c.name == "opencl")
    assert clock.offset_ns is None
    (step,) = rows(made, program, Step)
    assert step.end_ns == made.calls[0].waits[0][1]


def test_actions_of_the_host_are_rows_too(program: Program) -> None:
    host = [la for la in rows(recorder(program, 1), program, Launch) if la.lane == "host"]
    assert [(la.kernel, la.phase) for la in host] == [
        ("check", "host"), ("slot", "host"), ("stage", "transfer"), ("enqueue", "host"),
        ("wait", "host")]
    assert all(la.flops is None and la.queued_ns is None and la.error_ns == 0 for la in host)


def test_nothing_recorded(program: Program) -> None:
    made = recorder(program, 0)
    assert rows(made, program, Step) == []
