"""What was compared as rows and verdicts."""

from __future__ import annotations

import pytest

from handtorch.bench.case import Case
from handtorch.bench.compare import Compared
from handtorch.bench.outcome import Memory, Outcome
from handtorch.bench.rows import geometric, rows_of, software_of, verdicts_of
from handtorch.record import Result

CASE, OTHER = Case("train", "NIN", 10), Case("train", "VGG16", 10)
SECONDS = (0.1, 0.2, 0.3, 0.4, 0.5)


def outcome(side: str, seconds: tuple[float, ...] = SECONDS, case: Case = CASE, first: float = 2.0,
            held: int = 300_000_000) -> Outcome:
    return Outcome(case, side, "believed", "", f"{side} 1", (first, 0.2, 0.1), (0.0, 1e-3, 2e-3),
                   seconds, 50, Memory(100_000_000, 100_000_000 + 2 * held, 100_000_000 + held))


def named(found: Compared, name: str, timed: bool = True) -> list[Result]:
    return [r for r in rows_of("bench train", found, timed) if r.name == name]


def test_a_time_is_its_blocks_median_with_quartiles() -> None:
    found = Compared(CASE, (outcome("handtorch"),), 0.0)
    (time,) = named(found, "time of a run")
    assert (time.subject, time.place, time.value, time.unit) == ("NIN b10", "handtorch", 300, "ms")
    assert (time.low, time.high, time.spread, time.repeats) == (200, 400, 200, 5)
    (rate,) = named(found, "rate")
    assert (rate.unit, rate.value) == ("samples/s", pytest.approx(10 / 0.3))
    each = named(found, "time of a run, each block")
    assert [(r.x_value, r.value) for r in each] == [(i, 100 * i) for i in range(1, 6)]
    assert [r.value for r in named(found, "first runs")] == [2.0, 0.2, 0.1]
    assert named(found, "runs timed")[0].value == 50


def test_ratios_are_of_rounds_and_only_of_peers() -> None:
    peer = outcome("torch", (*(2 * s for s in SECONDS[:4]), 5.0))
    found = Compared(CASE, (outcome("handtorch"), outcome("handtorch-ht"), peer), 0.0)
    (ratio,) = named(found, "handtorch is so many times as fast")
    assert (ratio.place, ratio.value, ratio.low, ratio.high) == ("torch", 2, 2, 2)


def test_memory_is_told_with_and_without_the_engine() -> None:
    found = Compared(CASE, (outcome("torch"),), 0.0)
    names = ("peak memory of the process", "peak memory while it runs",
             "peak memory beyond the engine")
    assert [named(found, n)[0].value for n in names] == [700, 400, 300]


def test_a_side_without_figures_has_its_reason() -> None:
    found = Compared(CASE, (Outcome(CASE, "mnn", "skipped", "not installed"),
                            Outcome(CASE, "liar", "differs", "off by 1", "liar 1", (1.0,),
                                    (float("inf"),))), 0.0)
    skipped, differs = named(found, "time of a run")
    assert (skipped.value, skipped.value_reason) == (None, "skipped: not installed")
    assert (differs.value, differs.value_reason) == (None, "differs: off by 1")
    assert [r.value_reason for r in named(found, "peak memory of the process", timed=False)] == [
        "skipped: not installed", "differs: off by 1"]


def test_flops_of_a_product() -> None:
    case = Case("product", "", 1, "nn", sizes=(1000, 1000, 500))
    (rate,) = named(Compared(case, (outcome("numpy", (0.1,), case),), 0.0), "rate")
    assert (rate.value, rate.unit) == (pytest.approx(10), "GFLOPS")


def pair(case: Case, ours_s: float, theirs_s: float, others: float = 0.0) -> Compared:
    return Compared(case, (outcome("handtorch", (ours_s,) * 3, case),
                           outcome("inductor", (theirs_s,) * 3, case, first=8.0)), others)


def test_verdicts_are_geometric_means_with_the_least() -> None:
    found = [pair(CASE, 1.0, 2.0), pair(OTHER, 1.0, 0.5)]
    same, faster, first = verdicts_of("bench train", found, timed=True)
    assert (same.holds, same.answer) == (True, "4 of 4 do; their times are believed.")
    assert faster.question == "Is handtorch faster than inductor?"
    assert (faster.holds, faster.answer) == (
        False, "1.00 times as fast in the geometric mean of 2, least 0.50 (VGG16 b10).")
    assert (first.holds, first.answer) == (
        True, "4.00 times as soon in the geometric mean of 2, least 4.00 (NIN b10).")


def test_beside_another_busy_program_nothing_is_judged() -> None:
    _, faster, _ = verdicts_of("bench train", [pair(CASE, 1.0, 2.0, others=0.4)], timed=True)
    assert (faster.holds, faster.holds_reason) == (
        None, "other programs used 40% of the machine meanwhile")


def test_who_differs_is_named() -> None:
    liar = Outcome(CASE, "liar", "differs", "off by 1")
    same, *rest = verdicts_of("bench train", [Compared(CASE, (outcome("torch"), liar), 0.0)], True)
    assert (same.holds, rest) == (False, [])
    assert same.answer == ("1 of 2 do; their times are believed. Not believed: liar in NIN b10 "
                           "(off by 1).")


def test_memory_is_judged_without_engines() -> None:
    found = Compared(CASE, (outcome("handtorch-ht", (), held=100), outcome("torch", (), held=150)),
                     None)
    _, held = verdicts_of("bench memory", [found], timed=False)
    assert held.answer.startswith("1.50 times as little in the geometric mean of 1")


def test_versions_are_told_once() -> None:
    found = [Compared(CASE, (outcome("torch"),), 0.0), Compared(OTHER, (outcome("torch"),), 0.0)]
    assert [(s.name, s.version) for s in software_of(found, {"torch": "eager"})] == [
        ("side torch", "torch 1 (eager)")]


def test_geometric_mean() -> None:
    assert geometric([1.0, 4.0]) == pytest.approx(2.0)
