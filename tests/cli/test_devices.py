from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from handtorch import selftest
from handtorch.cli import devices
from handtorch.cli.main import EXIT_ERROR, EXIT_OK, main
from handtorch.graph.device_spec import GENERIC, DeviceSpec
from handtorch.place.sheet import read_sheet
from handtorch.runtime.opencl import discover, loader
from handtorch.runtime.opencl.discover import Found, FoundDevice
from handtorch.selftest import SelfTest

POCL = replace(GENERIC, platform="Portable Computing Language", name="pthread-zen4", kind="cpu",
               driver="3.1", device_version="OpenCL 3.0 PoCL", clock_mhz=2400, group_multiple=8,
               fp64=True, unified_memory=True, local_is_dedicated=False, float_width=16)
INTEL = replace(POCL, platform="Intel(R) OpenCL", name="A processor with quite a long name",
                driver="2026.2", fp16=True, clock_mhz=None)
OCLGRIND = replace(GENERIC, platform="Oclgrind", name="Oclgrind Simulator", kind="other")


class Bench:
    """A made-up machine and the verdicts its self-tests would give."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.patch = monkeypatch
        self.cached: dict[str, str] = {}
        self.fresh: dict[str, str] = {}
        self.ran: list[str] = []
        self.notes: tuple[str, ...] = ()
        self.sensors = ""
        self.specs: tuple[DeviceSpec, ...] = (POCL, INTEL)
        monkeypatch.delenv("HANDTORCH_DEVICE", raising=False)
        monkeypatch.setattr(selftest, "verdict", self.verdict)
        monkeypatch.setattr(loader, "loaded",
                            lambda: loader.Loaded(ModuleType("cl"), "", (), (), ()))

    def verdict(self, found: FoundDevice, run: bool = True) -> SelfTest:
        state = self.cached.get(found.short, "not run")
        if run:
            self.ran.append(found.short)
            state = self.fresh.get(found.short, "passed")
        return SelfTest(state, ("gemm: 3 of 5 wrong",) if state == "failed" else (),
                        0 if state == "not run" else 12)

    def call(self, *argv: str) -> tuple[int, str, str]:
        raw = [(s, s is INTEL, None) for s in self.specs]
        found = Found(discover._numbered(raw), self.notes)
        self.patch.setattr(discover, "_found", lambda: found)
        out, err = io.StringIO(), io.StringIO()
        code = main(["devices", *argv], out, err)
        told, _, self.sensors = out.getvalue().partition("\nsensors\n")
        return code, told, err.getvalue()


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(monkeypatch)


def test_the_table(bench: Bench) -> None:
    bench.cached = {"pocl": "passed", "intel": "passed"}
    bench.notes = ("gone.icd names an OpenCL runtime that does not load (no such file)",)
    code, out, _ = bench.call()
    assert code == 0
    assert out == TABLE


def test_sensors_of_another_machine(
        bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    zone = tmp_path / "sys/class/thermal/thermal_zone0"
    zone.mkdir(parents=True)
    (zone / "type").write_text("soc\n")
    (zone / "temp").write_text("41500\n")
    monkeypatch.setenv("HANDTORCH_SENSORS", str(tmp_path))
    bench.cached = {"pocl": "passed", "intel": "passed"}
    bench.call()
    told, _, missing = bench.sensors.partition("\nnot to be read here:\n")
    assert "soc_c every 1 s" in told and "procfs" not in told
    assert "  procfs: /proc/stat: No such file or directory" in missing
    _, out, _ = bench.call("--json")
    record = json.loads(out)
    assert [s["quantity"] for s in record["sensors"]] == ["soc_c"]
    assert "procfs" in {a["meter"] for a in record["sensors_absent"]}


TABLE = """\
device              0 pocl (default)                        1 intel
name                pthread-zen4                            A processor with quite a long name
kind                CPU                                     CPU
compute units       2 at 2400 MHz                           2
memory              1 GiB, shared with the host             1 GiB, shared with the host
largest allocation  256 MiB                                 256 MiB
local memory        32 KiB, in main memory                  32 KiB, in main memory
work-group          256, multiples of 8                     256, multiples of 8
vector width        16 float                                16 float
fp16, fp64          no, yes                                 yes, yes
sub-groups          no                                      no
command buffers     no                                      no
OpenCL              OpenCL 3.0 PoCL, C 1.2                  OpenCL 3.0 PoCL, C 1.2
platform            Portable Computing Language             Intel(R) OpenCL (from pip)
driver              3.1                                     2026.2
self-test           passed, 12 cases                        passed, 12 cases

