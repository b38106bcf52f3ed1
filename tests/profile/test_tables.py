from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from handtorch.profile.columns import table
from handtorch.profile.group import groups
from handtorch.profile.tables import text
from handtorch.record import Clock, Gap, Launch, Memory, Place, Result, Run, RunInfo, Step

INFO = RunInfo(id="1", command="x", started_utc="2026-01-01T00:00:00+00:00", duration_ns=1,
               status="complete")


def launch(step: int, number: int, kernel: str, start: int, end: int, **more: Any) -> Launch:
    given = {"lane": "queue", "phase": "forward", "layer": "fc", "flops": 4_000_000,
             "moved_bytes": 2_000_000, "queued_ns": start, "submit_ns": start} | more
    return Launch(step=step, number=number, kernel=kernel, op=kernel, clock="host",
                  start_ns=start, end_ns=end, provenance="measured", **given)


def result(name: str, value: float | None, unit: str, **more: Any) -> Result:
    return Result(**{"study": "profile", "name": name, "subject": "net b8", "place": "gpu",
                     "value": value, "unit": unit, "better": "lower", "repeats": 2,
                     "spread": 0.5, "provenance": "measured"} | more)


def run() -> Run:
    """Two steps of 10 ms: two launches that overlap, a transfer, and what the host did."""
    ms = 1_000_000
    host = {"lane": "host", "queued_ns": None, "submit_ns": None, "times_reason": "no queue",
            "flops": None, "moved_bytes": None, "work_reason": "no rule"}
    launches = []
    for i in range(2):
        at = 10 * ms * i
        launches += [
            launch(i, 0, "gemm", at + 1 * ms, at + 5 * ms),
            launch(i, 1, "relu", at + 4 * ms, at + 7 * ms, layer="act", phase="backward",
                   flops=0),
            launch(i, 2, "map", at + 9 * ms, at + 10 * ms, layer="", phase="transfer", flops=0,
                   moved_bytes=0, **({"quality": "bounded", "queued_ns": None, "submit_ns": None,
                                      "times_reason": "START after END"} if i else {})),
            launch(i, 3, "enqueue", at, at + 9 * ms, **host)]
    gaps = [Gap(step=i, number=n, cause=cause, clock="host", start_ns=10 * ms * i + a * ms,
                end_ns=10 * ms * i + b * ms, provenance="measured")
            for i in range(2) for n, (cause, a, b) in enumerate(
                (("staging", 0, 1), ("launch", 7, 9)))]
    memory = [Memory(place="gpu", subject="net b8", moment="peak", role=role, bytes=n,
                     provenance="measured")
              for role, n in (("workspace", 1000), ("parameters", 3000))]
    return Run(
        info=INFO, places=(Place(name="gpu", kind="cloud", cores=""),),
        clocks=(Clock(name="host", offset_ns=0, error_ns=0, provenance="measured"),
                Clock(name="opencl", offset_ns=9, error_ns=2500, provenance="measured")),
        steps=tuple(Step(id=i, place="gpu", subject="net b8", number=i, kind="training",
                         clock="host", start_ns=10 * ms * i, end_ns=10 * ms * (i + 1),
                         provenance="measured") for i in range(2)),
        launches=tuple(launches), gaps=tuple(gaps),
        memory=(*memory, Memory(place="gpu", subject="net b8", moment="process peak",
                                role="process", bytes=9000, provenance="measured")),
        results=(result("step time", 10.0, "ms"), result("throughput", 800.0, "samples/s"),
                 result("overhead", 0.51, "%", low=-0.2, high=1.3, bounds="95 % interval",
                        repeats=20),
                 result("arithmetic peak", 2e11, "FLOP/s", subject="GPU"),
                 result("memory peak", 2e10, "B/s", subject="GPU"),
                 result("launch time", 1500.0, "ns", subject="GPU")))


