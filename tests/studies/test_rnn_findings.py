"""The arithmetic, tables and verdicts of the study `rnn`, on made-up points."""

from __future__ import annotations

from dataclasses import replace

from handtorch.baseline.fair import Timing
from handtorch.graph.device_spec import GENERIC
from handtorch.runtime.opencl.discover import FoundDevice
from handtorch.studies.rnn_findings import (
    COARSE_RATIO,
    FINE_RATIO,
    MULTI_RATIO,
    MULTI_SHARE,
    OURS_RATIO,
    Point,
    judge,
    judge_ours,
    published,
    results,
    table,
)
from handtorch.studies.rnn_strategies import A1, A2, B1, B2, C_GROUPS, D_PAPER, TITLES, C, D, E

GPU = FoundDevice(GENERIC, "phone", 0, False, None)
CPU = FoundDevice(replace(GENERIC, kind="cpu"), "pocl", 0, False, None)
MS = {A1: 142, A2: 71, B1: 40, B2: 35, C: 568, C_GROUPS: 284, D_PAPER: 36, D: 29, E: 10}


def point(layers: int = 2, hidden: int = 32, **ms: float) -> Point:
    times = {side: Timing((n / 1e3, 2 * n / 1e3, n / 1e3), 30) for side, n in {**MS, **ms}.items()}
    return Point(layers, hidden, times, {C: 17.01, D: 1.02, E: 0.03}, {D: "4 x 16"})


def test_ratios_are_taken_round_by_round() -> None:
    p = point()
    assert p.ratios(C, A1) == (4, 4, 4)
    assert p.gains(E) == (14.2, 14.2, 14.2)
    assert p.shares() == (72.5, 72.5, 72.5)
    without = Point(2, 32, {k: t for k, t in p.times.items() if k != B1}, {}, {})
    assert without.ratios(B1, D) == ()
    reasons = {r.value_reason for r in results(without, "phone") if r.value is None}
    assert reasons == {"there is no OpenCL runtime for the CPU here"}


def test_rows_stand_beside_the_papers() -> None:
    rows = {(r.name, r.subject): r for r in results(point(), "phone")}
    assert rows[FINE_RATIO, "fine units"].value == 4
    assert round(rows[COARSE_RATIO, "coarse units, 12 x 10"].value or 0, 2) == 3.94
    assert rows[MULTI_SHARE, TITLES[B1]].value == 72.5
    assert rows[OURS_RATIO, "2 layers"].x_value == 32
    assert rows["launches per cell", "fine units"].value == 17.01
    theirs = {(p.name, p.value) for p in published()}
    assert {(FINE_RATIO, 4), (COARSE_RATIO, 3.93), (COARSE_RATIO, 2.83), (MULTI_RATIO, 1.32),
            (MULTI_SHARE, 70.5)} <= theirs
    swept = list(results(point(3, 256), "phone"))
    assert {r.name for r in swept} == {"time of a window, 3 layers", OURS_RATIO,
                                       "times as fast as one CPU thread, 3 layers"}


def test_a_win_a_loss_and_a_busy_machine() -> None:
    won = judge([point(1, 64), point()], CPU, 0.01)
    assert won.holds is True
    assert won.answer == (
        "On pocl (the same cores), 2 x 32: fine units take 4 times as long as one CPU thread (in "
        "the paper up to 4), coarse ones, 12 x 10, are 3.9 times as fast (3.93 and 2.83), ours 14 "
        "times.")
    assert judge([point(c=100)], GPU, None).holds is False          # no loss to turn
    lost = judge([point(**{D_PAPER: 150})], GPU, None)
    assert lost.holds is False and lost.answer.startswith("On phone, 2 x 32: ")
    busy = judge([point()], GPU, 0.5)
    assert (busy.holds, busy.holds_reason) == (
        None, "other programs used 50% of this machine's cores meanwhile: run it again")
    assert busy.answer == "On phone, 2 x 32: nothing is said of which is faster."


def test_where_ours_is_slower_is_named() -> None:
    fine = judge_ours([point(), point(3, 64)], GPU, None)
    assert fine.holds is False
    assert fine.answer == ("On phone ours is 2.9 to 2.9 times as fast as coarse units in their "
                           "best shape, over 2 networks.")
    slow = judge_ours([point(), point(3, 64, e=58)], GPU, None)
    assert slow.holds is True
    assert slow.answer.endswith("over 2 networks; slower at 3 x 64 (0.50 x, 0.50 to 0.50).")
    busy = judge_ours([point(), point(3, 64, e=58)], GPU, 0.5)
    assert (busy.holds, busy.answer) == (
        None, "On phone, over 2 networks: nothing is said of which is faster.")


def test_the_table() -> None:
    swept = {side: Timing((n / 1e3,), 9) for side, n in MS.items() if side in (A1, D, E)}
    lines = table([Point(1, 64, swept, {}, {}), point()]).splitlines()
    assert lines[0] == "ms for a window, median of the blocks"
    assert lines[1].split("  ")[0] == "layers x units"
    assert lines[2].split() == ["1", "x", "64", "142", *"-" * 6, "29", "10"]
    assert "  d  coarse units, best shape; 1.02 launches per cell at 2 x 32, 4 x 16" in lines
    ratios = [line.split() for line in lines[-8:]]
    assert ratios[0] == ["c", ":", "a1", "4", "0", "up", "to", "4"]
    assert ratios[4] == ["b1", ":", "d", "1.38", "0", "1.32"]


def test_ratios_that_nobody_judges_are_marked_and_the_line_below_says_why() -> None:
    lines = table([point()], 0.5).splitlines()
    assert lines[-1] == ("(*) Other programs used 50 % of this machine's cores while this was "
                         "timed: no speed is judged by it.")
    assert [" * " in line for line in lines[-10:-1]] == [False] + [True] * 8
    assert "*" not in table([point()], 0.01)
