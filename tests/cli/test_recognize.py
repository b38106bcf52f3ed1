"""`handtorch recognize`: its record, its words, and what it refuses."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from handtorch.api.make import inference
from handtorch.cli import main as cli
from handtorch.cloud.pictures import encode
from handtorch.place.told import replayed
from handtorch.runtime.opencl.discover import FoundDevice

STEPS = ["load", "rescale", "upload", "decode", "queue", "compute", "send", "download"]


def call(*argv: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    code = cli.main(["recognize", *argv], out, err)
    return code, out.getvalue(), err.getvalue()


@pytest.fixture
def picture(tmp_path: Path) -> str:
    path = tmp_path / "noise.png"
    path.write_bytes(encode(np.random.default_rng(3).integers(0, 256, (40, 50, 3), np.uint8),
                            "PNG"))
    return str(path)


@pytest.fixture
def options(tmp_path: Path, opencl_device: FoundDevice) -> list[str]:
    """A net of ten classes and their names."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 4, 3, 2), nn.Flatten(), nn.Linear(4 * 49, 10)).eval()
    model = inference(net, example=(torch.randn(1, 3, 16, 16),), device=opencl_device.label)
    model.save(tmp_path / "net.ht")
    model.close()
    (tmp_path / "names.txt").write_text("\n".join(f"class {i}" for i in range(10)))
    return ["--model", str(tmp_path / "net.ht"), "--device", opencl_device.label, "--labels",
            str(tmp_path / "names.txt")]


def record(*argv: str) -> dict[str, Any]:
    code, out, _ = call(*argv, "--json")
    assert code == cli.EXIT_OK, out
    told = json.loads(out)
    assert isinstance(told, dict)
    return told


def test_one_record_with_all_pictures(options: list[str], picture: str) -> None:
    told = record(picture, picture, *options, "--sheet", "nexus-5")
    assert (told["where"], told["engine"], told["cold"]) == ("device", "opencl", True)
    first, second = told["pictures"]
    assert len(first["labels"]) == 5 and first["labels"] == second["labels"]
    assert list(first["steps_ms"]) == STEPS
    assert first["steps_ms"]["load"] > 0 and second["steps_ms"]["load"] == 0
    for one in (first, second):
        assert one["sum_of_steps_ms"] == pytest.approx(sum(one["steps_ms"].values()))
        assert one["sum_of_steps_ms"] <= one["end_to_end_ms"]
        assert 0 < one["device_share"] < 1 and one["cpu_cores"] > 0 and one["memory_bytes"] > 1e6
        assert one["energy_provenance"] in ("measured", "estimated")
        assert one["energy_mwh"] == pytest.approx(
            one["power_w"] * one["end_to_end_ms"] / 1e3 / 3.6)
    assert record(picture, *options, "--preloaded")["pictures"][0]["steps_ms"]["load"] == 0


@pytest.mark.slow
def test_a_server_is_started_where_none_is_named(options: list[str], picture: str) -> None:
    here = record(picture, *options, "--no-sensors")
    there = record(picture, *options, "--where", "cloud", "--no-sensors")
    assert there["pictures"][0]["labels"] == here["pictures"][0]["labels"]
    assert all(there["pictures"][0]["steps_ms"][s] > 0 for s in ("upload", "compute", "download"))
    assert there["pictures"][0]["energy_how"] == "sensors were not read"


def test_as_text_with_random_weights_marked(picture: str) -> None:
    code, out, _ = call(picture, "--model", "squeezenet", "--engine", "cpu", "--no-sensors")
    assert code == cli.EXIT_OK
    assert out.startswith("squeezenet (cpu, torch), device, cold\nrandom weights: ")
    assert "noise.png  50 x 40" in out
    assert "no labels: random weights: no trained ones were given" in out


@pytest.mark.parametrize(("argv", "said"), [
    (["nothing.jpg"], "no picture nothing.jpg"),
    (["{}", "--url", "http://127.0.0.1:9"], "--url with --where device"),
    (["{}", "--where", "cloud", "--url", "http://127.0.0.1:9"], "no answer from"),
    (["{}", "--labels", "nothing.txt"], "the labels nothing.txt cannot be read"),
    (["{}", "--model", "x.ht", "--engine", "cpu"], "x.ht"),
    (["{}", "--model", "no-such-model"], "no-such-model"),
])
def test_what_is_refused(argv: list[str], said: str, picture: str) -> None:
    code, out, err = call(*(a.format(picture) for a in argv), "--no-sensors")
    assert (code, out) == (cli.EXIT_ERROR, "")
    assert said in err


def test_what_is_no_picture_is_refused(options: list[str], tmp_path: Path) -> None:
    (tmp_path / "x.jpg").write_bytes(b"no picture")
    code, out, _ = call(str(tmp_path / "x.jpg"), *options, "--json", "--no-sensors")
    assert code == cli.EXIT_ERROR
    assert json.loads(out)["error"]["what"] == "this is no picture that can be read"


@pytest.mark.slow
def test_wherever_it_is_best_and_why(options: list[str], picture: str) -> None:
    """Both places are tried, then one is chosen; all of it is in the record, to be replayed."""
    here = record(picture, *options, "--no-sensors")
    told = record(*[picture] * 5, *options, "--where", "auto", "--no-sensors")
    assert {tuple(one["labels"]) for one in told["pictures"]} == {
        tuple(here["pictures"][0]["labels"])}
    kinds = [one["kind"] for one in told["decisions"]]
    assert kinds[:2] == ["first", "first"] and "first" not in kinds[2:]
    for one in told["decisions"][2:]:
        assert replayed(one["decision"]).chosen.name == one["decision"]["chosen"]
        assert one["used"] in [c["name"] for c in one["decision"]["candidates"]]


def test_what_is_private_needs_no_server(options: list[str], picture: str) -> None:
    told = record(picture, picture, *options, "--where", "auto", "--private", "--no-sensors")
    assert [one["used"] for one in told["decisions"]] == ["device OpenCL"] * 2
    assert told["decisions"][1]["decision"]["target"]["private"] is True
    code, out, _ = call(picture, *options, "--where", "auto", "--private", "--no-sensors")
    assert code == cli.EXIT_OK and "device OpenCL (first): tried for the first time" in out


@pytest.mark.parametrize(("argv", "said"), [
    (["--private"], "--private with --where device: there is nothing to decide"),
    (["--where", "cloud", "--deadline-ms", "5"], "--deadline-ms with --where cloud"),
    (["--where", "auto", "--private", "--url", "http://127.0.0.1:9"], "--url with --private"),
    (["--where", "auto", "--target", "energy"], "nobody says what the device and its radio draw"),
    (["--where", "auto", "--deadline-ms", "0"], "--deadline-ms 0: it is a number above 0"),
])
def test_decisions_that_make_no_sense(argv: list[str], said: str, picture: str) -> None:
    code, out, err = call(picture, *argv, "--no-sensors")
    assert (code, out) == (cli.EXIT_ERROR, "")
    assert said in err