TOLD = """\
net b8 on gpu, training: 2 steps recorded, median 10.000 ms, middle half within 0.500 ms
800.0 samples a second (median)
Below are means of all 2 steps: 10.000 ms each, the device busy 70.0 % of the time

where a step's time goes      ms    share
device busy                7.000   70.0 %
gap: launch                2.000   20.0 %  handed over, not yet started: driver and device
gap: staging               1.000   10.0 %  the host checked the batch and copied it in
step                      10.000  100.0 %

phase        ms  of busy  launches
forward   4.000   57.1 %         1
backward  2.000   28.6 %         1
transfer  1.000   14.3 %         1

kernel     ms  of busy  launches  GFLOP/s  GB/s
gemm    4.000   57.1 %         1      1.0   0.5
relu    2.000   28.6 %         1            0.7
map     1.000   14.3 %         1

layer          ms  of busy  forward  backward  launches
fc          4.000   57.1 %    4.000                   1
act         2.000   28.6 %              2.000         1
(transfer)  1.000   14.3 %                            1

memory at the peak of a step  bytes    share
parameters                    3,000   75.0 %
workspace                     1,000   25.0 %
the device's memory in all    4,000  100.0 %
this process at its most      9,000

at best the device does 200.0 GFLOP/s, copies 20.0 GB/s, and takes 1.5 us from one tiny launch to \
the next (measured just now)

1 of 6 commands placed between their neighbours: START after END
device times are on the host's clock within 2.5 us
overhead of this profile: +0.51 % of a step (95 % interval -0.20 to +1.30), 20 pairs of steps in \
random order
"""


def test_the_whole_text() -> None:
    assert text(run()) == TOLD


@pytest.mark.parametrize(("error", "said"), [
    (3.2, "; the next step's use is foretold within 3.2 %"),
    (657.0, "; the next step's use cannot be foretold: the steps differ too much"),
    (None, "; how well the next step's use is foretold is not known: too few")])
def test_how_well_the_use_of_cores_is_foretold(error: float | None, said: str) -> None:
    used = result("cores used by the process", 1.5, "cores")
    next_one = replace(result("error of the next step's use", 0.0, "%"), value=error,
                       value_reason="" if error else "too few", repeats=1 if error else 0,
                       spread=None)
    told = text(replace(run(), results=(*run().results, used, next_one)))
    assert f"the process used 1.50 cores{said}\n" in told


def test_own_times_add_up_to_the_busy_time() -> None:
    (group,) = groups(run())
    assert group.busy_ns == 14_000_000 and group.wall_ns == 20_000_000
    assert group.busy_ns + sum(group.idle.values()) == group.wall_ns


def test_a_hiccup_is_in_the_median_and_in_no_mean() -> None:
    base = run()
    slow = replace(base.steps[1], id=2, number=2, start_ns=20_000_000, end_ns=70_000_000)
    its = replace(base.launches[0], step=2, start_ns=21_000_000, end_ns=60_000_000)
    told = text(replace(base, steps=(*base.steps, slow), launches=(*base.launches, its)))
    assert told.startswith("net b8 on gpu, training: 3 steps recorded, median 10.000 ms")
    assert "Below are means of 2 usual steps (the others took more than twice the median): " \
        "10.000 ms each, the device busy 70.0 % of the time\n" in told


def test_of_many_kernels_the_rest_is_one_line() -> None:
    base = run()
    many = tuple(launch(0, n, f"k{n:02}", 1000 * n, 1000 * n + 900 - n) for n in range(20))
    (group,) = groups(base.__class__(info=INFO, steps=base.steps[:1], launches=many))
    assert len(group.lines(lambda la: la.kernel)) == 20
    told = text(base.__class__(info=INFO, steps=base.steps[:1], launches=many))
    assert "\n8 more  0.007   39.7 %\n" in told


def test_words_go_left_and_figures_right() -> None:
    assert table(("a", "b", ""), [("xyz", "1", "why"), ("x", "10", "")]) == (
        "a     b\nxyz   1  why\nx    10")


def test_a_run_without_steps_has_nothing_to_tell() -> None:
    assert text(Run(info=INFO)) == "\n"
