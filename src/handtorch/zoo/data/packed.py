"""Named arrays from an npz file: nothing is unpickled, no array larger than its file."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
from numpy.lib import format as npy

from handtorch.errors import BadFile
from handtorch.zoo.data.dataset import Array
from handtorch.zoo.data.opened import AGAIN, DEFLATE_RATIO, bad_at, size_of

# What zipfile and NumPy raise on a damaged archive; neither promises fewer.
_DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, KeyError, IndexError,
            NotImplementedError, RuntimeError, SyntaxError, TypeError, UnicodeError)
_HEADERS: dict[tuple[int, int], Any] = {(1, 0): npy.read_array_header_1_0,
                                        (2, 0): npy.read_array_header_2_0}


def read_npz(path: Path, wanted: Mapping[str, tuple[str, int]]) -> dict[str, Array]:
    """The arrays named in `wanted`, each of the kind (NumPy's letters, such as "u" or "if") and the
    number of axes given there."""
    total = size_of(path)
    found: dict[str, Array] = {}
    try:
        with zipfile.ZipFile(path) as archive:
            for name, (kinds, axes) in wanted.items():
                info = _member(path, archive, name)
                if not 0 <= info.header_offset < total or info.compress_size > total:
                    raise bad_at(path, 0, f"the archive's list puts {name!r} behind its end")
                with archive.open(info) as file:
                    found[name] = _array(path, cast(BinaryIO, file), info, kinds, axes)
    except _DAMAGED as e:
        raise BadFile(f"{path} cannot be used", why=f"a damaged npz archive: {e}", fix=AGAIN) from e
    return found


def _member(path: Path, archive: zipfile.ZipFile, name: str) -> zipfile.ZipInfo:
    try:
        return archive.getinfo(f"{name}.npy")
    except KeyError:
        there = ", ".join(sorted(archive.namelist())[:8]) or "nothing"
        raise BadFile(f"{path} cannot be used", why=f"there is no {name!r} in it; it holds {there}",
                      fix="docs/data.md says which arrays are looked for") from None


def _array(path: Path, file: BinaryIO, info: zipfile.ZipInfo, kinds: str, axes: int) -> Array:
    at = info.header_offset
    version = npy.read_magic(file)
    if version not in _HEADERS:
        raise bad_at(path, at, f"{info.filename} has npy version {version}, expected 1.0 or 2.0")
    shape, by_column, dtype = _HEADERS[version](file)
    if dtype.hasobject or dtype.kind not in kinds or len(shape) != axes:
        raise bad_at(path, at, f"{info.filename} is {dtype} with {len(shape)} axes, expected a "
                               f"kind of {kinds!r} with {axes}")
    need = prod(shape) * dtype.itemsize
    left = info.file_size - file.tell()
    packed_most = info.compress_size * DEFLATE_RATIO + DEFLATE_RATIO
    if need != left or info.file_size > packed_most:
        raise bad_at(path, at, f"{info.filename} says {'x'.join(map(str, shape))} {dtype}, "
                               f"{need} bytes, and {min(left, packed_most)} bytes follow")
    data = file.read(need + 1)              # to the end, so that the checksum is looked at
    if len(data) != need:
        raise bad_at(path, at, f"{info.filename} ends after {len(data)} of {need} bytes")
    array: Array = np.frombuffer(data, dtype).reshape(shape, order="F" if by_column else "C")
    return array
