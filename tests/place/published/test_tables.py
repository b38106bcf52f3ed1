from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from handtorch.place.published.row import Row
from handtorch.place.published.tables import NCNN, NCNN_CALIBRATES, table_rows

HEAD = "device,num_threads,powersave,gpu_device,loop_count,model,min_ms,max_ms,avg_ms\n"


@pytest.fixture(scope="module")
def rows(shared: Path) -> tuple[Row, ...]:
    return table_rows(shared)


def test_how_many_rows_calibrate_and_are_held_out(rows: tuple[Row, ...]) -> None:
    """The rules decide; these are what they decided when they were written."""
    found = Counter(r.tag for r in rows)
    assert found == {"calibration": 816, "held-out": 3307, "left-out": 4909}
    assert len({r.id for r in rows}) == len(rows)
    assert all(r.why for r in rows if r.tag == "left-out")


def test_the_same_networks_calibrate_in_every_setting(rows: tuple[Row, ...]) -> None:
    for row in rows:
        if row.framework.startswith("ncnn") and row.what in NCNN:
            wanted = "calibration" if row.what in NCNN_CALIBRATES else "held-out"
            assert row.tag == wanted, row.id


def written(folder: Path, text: str) -> tuple[Row, ...]:
    path = folder / "data" / "tables" / "ncnn_benchmark.csv"
    path.parent.mkdir(parents=True)
    path.write_text(HEAD + text)
    return table_rows(folder)


def test_a_setting_without_calibration_is_left_out(tmp_path: Path) -> None:
    (row,) = written(tmp_path, "a phone,4,0,-1,8,vgg16,900,910,905\n")
    assert (row.tag, row.why) == ("left-out", "nothing calibrates this setting")


def test_two_runs_of_one_device_stay_apart(tmp_path: Path) -> None:
    rows = written(tmp_path, "a phone,4,0,-1,8,alexnet,90,91,90\n"
                             "a phone,4,0,0,8,alexnet,50,51,50\n"
                             "a phone,4,0,-1,8,alexnet,80,81,80\n"
                             "a phone,4,0,-1,8,alexnet_int8,40,41,40\n")
    assert [r.setting for r in rows] == [
        "a phone, 4 threads, powersave 0, 8 loops", "a phone, GPU 0, powersave 0, 8 loops",
        "a phone, 4 threads, powersave 0, 8 loops, run 2",
        "a phone, 4 threads, powersave 0, 8 loops"]
    assert [r.tag for r in rows] == ["calibration"] * 3 + ["left-out"]
    assert [r.framework for r in rows] == ["ncnn-cpu", "ncnn-vulkan", "ncnn-cpu", "ncnn-cpu"]


def test_no_folder_no_rows(tmp_path: Path) -> None:
    assert table_rows(tmp_path) == ()
