"""Real steps on a device of this machine while its sensors are read, or fail to be."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

import handtorch as ht
from handtorch.errors import BadInput
from handtorch.profile.profile import Profile
from handtorch.record import Run, read_run
from handtorch.runtime.opencl.discover import find_devices

X, Y = torch.randn(64, 256, generator=torch.Generator().manual_seed(1)), torch.arange(64) % 10
LONG_S = 0.8


@pytest.fixture(scope="module")
def step() -> Iterator[ht.TrainStep]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 10))
    made = ht.train_step(model, nn.functional.cross_entropy,
                         torch.optim.SGD(model.parameters(), lr=0.01), example=(X, Y),
                         device=find_devices()[0].label)
    float(made(X, Y))
    yield made
    made.close()


def trained(step: ht.TrainStep, seconds: float) -> int:
    """Steps for so long, each waited for."""
    until, count = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        float(step(X, Y))
        count += 1
    return count


def trained_until_read(step: ht.TrainStep, run: Profile) -> int:
    """Steps, until the sampler has read 10 times: a busy machine lets it start late."""
    count, give_up = trained(step, 0.2), time.monotonic() + 30
    sampling = run.sensing._sampling
    assert sampling is not None
    while time.monotonic() < give_up and not any(
            s.signal.meter == "procfs" and len(s.value) >= 10 for s in sampling.readings().series):
        count += trained(step, 0.05)
    return count


def profiled(step: ht.TrainStep, seconds: float = LONG_S, sheet: str | None = None
             ) -> tuple[Profile, int]:
    with ht.profile(step, name="mlp", sheet=sheet) as run:
        count = trained(step, seconds)
    return run, count


def test_the_machine_is_read_every_10_ms_beside_the_steps(step: ht.TrainStep) -> None:
    run, count = profiled(step)
    found = run.run
    assert len(found.steps) == count
    inside = [s for s in found.samples if s.quantity == "process_busy_s"
              and found.steps[0].start_ns <= s.time_ns <= found.steps[-1].end_ns]
    (missed,) = [r.value for r in found.results if r.name == "deadlines missed by the sampler"]
    due = (found.steps[-1].end_ns - found.steps[0].start_ns) / 1e7
    rarely = any("more rarely" in m.why for m in found.missing)     # to keep to its share
    assert rarely or 0.6 * due - (missed or 0) < len(inside)
    assert 0 < len(inside) < 1.5 * due
    assert {s.provenance for s in found.samples} == {"measured"}
    (used,) = [r for r in found.results if r.name == "cores used by the process"]
    assert used.value is not None and 0 < used.value <= (os.cpu_count() or 1) + 0.5
    assert "the process used" in run.table() and "% of one core" in run.table()
    assert "cores busy, with all other programs: cpu0 " in run.table()


def test_a_sheet_gives_estimated_joules(step: ht.TrainStep, tmp_path: Path) -> None:
    run, _ = profiled(step, 0.1, sheet="nexus-5")
    assert {e.provenance for e in run.run.energies} == {"estimated"}
    assert "energy estimated by sheet device_power_w" in run.table()
    run.save(tmp_path / "one.htr")
    assert read_run(tmp_path / "one.htr").energies == run.run.energies


def test_without_sensors_there_are_no_readings(step: ht.TrainStep) -> None:
    with ht.profile(step, sensors=False) as run:
        trained(step, 0.05)
    assert not run.run.signals and not run.run.missing
    assert "one core" not in run.table()


def cut_short(run: Run) -> str:
    """What a report says of a sampler that failed; readings until then are there."""
    assert run.samples and run.steps
    assert max(s.time_ns for s in run.samples if s.meter == "procfs") < run.steps[-1].end_ns
    return "\n".join(m.why for m in run.missing if m.source == "sampler")


def test_a_sampler_that_dies_takes_only_its_readings_with_it(
        step: ht.TrainStep, tmp_path: Path) -> None:
    with ht.profile(step, name="mlp") as run:
        before = trained_until_read(step, run)
        assert run.sensing.sampler_pid is not None
        os.kill(run.sensing.sampler_pid, signal.SIGKILL)
        after = trained(step, 0.3)
    assert len(run.run.steps) == before + after
    run.save(tmp_path / "one.htr")
    again = read_run(tmp_path / "one.htr")
    assert "the sampler died (SIGKILL) after " in cut_short(again)
    assert "the sampler died (SIGKILL)" in run.table()


def test_a_sampler_that_stands_still_is_told(step: ht.TrainStep) -> None:
    with ht.profile(step, name="mlp") as run:
        trained_until_read(step, run)
        run.sensing.hold(True)
        trained(step, 0.5)
        began = time.monotonic()
    assert time.monotonic() - began < 15            # 2 s, where nobody else is busy
    said = cut_short(run.run)
    assert "the sampler did not end when asked and was killed" in said
    assert "no reading from " in said


def test_no_room_for_readings_is_told(step: ht.TrainStep, tmp_path: Path,
                                      monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    run, count = profiled(step, 0.05)
    assert count and not run.run.signals
    assert [m.why for m in run.run.missing] == [
        "no folder for readings: No such file or directory"]


def test_no_folder_is_left_behind(step: ht.TrainStep, tmp_path: Path,
                                  monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    run, _ = profiled(step, 0.1)
    assert run.run.signals and list(tmp_path.iterdir()) == []


def test_what_it_costs_is_measured_with_the_sampler_held_and_not(step: ht.TrainStep) -> None:
    run, _ = profiled(step, 0.1)
    found = run.audit(lambda: float(step(X, Y)), pairs=9)
    assert found.wall.pairs == 9 and -90 < found.wall.percent < 400
    assert "overhead of this profile: " in run.table()


def test_a_tree_of_files_gives_simulated_readings(
        step: ht.TrainStep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    zone = tmp_path / "sys/class/thermal/thermal_zone0"
    zone.mkdir(parents=True)
    (zone / "type").write_text("soc\n")
    (zone / "temp").write_text("41500\n")
    monkeypatch.setenv("HANDTORCH_SENSORS", str(tmp_path))
    run, _ = profiled(step, 0.05)
    seen = {(s.quantity, s.value, s.provenance) for s in run.run.samples
            if s.meter not in ("process", "/proc/stat")}
    assert seen == {("soc_c", 41.5, "simulated")}


def test_a_sheet_that_is_not_there_is_refused_at_once(step: ht.TrainStep) -> None:
    with pytest.raises(BadInput, match="no sheet 'nokia'"):
        ht.profile(step, sheet="nokia")
