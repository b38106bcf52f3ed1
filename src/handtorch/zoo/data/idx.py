"""MNIST in its own format (idx, plain or gz), or one npz file.

    idx         two zero bytes, the type (8: bytes), the number of axes; each axis as four bytes,
                the most significant first; then the values

The four files are looked for under their usual names, with `-` or `.` before `idx`, with or
without `.gz`."""

from __future__ import annotations

import gzip
import zlib
from math import prod
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np

from handtorch.errors import BadInput
from handtorch.zoo.data.dataset import Array, Arrays, DataSet
from handtorch.zoo.data.opened import DEFLATE_RATIO, bad_at, size_of
from handtorch.zoo.data.pictures import check_labels, from_npz

SIDE = 28
_BYTES = 8


def load_mnist(path: Path) -> DataSet:
    """From a folder with the four idx files, or an npz file."""
    if path.is_dir():
        parts = [_part(path, prefix) for prefix in ("train", "t10k")]
        return DataSet("mnist", str(path), parts[0], parts[1])
    return DataSet("mnist", str(path), *from_npz(path, (SIDE, SIDE)))


def _part(folder: Path, prefix: str) -> Arrays:
    pictures = read_idx(images := _find(folder, f"{prefix}-images", 3), 3)
    if pictures.shape[1:] != (SIDE, SIDE):
        raise bad_at(images, 8, f"pictures of {pictures.shape[1]}x{pictures.shape[2]}, expected "
                                f"{SIDE}x{SIDE}")
    labels = read_idx(file := _find(folder, f"{prefix}-labels", 1), 1)
    check_labels(file, labels, len(pictures), 8)
    return pictures[:, None], labels


def _find(folder: Path, name: str, axes: int) -> Path:
    for dot in "-.":
        for packed in ("", ".gz"):
            path = folder / f"{name}{dot}idx{axes}-ubyte{packed}"
            if path.exists():
                return path
    raise BadInput(f"no MNIST in {folder}",
                   why=f"{name}-idx{axes}-ubyte is not there, nor with .gz",
                   fix="name the folder with the four files train-* and t10k-*")


def read_idx(path: Path, axes: int) -> Array:
    """The bytes of one idx file with so many axes; its sizes are compared with its length first."""
    size = size_of(path)
    if path.suffix != ".gz":
        with path.open("rb") as file:
            return _read(path, file, axes, size)
    try:
        with gzip.open(path) as unpacked:
            return _read(path, cast(BinaryIO, unpacked), axes, None, size * DEFLATE_RATIO)
    except (gzip.BadGzipFile, EOFError, zlib.error) as e:
        raise bad_at(path, _reached(path), f"it cannot be unpacked: {e}") from e


def _reached(path: Path) -> int:
    """How many bytes come out of a packed file before the one that is wrong; they are counted in
    small pieces, as a large read that fails tells nothing."""
    reached = 0
    try:
        with gzip.open(path) as file:
            while piece := file.read1(256):
                reached += len(piece)
    except (gzip.BadGzipFile, EOFError, zlib.error):
        pass                                # found again, as expected
    return reached


def _read(path: Path, file: BinaryIO, axes: int, size: int | None, most: int = 0) -> Array:
    head_bytes = 4 + 4 * axes
    head = file.read(head_bytes)
    begins = bytes((0, 0, _BYTES, axes))
    if head[:4] != begins:
        raise bad_at(path, 0, f"it begins with {head[:4].hex() or 'nothing'}, expected "
                              f"{begins.hex()}: bytes with {axes} axes")
    if len(head) < head_bytes:
        raise bad_at(path, len(head), f"the header ends, expected {head_bytes} bytes")
    shape = tuple(int(n) for n in np.frombuffer(head, ">u4", offset=4))
    need, there = prod(shape), most if size is None else size - head_bytes
    said = f"the header says {'x'.join(map(str, shape))}, {need} bytes"
    if need == 0 or (need > there if size is None else need != there):
        raise bad_at(path, 4, f"{said}, and {'at most ' if size is None else ''}{there} follow")
    data = file.read(need)
    if len(data) < need:
        raise bad_at(path, head_bytes + len(data), f"{said}, and {len(data)} follow")
    if file.read(1):                        # also: to the end, so that gz looks at its checksum
        raise bad_at(path, head_bytes + need, f"{said}, and more follow")
    return np.frombuffer(data, np.uint8).reshape(shape)
