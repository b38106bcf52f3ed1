from __future__ import annotations

import gzip
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from handtorch.errors import BadFile, BadInput
from handtorch.zoo.data.idx import load_mnist, read_idx
from tests.zoo.data.damage import changes, cuts, refused_or, same, text_of_error

SMALL = np.arange(12, dtype=np.uint8).reshape(3, 2, 2)


def idx(array: Any) -> bytes:
    head = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape)
    return head + array.tobytes()


def write_mnist(folder: Path, count: int, dot: str = "-", packed: bool = False) -> Any:
    x = np.random.default_rng(0).integers(0, 256, (count, 28, 28), np.uint8)
    y = np.arange(count, dtype=np.uint8) % 10
    for part in ("train", "t10k"):
        for kind, array in (("images", x), ("labels", y)):
            name = f"{part}-{kind}{dot}idx{array.ndim}-ubyte"
            data = gzip.compress(idx(array)) if packed else idx(array)
            (folder / f"{name}{'.gz' if packed else ''}").write_bytes(data)
    return x, y


@settings(max_examples=30, deadline=None)
@given(arrays(np.uint8, st.tuples(*[st.integers(1, 5)] * 3)), st.booleans())
def test_round_trip(tmp_path_factory: pytest.TempPathFactory, array: Any, packed: bool) -> None:
    path = tmp_path_factory.mktemp("i") / ("a.gz" if packed else "a")
    path.write_bytes(gzip.compress(idx(array)) if packed else idx(array))
    found = read_idx(path, 3)
    assert np.array_equal(found, array) and not found.flags.writeable


@pytest.mark.parametrize("packed", [False, True])
def test_every_cut_and_every_change_of_a_header(tmp_path: Path, packed: bool) -> None:
    """Of gz every byte is changed: it has a checksum; its name, time and flags say nothing."""
    path = tmp_path / ("a.gz" if packed else "a")
    data = gzip.compress(idx(SMALL)) if packed else idx(SMALL)

    def read(file: Path) -> Any:
        return read_idx(file, 3)

    assert refused_or(path, cuts(data), read, lambda _: False) == len(data)
    damaged = list(changes(data, range(len(data) if packed else 16)))
    refused = refused_or(path, iter(damaged), read, lambda found: same((found,), (SMALL,)))
    assert refused > len(damaged) // 2 if packed else refused == len(damaged)


def test_a_size_beyond_the_file_is_not_allocated(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(struct.pack(">HBB3I", 0, 8, 3, 1 << 31, 1 << 31, 4) + b"123")
    with pytest.raises(BadFile) as error:
        read_idx(path, 3)
    assert text_of_error(error, path) == (
        "FILE cannot be used: at byte 4: the header says 2147483648x2147483648x4, "
        "18446744073709551616 bytes, and 3 follow\n"
        "  try: download it again; it was cut or changed on the way, or is another file")
    (packed := tmp_path / "a.gz").write_bytes(gzip.compress(path.read_bytes()))
    with pytest.raises(BadFile, match=r"at byte 4: the header says .* and at most \d+ follow"):
        read_idx(packed, 3)


def test_a_packed_file_tells_how_far_it_could_be_read(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    noise = np.random.default_rng(0).integers(0, 256, (9, 28, 28), np.uint8)
    path.write_bytes(gzip.compress(idx(noise))[:4000])
    with pytest.raises(BadFile, match=r"at byte 3[0-9]{3}: it cannot be unpacked: Compressed file"):
        read_idx(path, 3)


@pytest.mark.parametrize(("dot", "packed"), [("-", False), (".", False), ("-", True)])
def test_a_folder_as_published(tmp_path: Path, dot: str, packed: bool) -> None:
    x, y = write_mnist(tmp_path, 20, dot, packed)
    data = load_mnist(tmp_path)
    assert np.array_equal(data.train[0][:, 0], x) and np.array_equal(data.held_out[1], y)


def test_wrong_labels_and_absent_files(tmp_path: Path) -> None:
    write_mnist(tmp_path, 3)
    labels = tmp_path / "t10k-labels-idx1-ubyte"
    labels.write_bytes(idx(np.array([1, 2, 11], np.uint8)))
    with pytest.raises(BadFile, match="at byte 10: label 11 of sample 2, expected 0 to 9"):
        load_mnist(tmp_path)
    labels.write_bytes(idx(np.array([1, 2], np.uint8)))
    with pytest.raises(BadFile, match="2 labels for 3 pictures"):
        load_mnist(tmp_path)
    labels.unlink()
    with pytest.raises(BadInput, match=r"t10k-labels-idx1-ubyte is not there, nor with \.gz"):
        load_mnist(tmp_path)
