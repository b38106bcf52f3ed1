from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

from handtorch.errors import BadFile
from handtorch.zoo.data.packed import read_npz
from tests.zoo.data.damage import changes, cuts, refused_or, same, text_of_error

X = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
WANTED = {"x": ("u", 3)}


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_every_cut_and_change_is_refused_or_harmless(tmp_path: Path, save: object) -> None:
    path = tmp_path / "a.npz"
    save(path, x=X)                                                 # type: ignore[operator]
    data = path.read_bytes()
    assert np.array_equal(read_npz(path, WANTED)["x"], X)
    assert not read_npz(path, WANTED)["x"].flags.writeable

    def read(file: Path) -> object:
        return read_npz(file, WANTED)["x"]

    assert refused_or(path, cuts(data, 3), read, lambda _: False) == -(-len(data) // 3)
    # Some bytes of a zip archive, such as its dates, say nothing of the contents.
    assert refused_or(path, changes(data, range(len(data))), read,
                      lambda found: same((found,), (X,))) > len(data)


def test_an_array_larger_than_its_file_is_not_allocated(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "|u1", "fortran_order": False, "shape": (1 << 40, 3, 4)})
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x.npy", header.getvalue() + b"1234")
    with pytest.raises(BadFile) as error:
        read_npz(path, WANTED)
    assert text_of_error(error, path) == (
        "FILE cannot be used: at byte 0: x.npy says 1099511627776x3x4 uint8, 13194139533312 bytes, "
        "and 4 bytes follow\n"
        "  try: download it again; it was cut or changed on the way, or is another file")


def test_objects_and_absent_arrays_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, x=np.array([[[{}]]], object))
    with pytest.raises(BadFile, match=r"x\.npy is object with 3 axes, expected a kind of 'u'"):
        read_npz(path, WANTED)
    np.savez(path, y=X)
    with pytest.raises(BadFile, match=r"there is no 'x' in it; it holds y\.npy"):
        read_npz(path, WANTED)
