from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from handtorch.place.processor import doubts, rates_of, spec_of
from handtorch.place.sheet import read_sheet
from handtorch.profile.sheet_made import _best, _line, sheet_text, told
from handtorch.record import Result
from handtorch.runtime.opencl.context import OpenCLContext
from handtorch.runtime.opencl.discover import FoundDevice


def test_a_line_through_two_copies() -> None:
    begin_s, rate = _line(10e-6 + 256 / 1e9, 10e-6 + (16 << 20) / 1e9)
    assert begin_s == pytest.approx(10e-6) and rate == pytest.approx(1e9)


def test_a_large_copy_that_was_faster_gives_no_negative_cost() -> None:
    begin_s, rate = _line(2e-3, 1e-3)
    assert begin_s >= 0 and rate > 0


def test_of_several_rounds_the_best_counts() -> None:
    def row(name: str, value: float, better: Literal["higher", "lower"]) -> Result:
        return Result(study="s", name=name, subject="d", place="p", value=value, unit="x",
                      repeats=7, spread=0.0, better=better, provenance="measured")
    found = _best([row("rate", 5, "higher"), row("time", 3, "lower"), row("rate", 9, "higher"),
                   row("time", 2, "lower"), row("rate", 7, "higher")])
    assert {k: r.value for k, r in found.items()} == {"rate": 9, "time": 2}


def test_the_device_here_as_a_sheet(opencl_device: FoundDevice, tmp_path: Path) -> None:
    text = sheet_text(OpenCLContext(opencl_device))
    path = tmp_path / "here.toml"
    path.write_text(text)
    sheet = read_sheet(path)
    (processor,) = sheet.processors
    rates = rates_of(processor)
    assert 1e8 < rates.flops_per_s < 1e14 and 1e8 < rates.bytes_per_s < 1e13
    assert 0 < rates.launch_s < 1e-2 and 0 <= rates.copy_s < 1e-1
    assert doubts(processor) == () and len(told(text)) == 5
    spec = spec_of(sheet, processor)
    assert spec.local_bytes == opencl_device.spec.local_bytes
    assert spec.max_work_group == opencl_device.spec.max_work_group and spec.assumed == ()
