"""The study `recognize`: its rows and verdicts from made-up runs, and the whole of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from handtorch.cloud.pressure import Loading, PhaseCost
from handtorch.cloud.scenes import Scene
from handtorch.record import Place, RunWriter, read_run
from handtorch.report import render
from handtorch.studies import recognize
from handtorch.studies.recognize_findings import CLOUDS, Findings, judge, results, slowed_ms
from handtorch.studies.recognize_modes import CLOUD_CL, DEVICE_CL, DEVICE_CPU, MODES, ModeRun
from handtorch.studies.recognize_published import SLOWER, published
from handtorch.studies.recognize_tables import text
from handtorch.studies.study import Setting, record_setting

COST = PhaseCost(100.0, 3, 5.0, 2.0, 1000, 1)


def picture(mode: str, *, load: float = 0.0, lost: float = 0.01,
            labels: tuple[str, ...] = ("a", "b")) -> dict[str, Any]:
    steps = {"load": load, "rescale": 10.0, "upload": 1.0 * (mode in CLOUDS), "decode": 0.0,
             "queue": 0.0, "compute": 40.0, "send": 0.0, "download": 0.0}
    total = sum(steps.values())
    return {"file": "a.jpg", "file_bytes": 80_000, "labels": list(labels), "steps_ms": steps,
            "sum_of_steps_ms": total, "end_to_end_ms": total / (1 - lost), "cpu_cores": 0.5,
            "device_share": 0.4 if mode == DEVICE_CL else None, "memory_bytes": 10**8,
            "power_w": 2.0, "energy_mwh": 0.03, "energy_provenance": "estimated",
            "energy_how": "sheet"}


def made(tmp_path: Path, lost: float = 0.01, odd: str = "", labels: bool = True) -> Findings:
    found = Findings([Scene(tmp_path / "a.jpg", 0, 2, "generated")], {"squeezenet": 9000.0})
    for mode in MODES:
        seen = ("a", "c") if mode == odd else ("a", "b")
        both = [picture(mode, load=load, lost=lost, labels=seen if labels else ())
                for load in (500.0 * (mode not in CLOUDS), 0.0)]
        found.runs.append(ModeRun("squeezenet", mode, tuple(both)))
    found.loadings = {("squeezenet", "file, mapped", 0): Loading(900.0, "", COST, COST, 1, 1),
                      ("squeezenet", "file, mapped", 192 << 20): Loading(50.0, "MemoryError")}
    return found


def test_labels_and_sums_decide(tmp_path: Path) -> None:
    good, _ = judge(made(tmp_path))
    assert good.holds and "1 pictures get the same five labels in 4 modes" in good.answer
    assert not judge(made(tmp_path, lost=0.04))[0].holds
    assert not judge(made(tmp_path, odd=CLOUD_CL))[0].holds
    assert judge(made(tmp_path, labels=False))[0].holds is None


def test_nothing_is_said_of_speed_beside_other_programs(tmp_path: Path) -> None:
    found = made(tmp_path)
    assert judge(found)[1].holds
    found.others = 0.9
    assert judge(found)[1].holds is None


def test_the_phone_is_slower_in_what_runs_on_it(tmp_path: Path) -> None:
    runs = {one.mode: one for one in made(tmp_path).runs}
    assert SLOWER[DEVICE_CPU] == pytest.approx(37.35, abs=0.01)
    assert slowed_ms(runs[DEVICE_CPU]) == pytest.approx(50 * SLOWER[DEVICE_CPU])
    assert slowed_ms(runs[CLOUD_CL]) == pytest.approx(10 * SLOWER[DEVICE_CPU] + 41)
    assert runs[DEVICE_CPU].recognition_ms(2) == pytest.approx(50 + 250)


def test_rows_are_kept_and_shown(tmp_path: Path, opencl_device: Any) -> None:
    found, path = made(tmp_path), tmp_path / "run.htr"
    with RunWriter.create(path, "test") as record:
        record_setting(record, opencl_device)
        record.add(*published(), *(Place(name=n, kind="cloud", cores=None, cores_reason="test")
                                   for n in CLOUDS.values()))
        record.add(*results(found, opencl_device.label), *judge(found))
    run = read_run(path)
    assert render(run)
    failed = next(r for r in run.results if r.name == "from start to ready" and r.value is None)
    assert failed.value_reason == "MemoryError"
    words = {r.name: r.provenance for r in run.results}
    assert words["inference on the paper's phone"] == "simulated"
    assert (words["power"], words["compute"]) == ("estimated", "measured")
    assert len(run.published) == 4 * 8 + 4 * 4 + 15 + 8
    shown = text(found, judge(found))
    assert "published Device+CNNDroid" in shown
    assert shown.count("squeezenet, file, mapped, heap 192 MB  ") == 1      # in the table: failed
    assert "\nsqueezenet, file, mapped, heap 192 MB: MemoryError\n" in shown


@pytest.mark.slow
def test_the_quick_study(tmp_path: Path, shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from handtorch.runtime.opencl.discover import choose
    monkeypatch.setenv("HANDTORCH_SHARED", str(shared))
    device = choose(None)
    with RunWriter.create(tmp_path / "run.htr", "test") as record:
        record_setting(record, device)
        recognize.run(Setting(device, record, True, lambda _: None))
    run = read_run(tmp_path / "run.htr")
    assert "3 pictures get the same five labels in 4 modes" in run.verdicts[0].answer
    assert {"cores used", "memory, MB"} <= {r.name for r in run.results}
