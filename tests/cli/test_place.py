"""`handtorch place`: its record, its words, and what it refuses."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from handtorch.cli import main as cli
from handtorch.cloud.pictures import encode
from handtorch.place.told import replayed
from handtorch.runtime.opencl.discover import FoundDevice

FIGURES = ["squeezenet", "--device-ms", "2131.7", "--server-ms", "18.6", "--device", "nexus-5"]


def call(*argv: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    code = cli.main(["place", *argv], out, err)
    return code, out.getvalue(), err.getvalue()


def record(*argv: str) -> dict[str, Any]:
    code, out, err = call(*argv, "--json")
    assert code == cli.EXIT_OK, out + err
    told = json.loads(out)
    assert isinstance(told, dict)
    return told


@pytest.mark.parametrize(("more", "chosen"), [
    (["--network", "lte"], "cloud, jpeg"),
    (["--network", "lte", "--target", "energy"], "device OpenCL"),
    (["--network", "lte", "--target", "energy", "--radio-up"], "cloud, jpeg"),
    (["--network", "lte", "--target", "energy", "--burst", "40"], "cloud, jpeg"),
    (["--network", "lte", "--private"], "device OpenCL"),
    (["--network", "lte", "--energy-j", "10"], "device OpenCL"),
    (["--network", "wifi-campus", "--target", "energy"], "cloud, original"),
])
def test_figures_alone_decide_without_any_model(more: list[str], chosen: str) -> None:
    told = record(*FIGURES, *more)
    assert told["chosen"] == chosen == replayed(told).chosen.name
    assert told["reasons"] and told["candidates"]
    assert {c["energy_j"]["provenance"] for c in told["candidates"]} == {"estimated"}


def test_a_table_reasons_and_what_would_change_it() -> None:
    code, out, _ = call(*FIGURES, "--network", "lte", "--target", "energy")
    assert code == cli.EXIT_OK
    assert out.startswith("squeezenet, 2 megapixels in 488 KB, over lte (up, down not confirmed), "
                          "for least energy\n")
    for said in ("device OpenCL, because\n", "What would change it\n",
                 "with the LTE radio already up cloud, jpeg would win",
                 "Where the figures are from\n", "--device-ms\n"):
        assert said in out


def test_limits_that_nobody_keeps_end_with_1() -> None:
    code, out, _ = call(*FIGURES, "--network", "lte", "--p50-ms", "1")
    assert code == cli.EXIT_NOT_DONE
    assert "no candidate keeps every limit" in out


@pytest.mark.parametrize(("argv", "said"), [
    (["--network", "no-such"], "no network 'no-such'"),
    (["--megapixels", "0"], "--megapixels 0: pictures have 0.001 to 25"),
    (["--burst", "0"], "--burst 0"),
    (["--device", "no-such"], "no-such"),
    (["--device-ms", "-1"], "--device-ms -1: it is a number above 0"),
])
def test_what_is_refused(argv: list[str], said: str) -> None:
    code, out, err = call(*FIGURES, *argv)
    assert (code, out) == (cli.EXIT_ERROR, "")
    assert said in err


def test_what_was_not_given_is_measured_here(tmp_path: Path, opencl_device: FoundDevice,
                                             monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.cloud.small_net import saved_net  # torch: for this test alone
    monkeypatch.setenv("HANDTORCH_DEVICE", opencl_device.label)
    picture = tmp_path / "noise.png"
    picture.write_bytes(encode(np.random.default_rng(3).integers(0, 256, (400, 500, 3), np.uint8),
                               "PNG"))
    told = record(str(saved_net(tmp_path, opencl_device.label)), "--picture", str(picture),
                  "--network", "3g")
    by_name = {c["name"]: c for c in told["candidates"]}
    here = by_name["device OpenCL"]
    assert told["chosen"] == "device OpenCL" and told["megapixels"] == 0.2
    assert here["p50_s"]["provenance"] == "measured" and here["p90_s"]["value"] > 0
    assert here["energy_j"]["value"] is None and here["memory_bytes"]["value"] > 1e6
    assert by_name["cloud, png"]["p50_s"]["provenance"] == "simulated"
    assert "this machine stands for the server" in by_name["cloud, png"]["p50_s"]["how"]


def test_a_phone_that_is_not_here_is_foretold(tmp_path: Path, opencl_device: FoundDevice) -> None:
    from tests.cloud.small_net import saved_net
    told = record(str(saved_net(tmp_path, opencl_device.label)), "--device", "nexus-5",
                  "--server-ms", "5", "--network", "lte", "--megapixels", "0.5")
    by_name = {c["name"]: c for c in told["candidates"]}
    for name in ("device OpenCL", "device CPU"):
        assert by_name[name]["p50_s"]["provenance"] == "simulated"
        assert by_name[name]["memory_bytes"]["value"] > 0 < by_name[name]["energy_j"]["value"]
