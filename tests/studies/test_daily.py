"""The study `daily`, small: digits, and what its figures say."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from handtorch.record import RunWriter, read_run
from handtorch.runtime.opencl.discover import FoundDevice
from handtorch.studies import daily, kept
from handtorch.studies.daily_scene import DAYS, PER_DAY, digits, scene_of, schooled
from handtorch.studies.study import Setting, record_setting
from handtorch.studies.training_observations import Day


def days(batch: int, *held_out: float, seed: int = 0) -> list[Day]:
    return [Day(batch, seed, i, 0.5, h) for i, h in enumerate(held_out)]


def test_the_quick_form_and_a_machine_without_pictures_learn_digits(
        monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HANDTORCH_SHARED", raising=False)
    assert scene_of(quick=True).note == "the quick form"
    assert scene_of(quick=False).note == "HANDTORCH_SHARED names no folder with CIFAR-10"


def test_no_image_is_in_two_parts_and_every_day_has_new_ones() -> None:
    scene = digits("")
    assert len(scene.new[0]) == DAYS * PER_DAY
    kinds = [{row.tobytes() for row in part[0]} for part in (scene.old, scene.new)]
    assert len(scene.old[0]) + len(scene.new[0]) == 1437
    assert not kinds[0] & kinds[1]


def test_school_is_attended_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HANDTORCH_CACHE", str(tmp_path))
    scene = replace(digits(""), school=replace(digits("").school, wanted=0.3))
    said: list[str] = []
    _, how, weights = schooled(scene, said.append)
    file, = tmp_path.glob("pretrained/*")
    stamp = file.stat().st_mtime_ns
    assert schooled(scene, said.append)[1:] == (how, weights)
    assert file.stat().st_mtime_ns == stamp
    other = replace(scene, old=(scene.old[0][1:], scene.old[1][1:]))
    assert schooled(other, said.append)[2] != weights       # other images, another school


def test_a_small_batch_is_worth_it_if_it_is_no_worse_by_more_than_seeds_differ() -> None:
    small = days(4, 0.4, 0.6) + days(4, 0.4, 0.61, seed=1)
    large = days(64, 0.4, 0.61) + days(64, 0.4, 0.59, seed=1)
    held = {4: 100, 64: 900}
    assert daily.costs(small + large, held).holds is True
    better = days(64, 0.4, 0.90) + days(64, 0.4, 0.90, seed=1)
    assert daily.costs(small + better, held).holds is False
    assert daily.costs(small, {4: 100}).holds is None


def test_seventeen_days_on_the_device(opencl_device: FoundDevice, tmp_path: Path,
                                      monkeypatch: pytest.MonkeyPatch) -> None:
    """Both accuracies for every day, better than before; the second time nothing is measured."""
    monkeypatch.setattr(daily, "SEEDS", (0, 1))
    monkeypatch.setattr(daily, "scene_of", lambda quick: replace(digits(""), batches=(16, 64)))
    said: list[str] = []

    def once(name: str) -> str:
        with RunWriter.create(tmp_path / name, "test") as record:
            record_setting(record, opencl_device)
            return daily.run(Setting(opencl_device, record, True, said.append,
                                     kept=tmp_path / "kept"))
    (tmp_path / "kept").mkdir()
    told = once("a.htr")
    run = read_run(tmp_path / "a.htr")
    for name in (daily.TRAINING, daily.HELD_OUT):
        rows = [r for r in run.results if r.name == f"{name}, digits"]
        assert [(r.subject, r.x_value) for r in rows] == [
            (f"batch {b}", d) for b in (16, 64) for d in range(DAYS + 1)]
        assert all(r.repeats == 2 and r.spread is not None for r in rows)
        assert rows[DAYS].value > rows[0].value                     # type: ignore[operator]
    memory = [r.value for r in run.results if r.name == daily.MEMORY]
    assert memory == sorted(set(memory)) and len(memory) == 2       # type: ignore[type-var]
    assert next(v.holds for v in run.verdicts) is True
    said.clear()
    assert once("b.htr") == told
    assert not any("seed" in line for line in said)
    monkeypatch.setattr(kept, "sources", lambda without: "other")
    assert "4 kept rows of other code (sources " in once("c.htr")
    assert sum(", seed " in line for line in said) == 4             # all of them again
    assert read_run(tmp_path / "c.htr").verdicts[-1].question == kept.SAME_CODE


def test_a_last_batch_that_is_not_whole_is_counted_once() -> None:
    x, y = np.arange(5), np.array([0, 1, 2, 3, 0])

    def infer(rows: np.ndarray) -> np.ndarray:
        return np.eye(5)[rows]
    assert daily.share_right(infer, x, y, 2) == 4 / 5               # type: ignore[arg-type]
