"""Adreno under Qualcomm's driver; a tree from its source, none was recorded yet."""

from __future__ import annotations

from pathlib import Path

import pytest

from handtorch.meters import kgsl
from handtorch.meters.signal import SLOW_NS
from tests.meters.trees import closed, plant, reasons, signal, values

KGSL = "sys/class/kgsl/kgsl-3d0"
TREE = {
    f"{KGSL}/gpubusy": " 250000 1000000\n",
    f"{KGSL}/gpu_busy_percentage": "37 %\n",
    f"{KGSL}/gpuclk": "585000000\n",
    f"{KGSL}/devfreq/cur_freq": "490000000\n",
}


def test_busy_and_clock(tmp_path: Path) -> None:
    found = kgsl.find(plant(tmp_path, TREE))
    assert values(found) == {"gpu_busy_ratio": 0.25, "gpu_clock_hz": 585e6}
    busy = signal(found, "gpu_busy_ratio")
    assert (busy.kind, busy.span_ns, busy.every_ns) == ("window", SLOW_NS, SLOW_NS)
    assert {one.basis for one in found.signals} == {"documented"} and found.absent == ()


def test_off_is_no_zero(tmp_path: Path) -> None:
    plant(tmp_path, TREE | {f"{KGSL}/gpubusy": "      0       0\n", f"{KGSL}/gpuclk": "0\n"})
    assert values(kgsl.find(tmp_path)) == {
        "gpu_busy_ratio": "the GPU is off", "gpu_clock_hz": "the clock is off"}  # fmt: skip
    assert kgsl.busy_ratio("0 1000000") == 0.0      # on, and idle


def test_the_next_best_files(tmp_path: Path) -> None:
    plant(tmp_path, TREE)
    (tmp_path / KGSL / "gpuclk").unlink()
    with closed(tmp_path, f"{KGSL}/gpubusy") as root:
        assert values(kgsl.find(root)) == {"gpu_busy_ratio": 0.37, "gpu_clock_hz": 490e6}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("2 1\n", "says it was busy for 2 of 1 us"),
        ("1 0\n", "says it was busy for 1 of 0 us"),
        ("17\n", "says '17', not two times"),
    ],
)
def test_other_forms(tmp_path: Path, text: str, why: str) -> None:
    found = kgsl.find(plant(tmp_path, TREE | {f"{KGSL}/gpubusy": text}))
    assert reasons(found) == [f"/{KGSL}/gpubusy: {why}"]
    assert list(values(found)) == ["gpu_clock_hz"]


def test_absent(tmp_path: Path) -> None:
    assert reasons(kgsl.find(tmp_path)) == [f"no /{KGSL}"]
    assert reasons(kgsl.find(plant(tmp_path, {f"{KGSL}/gpu_model": "Adreno650\n"}))) == [
        f"/{KGSL} has neither gpubusy nor gpu_busy_percentage",
        f"/{KGSL} has neither gpuclk nor devfreq/cur_freq",
    ]