default: pocl (no GPU found: an installed runtime)
note: gone.icd names an OpenCL runtime that does not load (no such file)
"""


def test_json(bench: Bench) -> None:
    bench.cached, bench.notes = {"pocl": "passed"}, ("a note",)
    bench.fresh = {"intel": "failed"}
    code, out, err = bench.call("--json")
    record = json.loads(out)
    assert (code, err) == (1, "") and record["notes"] == ["a note"]
    pocl, intel = record["devices"]
    spec = {k: v for k, v in pocl.items() if k in POCL.to_dict()}
    assert DeviceSpec.from_dict(spec) == POCL and pocl["key"] == POCL.key
    keys = ("index", "short", "part", "embedded", "default", "self_test", "self_test_detail",
            "self_test_cases")
    assert [pocl[k] for k in keys] == [0, "pocl", None, False, True, "passed", [], 12]
    assert [intel[k] for k in keys] == [1, "intel", None, True, False, "failed",
                                        ["gemm: 3 of 5 wrong"], 12]


def test_only_missing_verdicts_are_made(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    bench.cached = {"pocl": "passed"}
    assert bench.call()[0] == 0
    assert bench.ran == ["intel"]
    assert capsys.readouterr() == ("", "testing intel (once per driver) ...\n")


def test_no_self_test_shows_what_is_known(bench: Bench) -> None:
    bench.cached = {"pocl": "failed"}
    code, out, _ = bench.call("--no-self-test")
    assert code == 1 and bench.ran == []
    assert out.endswith("self-test of pocl: gemm: 3 of 5 wrong\n")
    self_test = next(line for line in out.splitlines() if line.startswith("self-test "))
    assert " ".join(self_test.split()) == "self-test failed, 12 cases, see below not run"


def test_a_simulator_is_tested_only_when_named(bench: Bench) -> None:
    bench.specs = (POCL, OCLGRIND)
    bench.call()
    assert bench.ran == ["pocl"]
    code, out, _ = bench.call("--device", "oclgrind")
    assert (code, bench.ran) == (0, ["pocl", "oclgrind"])
    assert "pocl" not in out and "default" not in out


def test_a_bad_setting_does_not_hide_the_list(bench: Bench) -> None:
    bench.patch.setenv("HANDTORCH_DEVICE", "nonesuch")
    code, out, _ = bench.call()
    assert code == 0 and "pthread-zen4" in out and "default" not in out
    assert out.endswith("note: no OpenCL device 'nonesuch' (from HANDTORCH_DEVICE); try: `--device "
                        "pocl`, or `handtorch\n  devices`\n")


def test_a_setting_that_means_no_opencl(bench: Bench) -> None:
    bench.patch.setenv("HANDTORCH_DEVICE", "ref")
    code, out, _ = bench.call()
    assert code == 0
    assert out.endswith("\n\nnote: HANDTORCH_DEVICE is ref: programs run without OpenCL\n")


def test_the_setting_is_named_as_the_reason(bench: Bench) -> None:
    bench.patch.setenv("HANDTORCH_DEVICE", "intel")
    assert bench.call()[1].endswith("default: intel (HANDTORCH_DEVICE is intel)\n")


def test_an_unknown_device(bench: Bench) -> None:
    assert bench.call("--device", "radeon") == (2, "", (
        "handtorch: no OpenCL device 'radeon': there is 0 pocl (pthread-zen4); "
        "1 intel (A processor with quite a long name)\n"
        "  try: `--device pocl`, or `handtorch devices`\n"))


def test_no_device_at_all(bench: Bench) -> None:
    bench.specs = ()
    code, out, err = bench.call()
    assert (code, out) == (2, "")
    assert err.startswith("handtorch: no OpenCL device: no OpenCL runtime is installed\n")
    code, out, err = bench.call("--json")
    assert (code, err) == (2, "") and json.loads(out)["error"]["kind"] == "NoDevice"


def test_four_devices_do_not_run_off_the_page(bench: Bench) -> None:
    bench.specs = (POCL, INTEL, replace(INTEL, driver="b"), OCLGRIND)
    out = bench.call()[1]
    assert max(map(len, out.splitlines())) <= devices.PAGE_WIDTH
    assert [line.split()[1:] for line in out.splitlines() if line.startswith("device ")] == [
        ["0", "intel", "(default)", "1", "pocl", "2", "intel-2"], ["3", "oclgrind"]]


@pytest.mark.parametrize(("count", "text"), [
    (0, "0 B"), (1023, "1023 B"), (1024, "1 KiB"), (32768, "32 KiB"), (5595795456, "5.21 GiB"),
    (2 << 20, "2 MiB"), (998073344, "952 MiB"), (23 << 30, "23 GiB")])
def test_sizes(count: int, text: str) -> None:
    assert devices.size(count) == text


def test_the_devices_that_are_here(opencl_device: FoundDevice) -> None:
    out = io.StringIO()
    main(["devices", "--json", "--no-self-test"], out, io.StringIO())
    by_short = {d["short"]: d for d in json.loads(out.getvalue())["devices"]}
    assert by_short[opencl_device.short]["key"] == opencl_device.spec.key
    assert [d["default"] for d in by_short.values()].count(True) == 1


def test_a_sheet_of_the_device_here(opencl_device: FoundDevice, tmp_path: Path) -> None:
    path = tmp_path / "here.toml"
    out = io.StringIO()
    asked = ["devices", "--device", opencl_device.label, "--sheet", str(path)]
    assert main(asked, out, io.StringIO()) == EXIT_OK
    assert str(path) in out.getvalue() and "flops_per_s = { value =" in out.getvalue()
    assert read_sheet(path).processors
    err = io.StringIO()
    assert main(asked, io.StringIO(), err) == EXIT_ERROR and "it is there already" in err.getvalue()


def test_a_sheet_is_a_toml_file(bench: Bench, tmp_path: Path) -> None:
    code, _, err = bench.call("--sheet", str(tmp_path / "x.txt"))
    assert code == EXIT_ERROR and "a sheet is a file that ends in .toml" in err
