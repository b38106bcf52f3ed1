"""The study `sgemm`: a tiny real run on every device, and its arithmetic on made-up points."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from handtorch.baseline.fair import Plan
from handtorch.graph.device_spec import GENERIC
from handtorch.record import Run, RunWriter, read_run
from handtorch.runtime.opencl.discover import FoundDevice
from handtorch.studies import sgemm
from handtorch.studies.sgemm import (
    CHOSEN,
    COLUMNS,
    LADDER,
    NUMPY,
    TORCH,
    Point,
    judge,
    ratios,
    table,
)
from handtorch.studies.study import HOST, Setting, record_setting

pytestmark = pytest.mark.spread

GPU = FoundDevice(GENERIC, "phone", 0, False, None)
CPU = FoundDevice(replace(GENERIC, kind="cpu"), "pocl", 0, False, None)


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sgemm, "QUICK_SIZES", (8, 20))
    monkeypatch.setattr(sgemm, "JUDGED", (20,))
    monkeypatch.setattr(sgemm, "LAST_OF_PAPER", 20)
    monkeypatch.setattr(sgemm, "QUICK", Plan(rounds=2, block_s=0.001, most_s=0.001))
    monkeypatch.setattr(sgemm, "QUICK_DUEL", Plan(rounds=2, block_s=0.001))


def run_on(device: FoundDevice, path: Path) -> tuple[str, Run]:
    with RunWriter.create(path, "test") as record:
        record_setting(record, device)
        text = sgemm.run(Setting(device, record, quick=True, progress=lambda _: None))
    return text, read_run(path)


def test_a_run_records_every_side_at_every_size(tiny: None, opencl_device: FoundDevice,
                                                tmp_path: Path) -> None:
    text, run = run_on(opencl_device, tmp_path / "run.htr")
    rates = {(r.subject, r.x_value): r for r in run.results if r.name == "rate"}
    assert set(rates) == {(name, n) for name in COLUMNS for n in (8, 20)}
    for (name, _), r in rates.items():
        assert r.place == (HOST if name in (NUMPY, TORCH) else opencl_device.label)
        assert r.value is not None or r.value_reason == "torch is not installed"
        assert (r.repeats > 0) == (r.value is not None)
    by_clock = [r for r in run.results if r.name == "rate by device clock"]
    assert {r.subject for r in by_clock} <= {*LADDER, CHOSEN}
    (ratio,) = [r for r in run.results if r.unit == "x"]
    assert (ratio.x_value, ratio.repeats) == (20, 2)
    assert run.published[5].subject == "OnePlus 8 Pro GPU, optimised"
    assert (run.published[5].value, run.published[5].x_value) == (70, 20)
    (verdict,) = run.verdicts
    assert verdict.question == sgemm.QUESTION
    assert verdict.answer in text
    assert run.comparisons[0].same_silicon == (opencl_device.spec.kind == "cpu")


def test_without_torch_its_column_is_unknown_with_a_reason(
        tiny: None, opencl_device: FoundDevice, tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sgemm, "has_torch", lambda: False)
    monkeypatch.setattr(sgemm, "QUICK_SIZES", (20,))
    text, run = run_on(opencl_device, tmp_path / "run.htr")
    (missing,) = [r for r in run.results if r.subject == TORCH]
    assert (missing.value, missing.value_reason) == (None, "torch is not installed")
    assert text.splitlines()[4].split()[-1] == "-"


def made(**rates: tuple[float, ...]) -> list[Point]:
    return [Point(name.replace("_", " "), 512, values, 10) for name, values in rates.items()]


def test_the_ratio_is_taken_round_by_round_against_the_better_blas() -> None:
    points = made(chosen=(100.0, 120.0), NumPy=(90.0, 50.0), torch=(80.0, 100.0))
    assert ratios(points, 512) == (1.25, 1.2)
    assert ratios(points, 256) == ()
    assert ratios(made(chosen=(1.0,)), 512) == ()


def test_a_win_a_loss_and_a_draw() -> None:
    naive = {"naive": (2.0,), "vector_16": (40.0,)}
    won = judge(made(**naive, chosen=(220.0, 230.0, 225.0), NumPy=(200.0, 200.0, 200.0)), CPU)
    assert won.holds is True
    assert won.answer == ("On pocl at n = 512: naive 2, with tiles or vectors 40, with the chosen "
                          "kernel 225 GFLOPS; the CPU's BLAS (the same cores) 200, so that it is "
                          "1.12 times as fast as BLAS.")
    lost = judge(made(**naive, chosen=(100.0, 101.0), torch=(200.0, 200.0)), GPU)
    assert lost.holds is False
    assert lost.answer.endswith("BLAS 200, so that it is 0.50 times as fast as BLAS.")
    drawn = judge(made(**naive, chosen=(190.0, 210.0), torch=(200.0, 200.0)), GPU)
    assert drawn.holds is None
    assert drawn.holds_reason == "the ratio differs from 1 by no more than its spread"
    assert drawn.answer.endswith("BLAS 200. No difference can be told: the chosen kernel is 1.00 "
                                 "times as fast in the middle round, and the rounds spread by "
                                 "0.10.")
    no_loss = judge(made(naive=(300.0,), chosen=(400.0, 401.0), torch=(200.0, 200.0)), GPU)
    assert no_loss.holds is False               # there was no loss to turn


def test_on_a_busy_machine_nothing_is_judged() -> None:
    points = made(naive=(2.0,), chosen=(300.0, 301.0), torch=(100.0, 100.0))
    busy = judge(points, CPU, others=0.63)
    assert busy.holds is None
    assert busy.holds_reason == ("other programs used 63% of this machine's cores meanwhile: "
                                 "run it again")
    assert busy.answer.endswith("(the same cores) 100. Nothing is said of which is faster.")
    assert judge(points, CPU, others=0.02).holds is True
    assert judge(points, CPU, others=None).holds is True


def test_the_share_of_others_is_recorded_or_unknown() -> None:
    assert sgemm._others_result(0.25).value == 25
    unknown = sgemm._others_result(None)
    assert (unknown.value, unknown.value_reason) == (None, "the system does not tell")


def test_the_table_has_sizes_down_and_sides_across() -> None:
    points = [Point("naive", 32, (1.0, 3.0, 2.25), 9), Point(TORCH, 32, (), 0, unknown="none"),
              Point("naive", 64, (10.0,), 9)]
    *legend, head, first, second = table(points).splitlines()
    assert "\n".join(legend) == sgemm.LEGEND
    assert head.split()[:2] == ["n", "naive"]
    assert first.split() == ["32", "2.2", *"-" * 11]
    assert second.split()[:2] == ["64", "10.0"]
    assert len({len(line) for line in (head, first, second)}) == 1
    assert table(points, 0.63) == table(points) + (
        "Other programs used 63 % of this machine's cores while this was timed: no speed is judged "
        "by it.\n")


def test_a_single_run_has_no_spread_and_no_bounds() -> None:
    one = sgemm._result(Point("naive", 1024, (1.5,), 1), "pocl")
    assert (one.value, one.repeats, one.spread, one.low, one.bounds) == (1.5, 1, None, None, "")
    more = sgemm._result(Point("naive", 1024, (1.0, 4.0, 2.0), 30), "pocl")
    assert (more.value, more.repeats, more.spread) == (2.0, 30, 3.0)
    assert (more.low, more.high, more.bounds) == (1.0, 4.0, "slowest to fastest of 3 blocks")


def test_the_plan_is_the_papers() -> None:
    assert sgemm.SIZES[:-1] == tuple(range(32, 513, 32))
    for plan in (sgemm.FULL, sgemm.DUEL):
        assert plan.runs == 500
        assert plan.most_s == plan.refuse_s == float("inf")
