"""The roofline benchmark prints every figure, and fails when a launch costs too much."""

from __future__ import annotations

import json

import pytest

from benchmarks import roofline
from benchmarks.roofline import Figure
from handtorch.runtime.opencl.discover import FoundDevice
from handtorch.runtime.opencl.executor import OpenCLExecutor

pytestmark = pytest.mark.spread


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roofline, "MB", 1000)
    monkeypatch.setattr(roofline, "fma_step", lambda spec, loops: real(spec, 10))


real = roofline.fma_step


def test_every_figure_is_there(small: None, opencl_device: FoundDevice,
                               capsys: pytest.CaptureFixture[str],
                               monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roofline, "TARGET_US", 1e9)
    assert roofline.main(["--device", opencl_device.short, "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["device"] == opencl_device.short
    assert {f["unit"] for f in record["figures"]} == {"us", "GB/s", "GFLOPS"}
    assert len(record["figures"]) == 8
    assert all(f["value"] > 0 for f in record["figures"])


@pytest.mark.parametrize("cost_us, code, word", [(4.9, 0, "met"), (5.1, 1, "MISSED")])
def test_a_dear_launch_fails(opencl_device: FoundDevice, monkeypatch: pytest.MonkeyPatch,
                             capsys: pytest.CaptureFixture[str], cost_us: float, code: int,
                             word: str) -> None:
    def fake(_: OpenCLExecutor) -> list[Figure]:
        return [Figure("launch, queued", cost_us, "us", 0.1, 30)]

    for part in ("launches", "stage", "peaks"):
        monkeypatch.setattr(roofline, part, fake)
    assert roofline.main(["--device", opencl_device.short]) == code
    assert capsys.readouterr().out.endswith(f"target: a queued launch in 5 us: {word}\n")


def test_no_such_device(capsys: pytest.CaptureFixture[str]) -> None:
    assert roofline.main(["--device", "toaster"]) == 2
    assert "toaster" in capsys.readouterr().err
