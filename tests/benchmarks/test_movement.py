"""The movement benchmark: what it counts, what it prints, and that it fails over the limit."""

from __future__ import annotations

import json
from typing import Any

import pytest

from benchmarks import movement
from benchmarks.movement import Case, Figure, Row
from handtorch.runtime.opencl.discover import FoundDevice

LARGE = Case("Model1", 20_000, True)        # 1.3 MB in, four launches' worth of work


def test_every_model_is_there_and_the_limited_come_first() -> None:
    assert [c.title for c in movement.CASES[:2]] == ["Model4, batch 512", "ResNet50, batch 16"]
    assert [c.limited for c in movement.CASES] == [True] * 2 + [False] * len(movement.MODELS)
    assert {c.model for c in movement.CASES[2:]} == set(movement.MODELS)


@pytest.mark.timed
def test_the_copy_is_seen_and_gone_when_there_is_none(
        opencl_device: FoundDevice, monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str]) -> None:
    """Copying 1.3 MB takes longer than finding out that there is nothing to copy."""
    monkeypatch.setattr(movement, "BLOCK_S", 0.001)
    monkeypatch.setattr(movement, "CASES", (LARGE,))
    assert movement.main(["--models", "Model1", "--device", opencl_device.short,
                          "--rounds", "3", "--json"]) == 0
    (row,) = (record := json.loads(capsys.readouterr().out))["rows"]
    assert (record["limit"], record["met"]) == (0.02, None)
    assert (row["case"]["model"], row["device"]) == ("Model1", opencl_device.short)
    assert row["crossing_bytes"] == 20_000 * (16 * 4 + 4) + 4
    assert row["steps"] >= 3 * 2 and row["steps"] % 3 == 0
    assert row["step_us"]["value"] > row["copy_us"]["value"] > 0
    assert row["copied"]["value"] > row["in_place"]["value"] > 0
    assert row["copied"]["value"] > row["read_only"]["value"] > 0
    assert row["copied"]["value"] > row["lent"]["value"] > 0
    assert row["copied"]["value"] > row["share"]["value"] > row["lost"]["value"] > 0


@pytest.mark.parametrize("share, limited, code, end", [
    (0.0201, True, 1, "MISSED"), (0.0199, True, 0, "met"), (0.5, False, 0, "not measured")])
def test_over_the_limit_it_fails(opencl_device: FoundDevice, monkeypatch: pytest.MonkeyPatch,
                                 capsys: pytest.CaptureFixture[str], share: float, limited: bool,
                                 code: int, end: str) -> None:
    def fake(case: Case, device: str, rounds: int) -> Row:
        times: list[Any] = [Figure(t, 1.0) for t in (5000.0, 98.0, 1.5)]
        return Row(case, device, 1_607_684, *times, Figure(share, 0.001), Figure(0.01, 0.0),
                   Figure(35.0, 1.0), Figure(0.1, 0.0), Figure(share / 10, 0.0),
                   Figure(share / 20, 0.0), Figure(0.005, 0.0), 70)

    monkeypatch.setattr(movement, "measure", fake)
    monkeypatch.setattr(movement, "CASES", (Case("Model4", 512, False, limited),))
    assert movement.main(["--device", opencl_device.short]) == code
    head, row, last = capsys.readouterr().out.splitlines()
    assert head == movement.HEAD
    assert row == (f"Model4, batch 512               {opencl_device.short:<6} 1,607,684     5,000"
                   f"    98.0         1.5 {100 * share:>7.3f} ±0.050   1.000       35.0   10.000"
                   f" {10 * share:>7.3f} {5 * share:>11.3f}      0.500"
                   + (f"  {end}" if limited else ""))
    assert last.endswith(f"; limit 2 % for the full sizes: {end}")


def test_no_such_device(capsys: pytest.CaptureFixture[str]) -> None:
    assert movement.main(["--device", "toaster"]) == 2
    assert "toaster" in capsys.readouterr().err
