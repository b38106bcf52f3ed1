from __future__ import annotations

import os
from pathlib import Path

import pytest

from handtorch.studies import kept
from handtorch.studies.kept import Kept, held
from handtorch.studies.kept_told import told
from handtorch.studies.training_cells import Cell, Kind, to_json


def test_rows_in_the_order_in_which_they_came(tmp_path: Path) -> None:
    store = Kept(tmp_path, {"device": "pocl"})
    rows = {
        "z-first": to_json(Cell(Kind("DQN"), 16, "device", "measured", step_s=(0.02, 0.01, 0.04))),
        "a-second": to_json(Cell(Kind("DQN"), 64, "torch", "not run", "it needs 9 bytes")),
        "daily": {"days": [{"held_out": 0.1}, {"held_out": 0.75}], "bytes": 5},
        "plan": {"held_bytes": 2_500_000, "batch": 4}, "other": {"a": 1}}
    with held(tmp_path):
        for at, (key, row) in enumerate(rows.items()):
            store.put(key, row)
            os.utime(tmp_path / f"{key}.json", (at, at))
    assert told(tmp_path) == [
        ("z-first", "800 samples/s"), ("a-second", "not run: it needs 9 bytes"),
        ("daily", "held-out accuracy 75.0%"), ("plan", "planned, 2.5 MB"), ("other", "")]


def test_rows_of_other_code_than_the_newest_say_so(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Kept(tmp_path, {}).put("old", {"held_bytes": 1_000_000})
    monkeypatch.setattr(kept, "sources", lambda without: "changed")
    Kept(tmp_path, {}).put("new", {"held_bytes": 2_000_000})
    os.utime(tmp_path / "old.json", (1, 1))
    assert told(tmp_path) == [("old", "kept by other code, and left out"),
                              ("new", "planned, 2.0 MB")]


def test_files_that_are_no_rows_are_left_out(tmp_path: Path) -> None:
    for at, text in enumerate(("", "{", "[]", '{"version": 99, "row": {}}', "[" * 9000)):
        (tmp_path / f"{at}.json").write_text(text)
    assert told(tmp_path) == [] and told(tmp_path / "nowhere") == []


def test_hostile_rows_are_only_dull(tmp_path: Path) -> None:
    for at, row in enumerate(('{"state": "measured", "batch": 4, "step_s": [0]}',
                              '{"state": "measured", "batch": 4, "step_s": ["x"]}',
                              '{"days": [3]}', '{"days": [{"held_out": "x"}]}')):
        (tmp_path / f"{at}.json").write_text(f'{{"version": 1, "row": {row}}}')
    assert [text for _, text in told(tmp_path)] == ["", "", "", ""]
