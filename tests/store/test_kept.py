"""What is kept comes back; nothing comes back that this user's key does not vouch for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from handtorch.store import kept as store
from handtorch.store.kept import NotKept, keep, kept

NAME = "a" * 64


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HANDTORCH_CACHE", str(tmp_path))
    return tmp_path / "kept"


def test_it_comes_back_as_it_was() -> None:
    assert kept(NAME, ()) is None
    keep(NAME, {"steps": (1, 2)})
    assert kept(NAME, ()) == {"steps": (1, 2)}
    assert kept("b" * 64, ()) is None


def test_nothing_of_another_is_read(folder: Path) -> None:
    keep(NAME, 1)
    whole = (folder / NAME).read_bytes()
    for data in (b"2", bytes(32) + b"2", whole[:32] + b"2", b""):
        (folder / NAME).write_bytes(data)
        assert kept(NAME, ()) is None


def test_what_was_cut_off_or_renamed_is_not_believed(folder: Path) -> None:
    keep(NAME, tuple(range(1000)))
    whole = (folder / NAME).read_bytes()
    (folder / ("b" * 64)).write_bytes(whole)
    assert kept("b" * 64, ()) is None
    (folder / NAME).write_bytes(whole[:-1])
    assert kept(NAME, ()) is None


def test_another_key_vouches_for_nothing_here(folder: Path) -> None:
    keep(NAME, 1)
    (folder.parent / "programs.key").write_bytes(bytes(32))
    assert kept(NAME, ()) is None


def test_a_folder_that_cannot_be_written_costs_only_time(folder: Path) -> None:
    folder.write_text("a file in its place")
    with pytest.warns(NotKept, match="not kept for the next start: .*File exists"):
        keep(NAME, 1)
    assert kept(NAME, ()) is None


def test_the_oldest_go_first(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "MOST_FILES", 2)
    for number, letter in enumerate("abc"):
        keep(letter * 64, letter)
        os.utime(folder / (letter * 64), ns=(number, number))
    keep("d" * 64, "d")
    assert sorted(f.name[0] for f in folder.iterdir()) == ["c", "d"]
