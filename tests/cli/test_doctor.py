"""`handtorch doctor` as a user calls it, in an environment that gives its owner away."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from handtorch.cli import main as cli
from handtorch.doctor.file import read
from handtorch.meters.signal import Found
from handtorch.runtime.opencl.discover import FoundDevice

CANARY = "canary-bird"


def call(*argv: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    return cli.main(argv, out, err), out.getvalue(), err.getvalue()


def hostile(folder: Path) -> dict[str, str]:
    """Every word that could name somebody is the canary's, and so is a machine's sensor tree."""
    home = folder / CANARY
    battery = home / "sys/class/power_supply/battery"
    battery.mkdir(parents=True)
    for name, text in (("type", "Battery"), ("serial_number", CANARY), ("present", "1"),
                       ("status", "Discharging"), ("current_now", "100000"),
                       ("voltage_now", "4000000"), ("manufacturer", CANARY)):
        (battery / name).write_text(f"{text}\n")
    words = ("USER", "LOGNAME", "HOSTNAME", "HOST", "EMAIL", "NAME", "SUDO_USER", "SSH_CLIENT",
             "API_KEY", "PS1", "LS_COLORS", "HANDTORCH_TOKEN")
    paths = ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "HANDTORCH_SENSORS", "HANDTORCH_RUNS",
             "HANDTORCH_SHARED", "OLDPWD", "PWD", "TMP_OF_MINE")
    return {**{word: CANARY for word in words}, **{path: str(home) for path in paths}}


def doctor(folder: Path, *argv: str, **more: str) -> tuple[str, str]:
    """What is in the file and what was printed; run in a process of its own."""
    env = os.environ | {"PYTHONPATH": str(Path(cli.__file__).parents[2])} | hostile(folder) | more
    done = subprocess.run([sys.executable, "-m", "handtorch", "doctor", "--out", "d.json", *argv],
                          env=env, cwd=folder, capture_output=True, text=True, check=True)
    return (folder / "d.json").read_text(), done.stdout


@pytest.mark.spread
def test_nothing_private_is_in_the_file(opencl_device: FoundDevice, tmp_path: Path) -> None:
    text, out = doctor(tmp_path, "--device", opencl_device.short, "--no-benchmark",
                       "--no-self-test")
    assert CANARY not in text and CANARY not in out and len(text) < 64_000
    assert not re.search(rf"\b{re.escape(os.uname().nodename)}\b", text)
    assert str(Path.home()) not in text
    told = read(tmp_path / "d.json")
    (device,) = told["devices"]
    assert device["driver"] == opencl_device.spec.driver
    assert device["limits"]["compute_units"] == opencl_device.spec.compute_units
    assert device["limits"]["global_bytes"] > 0       # PoCL tells what is free just then
    assert device["benchmark"] == {} and device["benchmark_reason"] == "not asked for"
    assert told["sensors_simulated"] is True
    assert any(s["meter"] == "battery" for s in told["sensors"])
    assert any(a["meter"] == "rapl" for a in told["sensors_absent"])


@pytest.mark.slow
@pytest.mark.spread
def test_nor_with_a_cache_of_the_owners_and_all_of_it_measured(
        opencl_device: FoundDevice, tmp_path: Path) -> None:
    text, out = doctor(tmp_path, "--device", opencl_device.short,
                       HANDTORCH_CACHE=str(tmp_path / CANARY / "cache"))
    assert CANARY not in text and CANARY not in out and len(text) < 64_000
    (device,) = read(tmp_path / "d.json")["devices"]
    assert set(device["benchmark"]) == {"SGEMM 512", "arithmetic", "copy", "launch"}
    assert device["self_test"]["state"] == "passed"


@pytest.mark.spread
def test_a_short_benchmark_and_the_words_about_it(
        opencl_device: FoundDevice, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "d.json"
    code, out, _ = call("doctor", "--device", opencl_device.short, "--no-self-test", "--out",
                        str(path))
    assert code == 0
    assert f"{opencl_device.label}: a few seconds of measuring\n" in capsys.readouterr().err
    figures = read(path)["devices"][0]["benchmark"]
    for name, unit in (("SGEMM 512", "FLOP/s"), ("arithmetic", "FLOP/s"), ("copy", "B/s"),
                       ("launch", "ns")):
        assert figures[name]["median"] > 0 and figures[name]["unit"] == unit
        assert figures[name]["repeats"] >= 7 and figures[name]["spread"] >= 0
    assert figures["SGEMM 512"]["median"] < 4 * figures["arithmetic"]["median"]
    assert re.search("self-test (passed|not run); SGEMM 512 ", out) and f"file  {path} (" in out
    assert call("doctor", "--compare", str(path), str(path)) == (
        0, f"A  {path}\nB  {path}\n\nThey say the same.\n", "")


@pytest.mark.spread
def test_json_is_the_file_itself(opencl_device: FoundDevice, tmp_path: Path) -> None:
    path = tmp_path / "d.json"
    _, out, _ = call("doctor", "--json", "--no-benchmark", "--no-self-test", "--device",
                     opencl_device.short, "--out", str(path))
    assert json.loads(out) == {"file": str(path), **json.loads(path.read_text())}


def test_compare_as_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = _without_devices(monkeypatch, tmp_path)
    (tmp_path / "b.json").write_text(json.dumps({**made, "packages": {"torch": "9"}}))
    code, out, _ = call("doctor", "--json", "--compare", str(tmp_path / "a.json"),
                        str(tmp_path / "b.json"))
    told = json.loads(out)["differences"]
    assert code == 0 and {"of": "packages", "what": "torch", "a": made["packages"]["torch"],
                          "b": "9", "ratio": None}.items() <= next(
                              d for d in told if d["what"] == "torch").items()


def test_a_machine_without_a_device_gets_its_file_too(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = _without_devices(monkeypatch, tmp_path)
    assert made["devices"] == [] and made["sensors"] == []


def _without_devices(monkeypatch: pytest.MonkeyPatch, folder: Path) -> dict[str, Any]:
    from handtorch.doctor import gather
    from handtorch.runtime.opencl import discover

    monkeypatch.setattr(discover, "_found", lambda: discover.Found((), ()))
    monkeypatch.setattr(gather, "find_all", lambda root, pid: Found((), ()))
    assert call("doctor", "--out", str(folder / "a.json"))[0] == 0
    return read(folder / "a.json")


def test_bad_input(tmp_path: Path) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text("<html>")
    assert call("doctor", "--compare", str(bad), str(bad)) == (
        2, "", f"handtorch: {bad}: it is cut short or no JSON at all\n"
        "  try: a file that `handtorch doctor` wrote\n")
    assert call("doctor", "--compare", str(bad))[2].startswith(
        "handtorch: argument --compare: expected 2 arguments\n")
    assert call("doctor", "--compare", str(bad), str(bad), "--out", "x")[2] == (
        "handtorch: --out: --compare writes no file\n  try: leave it out\n")
