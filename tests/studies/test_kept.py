"""Rows of a long study on the disk: kept, found again, and written by one run at a time."""

from __future__ import annotations

from pathlib import Path

import pytest

from handtorch.errors import BadInput, StorageError
from handtorch.studies.kept import Kept, held


def test_a_row_is_found_again_by_its_key_and_its_setting(tmp_path: Path) -> None:
    Kept(tmp_path, {"device": "pocl"}).put("a-b4", {"x": [1, 2]})
    assert Kept(tmp_path, {"device": "pocl"}).get("a-b4") == {"x": [1, 2]}
    assert Kept(tmp_path, {"device": "pocl"}).get("a-b8") is None
    assert Kept(tmp_path, {"device": "intel"}).get("a-b4") is None


def test_a_row_of_another_version_is_as_if_it_were_not_there(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"version": 0, "setting": {}, "row": 1}')
    (tmp_path / "b.json").write_text("[1]")
    assert [Kept(tmp_path, {}).get(k) for k in "ab"] == [None, None]


def test_a_damaged_row_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"version": 1, "row"')
    with pytest.raises(StorageError, match=r"a\.json.*\n  try: remove it, and it is measured"):
        Kept(tmp_path, {}).get("a")


def test_a_second_run_into_the_same_folder_is_refused_while_the_first_runs(tmp_path: Path) -> None:
    folder = tmp_path / "run.kept"
    with held(folder):
        with pytest.raises(BadInput) as refused, held(folder):
            pass
        assert str(refused.value) == (
            f"a second run into {folder}: another one that still runs writes there\n"
            "  try: wait for it, or another --out")
    with held(folder):
        pass                                # afterwards it is free
