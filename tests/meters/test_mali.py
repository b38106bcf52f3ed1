"""Mali under Arm's own driver; a tree from its source, none was recorded yet."""

from __future__ import annotations

from pathlib import Path

import pytest

from handtorch.meters import mali
from tests.meters.trees import closed, plant, reasons, signal, values

MALI = "sys/class/misc/mali0/device"


@pytest.mark.parametrize(
    ("file", "text"),
    [("clock", "260\n"), ("clock", "260000\n"), ("cur_freq", "260000000\n"),
     ("devfreq/13000000.mali/cur_freq", "260000000\n")],
)  # fmt: skip
def test_busy_and_clock(tmp_path: Path, file: str, text: str) -> None:
    plant(tmp_path, {f"{MALI}/utilization": "37\n", f"{MALI}/{file}": text})
    found = mali.find(tmp_path)
    assert values(found) == {"gpu_busy_ratio": 0.37, "gpu_clock_hz": 260e6}
    busy = signal(found, "gpu_busy_ratio")
    assert (busy.kind, busy.span_ns, busy.basis) == ("window", 100_000_000, "documented")
    assert signal(found, "gpu_clock_hz").where == f"/{MALI}/{file}" and found.absent == ()


def test_more_than_all_of_the_time(tmp_path: Path) -> None:
    found = mali.find(plant(tmp_path, {f"{MALI}/utilization": "137\n", f"{MALI}/clock": "9\n"}))
    assert reasons(found) == [
        f"/{MALI}/utilization: says 137 %, more than all of the time",
        f"/{MALI}/clock: says 9, a clock neither in MHz nor in kHz nor in Hz",
    ]


def test_for_root_alone(tmp_path: Path) -> None:
    plant(tmp_path, {f"{MALI}/utilization": "37\n", f"{MALI}/clock": "260\n"})
    with closed(tmp_path, MALI) as root:
        found = mali.find(root)
    assert reasons(found) == [f"/{MALI}/{name}: Permission denied"
                              for name in ("utilization", "clock")]  # fmt: skip
    assert found.absent[0].fix == f"run as root, or make /{MALI}/utilization readable"


def test_absent(tmp_path: Path) -> None:
    assert reasons(mali.find(tmp_path)) == [f"no /{MALI}"]
    assert reasons(mali.find(plant(tmp_path, {f"{MALI}/gpuinfo": "Mali-G76\n"}))) == [
        f"/{MALI} has no utilization", f"/{MALI} has no clock"]  # fmt: skip
