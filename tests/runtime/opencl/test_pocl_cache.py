"""PoCL's kernel cache: what is whole stays, what is cut off goes, before PoCL can trip over it."""

from __future__ import annotations

import os
import struct
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handtorch.runtime.opencl.pocl_cache import mend


def elf(wide: bool, little: bool) -> bytes:
    """A head, 500 bytes of code, and a table of 3 sections at the very end."""
    order, size = "<" if little else ">", 64 if wide else 40
    head = bytearray(64)
    head[:6] = b"\x7fELF" + bytes([2 if wide else 1, 1 if little else 2])
    struct.pack_into(order + ("Q" if wide else "I"), head, 40 if wide else 32, 564)
    struct.pack_into(order + "HH", head, 58 if wide else 46, size, 3)
    return bytes(head) + b"c" * 500 + b"s" * (3 * size)


def bitcode(*blocks: tuple[int, int]) -> bytes:
    """Blocks of (id, words), as LLVM writes them: 13 names the maker, 8 is the module."""
    body = (struct.pack("<II", 1 | block << 2 | 3 << 10, words) + b"m" * 4 * words
            for block, words in blocks)
    return b"BC\xc0\xde" + b"".join(body)


WHOLE = {
    "wide.so": elf(True, True), "narrow.so": elf(False, True), "big.so": elf(True, False),
    "program.bc": bitcode((13, 5), (8, 90), (25, 7), (23, 11)),
}


def fill(folder: Path, files: dict[str, bytes]) -> dict[str, Path]:
    place = folder / "AB" / "CDEF" / "kernel" / "16-1-1"
    place.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (place / name).write_bytes(data)
    return {name: place / name for name in files}


def test_whole_files_stay(tmp_path: Path) -> None:
    paths = fill(tmp_path, WHOLE | {"last_accessed": b"", "program.txt": b""})
    assert mend(tmp_path) == ()
    assert all(path.exists() for path in paths.values())


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("data", [b"", b"\0" * 700, b"\x7fELF", b"BC\xc0\xde", b"foreign" * 99,
                                  b"BC\xc0\xde" + b"\xff" * 64])
def test_a_foreign_file_goes(tmp_path: Path, name: str, data: bytes) -> None:
    paths = fill(tmp_path, WHOLE | {name: data})
    assert mend(tmp_path) == (
        f"1 damaged file(s) were removed from PoCL's cache {tmp_path}: those kernels are "
        "compiled again",)
    assert {n for n, path in paths.items() if not path.exists()} == {name}
    assert mend(tmp_path) == ()


@given(name=st.sampled_from(sorted(WHOLE)), data=st.data())
@settings(max_examples=120, deadline=None)
def test_a_file_cut_off_anywhere_goes(tmp_path_factory: pytest.TempPathFactory, name: str,
                                      data: st.DataObject) -> None:
    """Also between two blocks of bitcode: the table of names, the last one, is missing then."""
    folder = tmp_path_factory.mktemp("pocl")
    end = data.draw(st.one_of(st.integers(0, len(WHOLE[name]) - 1), st.sampled_from([32, 404])))
    paths = fill(folder, {name: WHOLE[name][:end]})
    assert len(mend(folder)) == 1 and not paths[name].exists()


def test_only_old_temporary_files_go_and_only_of_pocl(tmp_path: Path) -> None:
    """Of those at the top others may be writing one right now."""
    names = ("tempfile_a", "tempfile_b.so", "tempfile_c", "mine.so")
    for name in names:
        (tmp_path / name).write_bytes(b"")
    old = time.time() - 25 * 3600
    for name in ("tempfile_a", "tempfile_b.so", "mine.so"):
        os.utime(tmp_path / name, (old, old))
    assert mend(tmp_path) == ()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["mine.so", "tempfile_c"]


def test_an_empty_folder(tmp_path: Path) -> None:
    assert mend(tmp_path) == ()
