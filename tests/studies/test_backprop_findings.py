"""What is concluded from made-up figures: rows, table and verdict."""

from __future__ import annotations

from dataclasses import replace

from handtorch.baseline.fair import Timing
from handtorch.graph.device_spec import GENERIC
from handtorch.runtime.device import LaunchTime
from handtorch.runtime.opencl.discover import FoundDevice
from handtorch.studies.backprop_accounting import Observed
from handtorch.studies.backprop_findings import (
    COMPUTED,
    DEPTH,
    MOVED,
    NAIVE,
    OURS,
    RESIDENT,
    TORCH,
    TUNED,
    Point,
    depth_results,
    judge,
    published,
    results,
    table,
)
from handtorch.studies.study import HOST

GPU = FoundDevice(GENERIC, "phone", 0, False, None)
CPU = FoundDevice(replace(GENERIC, kind="cpu"), "pocl", 0, False, None)
GARBLED = Observed(1, (LaunchTime(0, 0, 9, 4),), ())


def observed(kernel_us: int, copy_us: int, wall_us: int) -> Observed:
    k, c, w = (1000 * n for n in (kernel_us, copy_us, wall_us))
    return Observed(w, (LaunchTime(0, 0, 0, k),), (LaunchTime(k, k, k, k + c),))


def point(number: int = 1, *, copies: int = 900, resident_s: float = 50e-6) -> Point:
    """By default as in the paper: copies take 90 %, torch wins unless the step is resident."""
    seconds = {TORCH: 100e-6, NAIVE: 400e-6, TUNED: 200e-6, RESIDENT: resident_s}
    times = {side: Timing((s, 2 * s, 2 * s), 30) for side, s in seconds.items()}
    seen = (observed(100, copies, 2000), observed(100, copies, 2000))
    return Point(number, times, {NAIVE: seen, TUNED: seen, RESIDENT: (observed(40, 1, 50),)},
                 {NAIVE: 8000, TUNED: 8000, RESIDENT: 100})


def test_the_papers_finding_on_a_gpu() -> None:
    found = judge([point(1), point(2, copies=300, resident_s=25e-6)], GPU)
    assert found.holds is True
    assert found.answer == (
        "On phone, op by op with every operand copied in and every result out, copies take 75 to "
        "90 % of kernels and copies together; in the paper 91 %. A step runs at 0.25 times torch's "
        "speed with naive and 0.5 with tuned kernels, resident at 2 to 4.")


def test_it_does_not_hold_where_kernels_outweigh_copies_or_the_device_wins() -> None:
    assert judge([point(1), point(2, copies=90)], GPU).holds is False
    won = point()
    won = replace(won, times={**won.times, TUNED: won.times[RESIDENT]})
    assert judge([point(2), won], GPU).holds is False


def test_on_a_cpu_or_beside_other_programs_nothing_is_judged() -> None:
    cpu = judge([point()], CPU, others=0.01)
    assert (cpu.holds, cpu.holds_reason) == (
        None, "the device is the CPU itself: a copy stays in its memory, so a phone's cost of "
              "moving data is not to be seen here")
    assert "resident at 2." in cpu.answer
    busy = judge([point()], GPU, others=0.4)
    assert (busy.holds, busy.holds_reason) == (
        None, "other programs used 40% of this machine's cores meanwhile: run it again")
    assert busy.answer.endswith("in the paper 91 %. Nothing is said of speed.")


def test_times_that_cannot_be_used_are_unknown_with_the_reason() -> None:
    broken = replace(point(), observed={side: (GARBLED, GARBLED) for side in OURS})
    rows = {(r.name, r.subject): r for r in results(broken, "phone")}
    for name in ("kernels", "copies", "host wait", MOVED, COMPUTED):
        row = rows[name, TUNED]
        assert (row.value, row.value_reason) == (None, "an event ends 5 ns before it starts")
    verdict = judge([broken], GPU)
    assert verdict.holds is None
    assert verdict.holds_reason == ("the device's times cannot be used: an event ends 5 ns before "
                                    "it starts")
    assert "copies take an unknown share of kernels" in verdict.answer
    partly = replace(point(), observed={**point().observed, TUNED: (GARBLED, observed(1, 3, 9))})
    assert {r.subject: r.value for r in results(partly, "phone") if r.name == MOVED}[TUNED] == 75


def test_rows_of_one_model() -> None:
    rows = list(results(point(3), "phone"))
    assert {(r.x_name, r.x_value) for r in rows} == {("Model", 3)}
    by = {(r.name, r.subject): r for r in rows}
    whole = by["whole step", TUNED]
    assert (whole.value, whole.spread, whole.repeats, whole.place) == (400, 200, 30, "phone")
    assert by["whole step", TORCH].place == HOST
    assert by["times as fast as torch CPU", NAIVE].value == 0.25
    assert [by[name, TUNED].value for name in ("kernels", "copies", "host wait")] == [100, 900,
                                                                                      1000]
    assert (by[MOVED, TUNED].value, by[COMPUTED, TUNED].value) == (90, 5)
    assert by["bytes over the bus in a step", RESIDENT].value == 0.1
    assert by["kernels", TORCH].value_reason == ("torch computes in the host's own memory; its "
                                                 "time is not taken apart")
    assert (MOVED, TORCH) not in by


def test_depth_is_three_layers_over_one() -> None:
    deep = point(2)
    deep = replace(deep, times={s: Timing(tuple(3 * n for n in t.seconds), 1)
                                for s, t in deep.times.items()})
    rows = list(depth_results([point(1), deep], "phone"))
    assert [(r.name, r.subject) for r in rows] == [(DEPTH, s) for s in (TORCH, *OURS)]
    assert all(abs((r.value or 0) - 3) < 1e-9 for r in rows)
    assert list(depth_results([point(2), point(3)], "phone")) == []


def test_published_figures_stand_beside_ours() -> None:
    names = {r.name for r in results(point(), "phone")} | {DEPTH}
    units = {r.name: r.unit for r in (*results(point(), "phone"),
                                      *depth_results([point(1), point(2)], "phone"))}
    for p in published():
        assert p.name in names
        assert p.unit == units[p.name]
    assert {p.name: p.value for p in published()} == {MOVED: 91, COMPUTED: 9, DEPTH: 3}


def test_the_table_has_models_down_and_sides_across() -> None:
    lines = table([point(1), replace(point(2), observed={s: (GARBLED,) for s in OURS})])
    title, head, first, _, gap, parts, inside, one, two = lines.splitlines()[:9]
    assert title == "whole step, batch 32: median us (times as fast as torch CPU)"
    assert " ".join(head.split()) == " ".join((TORCH, *OURS))
    assert first.split() == ["Model1", "200", "800", "(0.25", "x)", "400", "(0.50", "x)", "100",
                             "(2.00", "x)"]
    assert (gap, parts) == ("", "us in kernels + copies + host wait")
    assert one.split()[:6] == ["Model1", "100", "+", "900", "+", "1000"]
    assert two.split() == ["Model2", "-", "-", "-"]
    marked = table([point(1)], 0.4).splitlines()
    assert "800 (0.25 x *)" in marked[2] and "*" not in lines
    assert marked[-2] == ("(*) Other programs used 40 % of this machine's cores while this was "
                          "timed: no speed is judged by it.")
    assert len(inside) == len(one) == len(two)
