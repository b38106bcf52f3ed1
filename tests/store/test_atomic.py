"""A file is whole whatever happens to its writer, and nothing stays beside it."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from handtorch.errors import StorageError
from handtorch.store import atomic
from handtorch.store.atomic import check_writable, write_atomically


def test_parts_become_one_file_that_others_may_read(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "er" / "file"
    old = os.umask(0o022)
    try:
        write_atomically(path, b"one", memoryview(b"two"), b"")
    finally:
        os.umask(old)
    assert path.read_bytes() == b"onetwo"
    assert path.stat().st_mode & 0o777 == 0o644
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_an_interrupt_leaves_the_old_or_the_new(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    path, real_call = tmp_path / "file", getattr(os, call)
    write_atomically(path, b"old")

    def interrupted(after: bool) -> Callable[..., None]:
        def stop(*arguments: Any) -> None:
            if after:
                real_call(*arguments)
            raise KeyboardInterrupt
        return stop

    for after in (False, True):
        monkeypatch.setattr(os, call, interrupted(after))
        with pytest.raises(KeyboardInterrupt):
            write_atomically(path, b"new")
        assert path.read_bytes() == (b"new" if call == "replace" and after else b"old")
        assert list(tmp_path.iterdir()) == [path]


def test_the_file_is_on_the_disk_before_it_has_its_name_and_the_name_after(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, kept = tmp_path / "file", []
    real = os.fsync

    def noting(handle: int) -> None:
        kept.append((os.readlink(f"/proc/self/fd/{handle}"), path.exists()))
        real(handle)

    monkeypatch.setattr(os, "fsync", noting)
    write_atomically(path, b"new")
    (made, early), (folder, late) = kept
    assert Path(made).name.startswith(".file.") and not early
    assert folder == str(tmp_path) and late


@pytest.mark.parametrize(("number", "raised"), [(errno.EINVAL, False), (errno.EIO, True)])
def test_a_disk_that_keeps_no_folders_is_no_error_and_a_broken_one_is(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, raised: bool) -> None:
    real = os.fsync

    def refusing(handle: int) -> None:
        if os.path.isdir(f"/proc/self/fd/{handle}"):
            raise OSError(number, os.strerror(number))
        real(handle)

    monkeypatch.setattr(os, "fsync", refusing)
    if raised:
        with pytest.raises(OSError, match="Input/output"):
            write_atomically(tmp_path / "file", b"new")
    else:
        write_atomically(tmp_path / "file", b"new")
    assert (tmp_path / "file").read_bytes() == b"new"


def test_what_a_killed_writer_left_is_removed_later_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "file"
    old, young, written = (tmp_path / f".file.{c * 16}" for c in "abc")
    others = tmp_path / f".file2.{'a' * 16}", tmp_path / ".file.bak", tmp_path / ".file.notes.txt"
    for left in (old, young, written, *others):
        left.write_bytes(b"x")
        if left is not young:
            os.utime(left, (time.time() - 61,) * 2)
    with written.open("rb") as file:             # its writer lives, and takes its time
        assert atomic._lock(file.fileno())
        write_atomically(path, b"new")
    assert sorted(tmp_path.iterdir()) == sorted((path, young, written, *others))
    write_atomically(path, b"new")
    assert not written.exists() and young.exists()


def test_what_cannot_be_written_is_refused_before_the_work(tmp_path: Path) -> None:
    check_writable(tmp_path / "new" / "a.ht")
    assert list((tmp_path / "new").iterdir()) == []
    (tmp_path / "file").touch()
    for path, why in ((tmp_path, "Is a directory"), (tmp_path / "file" / "a.ht", "File exists")):
        with pytest.raises(StorageError, match=f"^{path} cannot be written: {why}\n  try: "):
            check_writable(path)
