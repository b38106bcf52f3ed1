"""The digits study into a real run file on a real device: learned, timed, shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from handtorch.baseline.fair import Timing
from handtorch.record import RunWriter, read_run
from handtorch.report import render
from handtorch.studies import digits
from handtorch.studies.study import Setting, record_setting

pytestmark = pytest.mark.spread


def test_the_study_learns_and_records(opencl_device: Any, tmp_path: Path) -> None:
    path = tmp_path / "run.htr"
    with RunWriter.create(path, "test") as record:
        record_setting(record, opencl_device)
        text = digits.run(Setting(opencl_device, record, True, lambda _: None))
    run = read_run(path)
    (verdict,) = run.verdicts
    assert verdict.holds, verdict.answer
    assert verdict.answer in text
    accuracy = {r.subject: r.value for r in run.results if r.name == "accuracy"}
    assert accuracy[digits.OURS] >= digits.WANTED
    assert abs(accuracy[digits.OURS] - accuracy[digits.THEIRS]) <= digits.ALLOWED_GAP
    assert {launch.phase for launch in run.launches} == {"forward", "backward", "optimizer"}
    assert all(launch.source_line for launch in run.launches)
    assert {m.role for m in run.memory} >= {"parameters", "optimizer state", "intermediates"}
    losses = [r.value for r in run.results if r.name == "loss" and r.subject == digits.OURS]
    assert losses[-1] < losses[0] / 4
    assert "perceptron 64-64-10" in render(run)


def test_nothing_is_said_of_speed_beside_other_programs() -> None:
    times = {digits.OURS: Timing((1e-4,), 1), digits.THEIRS: Timing((3e-4,), 1)}
    start = "The captured step reaches 96.0% on unseen digits, PyTorch 96.1% from the same start; "
    assert digits._judge((0.960, 0.961), times, 0.01).answer == (
        start + "a step is 3.0 times as fast as PyTorch eager.")
    assert digits._judge((0.960, 0.961), times, 0.40).answer == (
        start + "other programs used 40% of this machine's cores meanwhile, so nothing is said of "
        "speed.")
