"""The cells of the study `training`: what is run, what is not and why, and what is kept."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from handtorch.baseline.parity import losses_agree
from handtorch.graph.device_spec import DeviceSpec
from handtorch.runtime.opencl.discover import FoundDevice
from handtorch.studies.kept import Kept
from handtorch.studies.training_cells import (
    DEVICE,
    TORCH,
    Cell,
    Kind,
    Planned,
    cell_from,
    planned_from,
    to_json,
)
from handtorch.studies.training_memory import expected_bytes
from handtorch.studies.training_rows import pairs, parity, rows_of
from handtorch.studies.training_run import Asked, Runner, between
from handtorch.studies.training_tables import cell_table, memory_text, table_ii
from handtorch.studies.training_watch import Length

KIND = Kind("Model1")
PLAN = Planned(KIND, 4, 1000, 500, 500, 1.0, 0.1, 272, 512, 7)


def runner(folder: Path, said: list[str] | None = None) -> Runner:
    """One that cannot start a device: what it decides before a process is started."""
    spec = DeviceSpec.from_dict({**_FACTS})
    return Runner(Asked((KIND,), (4,), (DEVICE,), "none", spec, 1000), Kept(folder, {}),
                  [].append if said is None else said.append)


_FACTS: dict[str, object] = {}


@pytest.fixture(autouse=True)
def facts(opencl_device: FoundDevice) -> None:
    _FACTS.update(opencl_device.spec.to_dict())


def test_what_does_not_fit_is_not_run_and_says_what_it_needs(tmp_path: Path) -> None:
    large = replace(PLAN, held_bytes=5000, budget_bytes=None, slow_down=None)
    found = runner(tmp_path)._cell(KIND, 4, DEVICE, large, "")
    assert (found.state, found.reason) == ("not run", "it needs 5,000 bytes, the limit is 1,000")
    too_wide = replace(large, held_bytes=None)
    assert runner(tmp_path)._cell(KIND, 4, TORCH, too_wide, "").reason == (
        "a tensor of it is too large for the device, the limit is 1,000")


def test_what_fits_only_within_a_budget_is_not_run_in_torch(tmp_path: Path) -> None:
    traded = replace(PLAN, held_bytes=5000, budget_bytes=900, slow_down=1.2)
    assert runner(tmp_path)._cell(KIND, 4, TORCH, traded, "").state == "not run"


def test_a_cell_of_more_than_three_minutes_is_not_run_with_its_estimate(tmp_path: Path) -> None:
    slow = replace(PLAN, estimate_s=30.0)
    found = runner(tmp_path)._cell(KIND, 4, DEVICE, slow, "")
    assert (found.state, found.estimate_s) == ("not run", 270.0)
    assert found.reason == "about 270 s are predicted from the device's sheet, more than 180"


def test_a_smaller_batch_that_was_measured_predicts_better_than_the_sheet(tmp_path: Path) -> None:
    one = runner(tmp_path)
    one.found.cells.append(Cell(KIND, 4, DEVICE, "measured", step_s=(8.0, 9.0, 8.5)))
    found = one._cell(KIND, 16, DEVICE, replace(PLAN, batch=16), "")
    assert found.reason == "about 306 s are predicted from batch 4, more than 180"


@pytest.mark.parametrize(("low", "high", "met"), [(4, 256, 128), (128, 256, 192), (0, 4, 2)])
def test_the_largest_batch_is_looked_for_where_a_line_meets_the_memory(
        low: int, high: int, met: int) -> None:
    plans = {b: replace(PLAN, batch=b, held_bytes=20 + 10 * b) for b in (4, 16)}
    assert between(low, high, plans, 20 + 10 * 128 + 5) == met


def test_rows_come_back_from_json_as_they_were() -> None:
    cell = Cell(KIND, 4, DEVICE, "measured", step_s=(0.1, 0.2), losses=((1.0, 2.0),))
    assert cell_from(to_json(cell)) == cell
    assert planned_from(to_json(PLAN)) == PLAN


def test_losses_agree_if_the_first_is_the_same_and_later_ones_nearly() -> None:
    ours = Cell(KIND, 4, DEVICE, "measured", losses=((2.0,), (1.9,), (1.8,)))
    theirs = replace(ours, side=TORCH, losses=((2.000002,), (1.9,), (1.81,)))
    found = parity(ours, theirs)
    assert found == pytest.approx((1e-6, 0.0, 0.01 / 1.81), rel=1e-5)
    assert losses_agree(found)
    assert not losses_agree((1e-3, 0.0, 0.0))
    assert not losses_agree((0.0, 0.0, 0.2))
    assert not losses_agree(())


@pytest.mark.slow                            # eight processes, most of which load torch
def test_both_sides_of_a_small_model_and_one_that_fails(opencl_device: FoundDevice,
                                                        tmp_path: Path) -> None:
    """A model that cannot even be made does not stop the next one; the second time nothing runs."""
    nonsense = Kind("Nonsense")
    asked = Asked((nonsense, KIND), (2,), (TORCH, DEVICE), opencl_device.label, opencl_device.spec,
                  1 << 30, Length(seconds=0.05), feasible=(), data="generated")
    said: list[str] = []
    found = Runner(asked, Kept(tmp_path, asked.setting()), said.append).run()
    assert [(c.kind, c.side, c.state) for c in found.cells] == [
        (nonsense, TORCH, "failed"), (nonsense, DEVICE, "failed"),
        (KIND, TORCH, "measured"), (KIND, DEVICE, "measured")]
    ((ours, theirs),) = pairs(found.cells)
    assert losses_agree(parity(ours, theirs)) and len(ours.losses) == 3
    assert ours.source == theirs.source == "generated"
    assert len(ours.step_s) >= 3 and ours.samples_per_s
    assert found.largest[KIND] == (2, 2)
    assert ours.memory and ours.memory.planned_bytes and found.bare
    assert expected_bytes(ours, found.bare) == pytest.approx(ours.memory.peak_bytes, rel=0.1)
    again = Runner(asked, Kept(tmp_path, asked.setting()), said.append).run()
    assert again == found
    rows = [r for r in rows_of(found, opencl_device.label) if r.subject == "Model1"]
    assert {r.name for r in rows} >= {"throughput", "peak memory", "times as fast as torch",
                                      "loss: difference from torch, step 1", "memory: parameters"}
    assert "Nonsense b2, torch: failed" in cell_table(found, opencl_device.label)
    assert "within 10% in 1 of 1 cells" in memory_text(found)
    assert "Model1" not in table_ii(found, asked.memory_bytes)      # no model of the paper's table
