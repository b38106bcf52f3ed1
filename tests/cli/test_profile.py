"""`handtorch profile`: a zoo model, a saved step, a function, and what is refused."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from handtorch.bench.process import SideProcess
from handtorch.cli.main import EXIT_ERROR, EXIT_OK, main
from handtorch.profile.torch_side import TorchProfile
from handtorch.record import read_run
from handtorch.record.schema import SCHEMA_VERSION
from handtorch.runtime.opencl.discover import FoundDevice

pytestmark = pytest.mark.spread

FUNCTION = """\
import torch
import handtorch as ht

def made(device=None):
    x = torch.zeros(4, 3)
    return ht.inference(torch.nn.Linear(3, 2), example=(x,), device=device), x

def wrong():
    return 7
"""


def call(*argv: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    return main(["profile", *argv], out, err), out.getvalue(), err.getvalue()


def test_a_model_of_the_zoo(opencl_device: FoundDevice, tmp_path: Path,
                            capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.htr"
    code, out, _ = call("Model1", "--batch", "8", "--steps", "4", "--pairs", "9", "--device",
                        opencl_device.label, "--out", str(path))
    assert code == EXIT_OK
    lines = out.splitlines()
    assert lines[0].startswith(f"Model1 b8 on {opencl_device.label}, training: 4 steps recorded")
    assert lines[-1] == f"run file  {path}"
    for told in ("where a step's time goes", "memory at the peak of a step",
                 "at best the device does", "9 pairs of steps in random order"):
        assert told in out, told
    run = read_run(path)
    assert run.info.command == ("handtorch profile Model1 --batch 8 --steps 4 --pairs 9 "
                                f"--device {opencl_device.label}")
    assert len(run.steps) == 4 and run.devices and run.machine is not None
    assert "recording 4 steps\n" in capsys.readouterr().err


def test_torch_beside_it_the_reasons_and_a_trace(opencl_device: FoundDevice, tmp_path: Path,
                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch runs in another process: in this one, where the driver's threads are, it may not."""
    def not_here(self: TorchProfile) -> None:
        raise AssertionError("torch's steps in the driver's process")

    monkeypatch.setattr(TorchProfile, "__enter__", not_here)
    path, kept = tmp_path / "a.json", tmp_path / "a.htr"
    code, out, _ = call("Model1", "--batch", "8", "--quick", "--pairs", "0", "--torch", "--device",
                        opencl_device.label, "--trace", str(path), "--out", str(kept))
    assert code == EXIT_OK
    assert "Model1 b8 on torch cpu, training: 5 steps recorded" in out
    assert f"Model1 b8 on {opencl_device.label}: a step takes" in out
    assert "the next step is foretold takes 10 steps to say, and here are 5." in out
    assert out.endswith(f"run file  {kept}\ntrace     {path}\n")
    names = {e["name"] for e in json.loads(path.read_text())["traceEvents"] if e["ph"] == "X"}
    assert {n.startswith("aten::") for n in names} == {True, False}      # both sides
    run = read_run(kept)
    assert [(s.id, s.place) for s in run.steps] == [
        (i, opencl_device.label if i < 5 else "torch cpu") for i in range(10)]
    assert {s.meter for s in run.signals} >= {"threads", "threads of torch"}


def test_what_stops_torchs_process_is_told(opencl_device: FoundDevice,
                                           monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SideProcess, "ask", lambda *_, **told: {"error": "no more memory"})
    code, out, err = call("Model1", "--quick", "--pairs", "0", "--no-sensors", "--torch",
                          "--device", opencl_device.label)
    assert (code, out) == (EXIT_ERROR, "")
    assert err == ("handtorch: the steps by torch: no more memory\n"
                   "  try: without --torch\n")


def test_torch_has_no_function_of_a_saved_step() -> None:
    code, out, err = call("digits", "--quick", "--pairs", "0", "--torch")
    assert code == EXIT_ERROR and out == ""
    assert err.startswith("handtorch: --torch with digits training b")
    assert err.endswith("  try: a model of the zoo; or ht.profile(function) in Python\n")


def test_json_of_a_saved_step(opencl_device: FoundDevice) -> None:
    code, out, _ = call("digits", "--quick", "--device", opencl_device.label, "--json", "--check")
    told = json.loads(out)
    assert code == EXIT_OK and told["schema_version"] == SCHEMA_VERSION
    assert len(told["steps"]) == 5
    assert told["steps"][0]["subject"].startswith("digits training b")
    assert {r["name"] for r in told["results"]} >= {
        "step time", "utilisation", "throughput", "overhead", "arithmetic peak", "gap launch",
        "check: events, alone"}


def test_a_function_of_the_users(opencl_device: FoundDevice, tmp_path: Path,
                                 monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_net.py").write_text(FUNCTION)
    monkeypatch.chdir(tmp_path)
    code, out, _ = call("my_net:made", "--quick", "--pairs", "0", "--check", "--device",
                        opencl_device.label)
    assert code == EXIT_OK
    assert out.startswith(f"my_net:made on {opencl_device.label}, inference: 5 steps recorded")
    assert "overhead of this profile, of a step: not measured" in out
    assert out.endswith("Nothing was kept: --out NAME.htr keeps it for `handtorch why` and "
                        "`handtorch report`.\n")
    assert f"Event times of my_net:made on {opencl_device.label}, every launch waited for" in out
    code, _, err = call("my_net:wrong")
    assert code == EXIT_ERROR
    assert err == ("handtorch: my_net:wrong gives a int: it is to give a step and a batch for it\n"
                   "  try: return step, (x, y) with step = ht.train_step(...) or "
                   "ht.inference(...)\n")
    code, _, err = call("my_net:absent")
    assert code == EXIT_ERROR and "has no attribute 'absent'" in err


@pytest.mark.parametrize(("argv", "said"), [
    (("Teapot",), "handtorch: no model 'Teapot' in the zoo: there is "),
    (("Model1", "--steps", "0"), "handtorch: --steps 0: it is 1 or more\n"),
    (("Model1", "--pairs", "-1"), "handtorch: --pairs -1: it is 0 or more\n"),
    (("no_such_module:f",), "handtorch: profile no_such_module:f: No module named"),
    (("absent.ht",), "handtorch: "),
])
def test_what_is_refused(argv: tuple[str, ...], said: str) -> None:
    code, out, err = call(*argv)
    assert code == EXIT_ERROR and out == ""
    assert err.startswith(said)


def test_a_run_file_that_is_there_is_refused_before_anything_is_done(tmp_path: Path) -> None:
    path = tmp_path / "a.htr"
    path.write_text("mine")
    code, _, err = call("Model1", "--out", str(path))
    assert code == EXIT_ERROR
    assert err == f"handtorch: --out {path}: it already exists\n  try: another name\n"
    assert path.read_text() == "mine"
