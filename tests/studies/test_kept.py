"""Rows of a long study on the disk: kept, found again, and written by one run at a time."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from handtorch.errors import BadInput, StorageError
from handtorch.knobs import environment_for_child
from handtorch.record import Software
from handtorch.runtime.choose import open_executor
from handtorch.studies import kept
from handtorch.studies.kept import Kept, code, held


def test_a_row_is_found_again_by_its_key_and_its_setting(tmp_path: Path) -> None:
    Kept(tmp_path, {"device": "pocl"}).put("a-b4", {"x": [1, 2]})
    assert Kept(tmp_path, {"device": "pocl"}).get("a-b4") == {"x": [1, 2]}
    assert Kept(tmp_path, {"device": "pocl"}).get("a-b8") is None
    assert Kept(tmp_path, {"device": "intel"}).get("a-b4") is None


def test_a_row_of_another_version_is_as_if_it_were_not_there(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"version": 0, "setting": {}, "row": 1}')
    (tmp_path / "b.json").write_text("[1]")
    assert [Kept(tmp_path, {}).get(k) for k in "ab"] == [None, None]


@pytest.fixture
def changed(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From then on the sources are others."""
    return lambda: monkeypatch.setattr(kept, "sources", lambda without: "0123456789abcdef")


def test_a_row_of_other_code_is_left_out_and_told_of(
        tmp_path: Path, changed: Callable[[], None]) -> None:
    first = Kept(tmp_path, {})
    for key in ("a", "b", "c"):
        first.put(key, 1)
    (tmp_path / "b.json").write_text('{"version": 1, "setting": {}, "row": 2}')
    before = code()["sources"]
    changed()
    said: list[str] = []
    second = Kept(tmp_path, {}, said.append)
    assert [second.get(key) for key in ("a", "b", "c", "d")] == [None] * 4
    assert said == ["rows that other code has kept are left out; another --out keeps them"]
    second.put("a", 5)
    assert second.get("a") == 5
    (told,) = second.verdict("training")
    assert (told.study, told.question, told.holds) == (
        "training", "Was every row of this run measured by the same code?", True)
    assert told.answer == (
        f"Yes: 2 kept rows of other code (sources {before} then, 0123456789ab now) left out: a, c; "
        "1 kept row of other code (it is not known which) left out: b.")


def test_rows_of_the_same_code_need_no_word(tmp_path: Path) -> None:
    Kept(tmp_path, {}).put("a", 1)
    again = Kept(tmp_path, {}, pytest.fail)
    assert again.get("a") == 1
    assert list(again.verdict("training")) == []


def test_code_that_changes_while_the_study_runs_is_told_of(
        tmp_path: Path, changed: Callable[[], None]) -> None:
    """Children run what is on the disk: the rows to come are not those of the rows before."""
    first = Kept(tmp_path, {})
    first.put("a", 1)
    changed()
    for number in range(10):
        first.put(f"b{number}", number)
    assert [first.get("a"), first.get("b3")] == [1, 3]      # of this run, and told of
    (told,) = first.verdict("daily")
    assert told.holds is False
    assert told.answer == ("No: the code was changed while the study ran, before "
                           "b0, b1, b2, b3, b4, b5, b6, b7 and 2 more.")
    assert Kept(tmp_path, {}).get("a") is None and Kept(tmp_path, {}).get("b3") == 3


def test_other_tuning_is_other_code(tmp_path: Path) -> None:
    spec = open_executor("null").spec
    Kept(tmp_path, {}, spec=spec).put("a", 1)
    assert Kept(tmp_path, {}, spec=spec).get("a") == 1
    tuned = Kept(tmp_path, {}, spec=replace(spec, tuned=(("gemm 8x8x8", "WG=64"),)))
    assert tuned.get("a") is None and tuned.left_out["a"].startswith("tuning ")


def test_other_libraries_are_other_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Kept(tmp_path, {}).put("a", 1)
    monkeypatch.setattr(kept, "software", lambda names: [
        Software(name=n, version="9.9") for n in names])
    again = Kept(tmp_path, {})
    assert again.get("a") is None and "torch " in again.left_out["a"]
    assert again.left_out["a"].endswith(" then, 9.9 now")


def test_no_long_study_loads_the_rooms_that_are_not_looked_at() -> None:
    """Else a change there could change a row, and the row would not know it."""
    studies = ("training", "training_child", "training_prepare", "daily")
    program = (f"import sys, {', '.join(f'handtorch.studies.{s}' for s in studies)}\n"
               "print(sorted({m.split('.')[1] for m in sys.modules if "
               "m.startswith('handtorch.')}))")
    done = subprocess.run([sys.executable, "-c", program], text=True, capture_output=True,
                          check=True, env=environment_for_child())
    loaded = ast.literal_eval(done.stdout)
    assert "lower" in loaded and not {"cli", "doctor", "report"} & set(loaded)


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
