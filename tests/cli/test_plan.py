"""`handtorch plan`: figures of a small zoo model on sheets, without a device."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from handtorch.api import budget
from handtorch.api.budget import Fitted
from handtorch.cli import plan
from handtorch.cli.main import EXIT_ERROR, EXIT_NOT_DONE, EXIT_OK, main
from handtorch.graph.device_spec import GENERIC
from handtorch.runtime.opencl import clock, discover
from handtorch.runtime.opencl.discover import FoundDevice

pytestmark = pytest.mark.spread


@pytest.fixture(autouse=True)
def no_device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sheet needs none; looking for one is a failure."""
    if "opencl_device" in request.fixturenames:
        return

    def looked() -> None:
        raise AssertionError("a device was looked for")
    monkeypatch.setattr(discover, "_found", looked)


@pytest.fixture
def sheet(tmp_path: Path) -> str:
    path = tmp_path / "phone.json"
    path.write_text(json.dumps(replace(GENERIC, name="a phone").to_dict()))
    return str(path)


def call(*argv: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    return main(["plan", *argv], out, err), out.getvalue(), err.getvalue()


def test_json_has_the_figures(sheet: str) -> None:
    code, out, _ = call("CharCNN", "--batch", "8", "--device", sheet, "--json")
    told = json.loads(out)
    assert code == EXIT_OK
    assert told["device"] == "a phone" and told["times"] == "estimated"
    assert told["floor_bytes"] <= told["peak_bytes"]
    asked = [b["asked"] for b in told["budgets"]]
    assert asked == ["100 %", "75 %", "50 %", "least"]
    assert told["budgets"][0]["slow_down"] == 1.0
    held = [b["held_bytes"] for b in told["budgets"] if b["held_bytes"]]
    assert held == sorted(held, reverse=True)
    assert told["memory_bytes"] == GENERIC.global_bytes
    assert told["largest_batch"] > 8


def test_the_table_names_who_is_alive_and_what_it_costs(sheet: str) -> None:
    code, out, _ = call("CharCNN", "--batch", "8", "--device", sheet, "--no-largest")
    lines = out.splitlines()
    assert code == EXIT_OK
    assert lines[0] == "CharCNN, batch 8, on a phone (a sheet, phone.json)"
    assert any(line.startswith("alive at the peak") for line in lines)
    assert lines[-1] == ("bytes held are arena and staging; slow-downs are estimated, not "
                         "measured: on a device here, --measure times launches")
    assert not any("largest batch" in line for line in lines)


def test_a_budget_that_does_not_fit_is_exit_1(sheet: str) -> None:
    code, out, _ = call("Model1", "--batch", "4", "--device", sheet, "--memory", "1KiB")
    assert code == EXIT_NOT_DONE
    assert "           1,024 B     does not fit" in out
    assert out.splitlines()[-1] == "largest batch within 1,024 bytes: not even one row"


@pytest.mark.parametrize(("argv", "said"), [
    (["Nothing"], "no model 'Nothing' in the zoo"),
    (["CharCNN", "--batch", "0"], "--batch 0: a batch has one row or more"),
    (["CharCNN", "--memory", "lots"], "memory='lots': a budget is a number of bytes"),
    (["CharCNN", "--form", "huge"], "CharCNN in form 'huge': it has shakespeare")])
def test_what_cannot_be_is_refused(sheet: str, argv: list[str], said: str) -> None:
    code, _, err = call(*argv, "--device", sheet)
    assert code == EXIT_ERROR and said in err


def test_nothing_can_be_timed_on_a_sheet(sheet: str) -> None:
    code, _, err = call("CharCNN", "--device", sheet, "--measure")
    assert code == EXIT_ERROR
    assert err == (f"handtorch: --measure: {sheet} is a sheet, and nothing can be timed on it\n"
                   "  try: a device here, or no --measure\n")


def test_launches_are_timed_once_and_how_far_they_are_is_said(
        opencl_device: FoundDevice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("HANDTORCH_CACHE", str(tmp_path))
    asked = ("CharCNN", "--batch", "64", "--device", opencl_device.label, "--no-largest")
    whole = json.loads(call(*asked, "--json")[1])["budgets"][0]["held_bytes"]
    asked += ("--memory", str(int(0.97 * whole)), "--measure")
    code, first, _ = call(*asked)
    said = capsys.readouterr().err
    assert re.search(r"^timing launches, one of each kind: 0 of \d+$", said, re.M)
    assert re.search(r"^timing launches, one of each kind: ([1-9]\d*) of \1$", said, re.M)
    assert code == EXIT_OK and first.splitlines()[-1] == (
        "bytes held are arena and staging; slow-downs are foretold from launches timed on the "
        "device")
    assert list((tmp_path / "times").glob("*.json"))
    monkeypatch.setattr(clock, "_taken", lambda *_: pytest.fail("timed again"))
    assert call(*asked)[:2] == (EXIT_OK, first)
    assert "timing" not in capsys.readouterr().err


def test_no_row_holds_as_much_as_a_quicker_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first row, without a budget, and the one that was asked for are there all the same."""
    at = {1.0: (100, 1.0), 0.75: (70, 1.3), 0.5: (50, 1.2)}

    class Made:
        """As a `Fitting` whose searches find these."""

        whole = SimpleNamespace(plan=None)

        def within(self, memory: int) -> Fitted:
            return fitted(*at[memory / 100])

        def least(self) -> Fitted:
            return fitted(40, 1.2)

        def timed(self, found: Fitted) -> Fitted:
            return found

    monkeypatch.setattr(budget, "device_bytes", lambda plan: 100 if plan is None else plan)
    told = [(r.asked, r.found.held_bytes) for r in plan._rows(cast(Any, Made()), None) if r.found]
    assert told == [("100 %", 100), ("50 %", 50), ("least", 40)]
    asked = plan._rows(cast(Any, Made()), 75)[-1]
    assert asked.asked == "75 B" and asked.found and asked.found.slow_down == 1.3


def fitted(held: int, slow_down: float) -> Fitted:
    return Fitted(cast(Any, SimpleNamespace(plan=held)), held, 100, slow_down, "estimated", ())


def test_a_sheet_that_is_not_there_is_refused(tmp_path: Path) -> None:
    code, _, err = call("CharCNN", "--device", str(tmp_path / "none.txt"))
    assert code == EXIT_ERROR and "there is no such file" in err


def test_a_phone_by_its_clinfo(shared: Path) -> None:
    path = shared / "data/clinfo/adreno650_clinfo.txt"
    if not path.exists():
        pytest.skip(f"no {path.name}")
    code, out, _ = call("Model3", "--batch", "4", "--device", str(path), "--no-largest")
    assert code == EXIT_OK and "Adreno" in out.splitlines()[0]


def test_a_phone_by_its_name_tells_time_and_energy_as_simulated() -> None:
    code, out, _ = call("Model4", "--batch", "32", "--device", "nexus-5", "--no-largest", "--json")
    told = json.loads(out)["simulated"]
    assert code == EXIT_OK
    assert told["provenance"] == "simulated" and told["processor"] == "Adreno 330"
    assert told["time_s"] > told["launches"] * 160e-6 and told["fits"] is True
    assert told["energy_j"] == pytest.approx((1.079 + 2.816) * told["time_s"])
    assert told["held_bytes"] == json.loads(out)["budgets"][0]["held_bytes"]
    text = call("Model4", "--batch", "32", "--device", "nexus-5", "--no-largest")[1]
    assert "\nsimulated on LG Nexus 5 (Snapdragon 800, Adreno 330), Adreno 330 (gpu):\n" in text


def test_a_run_instead_of_a_step_on_the_other_processor() -> None:
    asked = ("Model4", "--batch", "1", "--device", "nexus-5", "--infer", "--json")
    gpu, cpu = (json.loads(call(*asked, *more)[1]) for more in ((), ("--processor", "cpu")))
    assert gpu["infer"] and gpu["simulated"]["kind"] == "gpu"
    assert cpu["simulated"]["kind"] == "cpu"
    assert cpu["simulated"]["launch_s"] < gpu["simulated"]["launch_s"]
    text = call(*asked[:-1])[1]
    assert text.startswith("Model4, a run on a batch of 1, on Adreno 330 (the sheet of LG Nexus 5")


def test_a_run_that_does_not_fit_is_exit_1() -> None:
    asked = ("Model4", "--batch", "1", "--device", "nexus-5", "--infer", "--memory")
    assert call(*asked, "1KiB")[0] == EXIT_NOT_DONE
    assert call(*asked, "1GiB")[0] == EXIT_OK


def test_only_a_sheet_has_processors(sheet: str) -> None:
    code, _, err = call("Model1", "--device", sheet, "--processor", "cpu")
    assert code == EXIT_ERROR and "--processor cpu: only a sheet has several" in err


def test_a_name_that_the_zoo_has_not_is_answered_before_anything_is_captured(
        sheet: str, capsys: pytest.CaptureFixture[str]) -> None:
    for more in ((), ("--infer",)):
        code, out, err = call("names", "--device", sheet, *more)
        assert (code, out) == (EXIT_ERROR, "")
        assert err.startswith("handtorch: no model 'names' in the zoo: there is DenseNet40_12, ")
        assert capsys.readouterr().err == ""
