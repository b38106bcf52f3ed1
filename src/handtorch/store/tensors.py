"""Named arrays in one file, in the safetensors format, with NumPy alone.

    8 bytes     length of the header, little-endian
    header      JSON: name -> {"dtype", "shape", "data_offsets"}; "__metadata__" -> our notes
    data        the arrays one after the other, each aligned to its own element

Ours carry a seal among the notes: SHA-256 of the header without it and of the data. A file of
others has none, and is read too; one that was cut or changed is refused either way, as far as its
own statements tell. Nothing in a file is ever executed."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from handtorch.errors import BadFile, BadInput, StorageError
from handtorch.store.atomic import write_atomically

Array = NDArray[Any]

_NUMPY = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2",
          "I8": "|i1", "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "|u1", "BOOL": "|b1"}
_SPELLED = {np.dtype(numpy).name: name for name, numpy in _NUMPY.items()}
_NOTES, _SEAL = "__metadata__", "handtorch.sha256"
# A header is parsed before anything in it can be checked, at up to 20 bytes of memory for one of
# text. The largest model here needs 1 MB.
_HEADER_BYTES, _MOST_AXES, _MOST_ELEMENTS = 32 << 20, 32, 1 << 48


@dataclass(frozen=True)
class _Entry:
    """A tensor as the header tells of it, checked for itself; `start` counts from the header."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    start: int
    end: int


def write_tensors(path: Path, tensors: Mapping[str, Array], notes: Mapping[str, str]) -> None:
    """`path` holds all of `tensors` and `notes`, sealed, or what it held before.

    Equal arrays under equal names give equal bytes, in whichever order they come."""
    arrays = {name: _plain(name, array) for name, array in tensors.items()}
    for word in (_NOTES, _SEAL):
        if word in tensors or word in notes:
            raise BadInput(f"{path}: the name {word!r}", why="the format itself uses it",
                           fix="another name")
    # The widest elements first: each array then begins where its elements are aligned.
    names = sorted(arrays, key=lambda name: (-arrays[name].itemsize, name))
    header: dict[str, Any] = {_NOTES: dict(sorted(notes.items()))}
    end = 0
    for name in names:
        start, end = end, end + arrays[name].nbytes
        header[name] = {"dtype": _SPELLED[arrays[name].dtype.name],
                        "shape": list(arrays[name].shape), "data_offsets": [start, end]}
    parts = [arrays[name].reshape(-1).view("u1").data for name in names]
    header[_NOTES][_SEAL] = _seal(header, parts)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    try:
        write_atomically(path, len(text).to_bytes(8, "little"), text, *parts)
    except OSError as e:
        raise StorageError(f"{path} cannot be written", why=str(e.strerror),
                           fix="make room, or choose a folder you may write to") from e


def read_tensors(path: Path, *, sealed: bool = False, mapped: bool = False
                 ) -> tuple[dict[str, Array], dict[str, str]]:
    """The arrays and the notes of a file, in the order of its header; the seal is not among them.

    Every size is checked against the file's own before anything of that size is allocated. A seal
    that is there must be right; `sealed` refuses a file that has none.

    With `mapped` arrays are the file itself, read-only, and take no memory that the system could
    not take back; whoever shortens the file while they are in use ends this process."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise BadFile(f"{path} cannot be read", why="it is not a file",
                          fix="check the path, and that you may read it")
        with path.open("rb") as file:
            header, data_bytes = _header(path, file)
            notes, entries = _told(path, header)
            _check_offsets(path, entries, data_bytes)
            arrays = (_mapped if mapped else _arrays)(path, file, entries)
    except OSError as e:
        raise StorageError(f"{path} cannot be read", why=str(e.strerror),
                           fix="check the path, and that you may read it") from e
    found = notes.pop(_SEAL, None)
    if found is None and sealed:
        raise _broken(path, "it has no seal: this program did not write it")
    ordered = sorted(entries, key=lambda e: (e.start, e.end))
    if found is not None and found != _seal(
            _unsealed(header), (arrays[e.name].reshape(-1).view("u1").data for e in ordered)):
        raise _broken(path, "its contents do not match its seal: something was changed in it")
    for entry in entries:
        _check_bools(path, entry, arrays[entry.name])
    return arrays, notes


def _plain(name: str, array: Array) -> Array:
    """The array without gaps, in the format's byte order."""
    array = np.asarray(array, order="C")
    if array.dtype.name not in _SPELLED:
        raise BadInput(f"{name} is {array.dtype.name}",
                       why=f"a file holds {', '.join(_SPELLED)}", fix="convert it before")
    return array.astype(array.dtype.newbyteorder("<"), copy=False)


def _seal(header: Mapping[str, Any], parts: Iterable[memoryview]) -> str:
    """Of everything the file says, whatever the spelling of its header."""
    total = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    for part in parts:
        total.update(part)
    return total.hexdigest()


def _unsealed(header: Mapping[str, Any]) -> dict[str, Any]:
    notes = {name: note for name, note in header[_NOTES].items() if name != _SEAL}
    return {**header, _NOTES: notes}


def _broken(path: Path, why: str) -> BadFile:
    return BadFile(f"{path} cannot be used", why=why,
                   fix="another copy of the file, or one written anew")


def _header(path: Path, file: BinaryIO) -> tuple[dict[str, Any], int]:
    """The header as JSON, and how many bytes of data follow it."""
    size = os.fstat(file.fileno()).st_size
    if size < 8:
        raise _broken(path, f"it has {size} bytes, and a safetensors file at least 8")
    begins = file.read(8)
    length = int.from_bytes(begins, "little")
    if length > size - 8:
        cut = length <= _HEADER_BYTES
        raise _broken(path, f"its header is said to have {length} bytes, and {size - 8} follow: "
                            "it was cut, or is no safetensors file" if cut else
                            f"it begins with {begins!r}, as no safetensors file does")
    if length > _HEADER_BYTES:
        raise _broken(path, f"its header has {length} bytes, and the limit is {_HEADER_BYTES}")
    text = file.read(length)
    try:
        header = json.loads(text.decode(), object_pairs_hook=_once)
    except (ValueError, RecursionError) as e:
        raise _broken(path, f"its header is not JSON that can be used: {e}") from e
    if not isinstance(header, dict) or not text.startswith(b"{"):
        raise _broken(path, "its header is not a JSON object")
    return header, size - 8 - length


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, told in pairs:
        if name in found:
            raise ValueError(f"{name[:80]!r} is there twice")
        found[name] = told
    return found


def _told(path: Path, header: Mapping[str, Any]) -> tuple[dict[str, str], list[_Entry]]:
    """The notes, and the tensors in the header's order, each checked for itself."""
    notes = header.get(_NOTES, {})
    if not (isinstance(notes, dict) and all(isinstance(note, str) for note in notes.values())):
        raise _broken(path, f"its {_NOTES} are not texts by name")
    return dict(notes), [_entry(path, name, told) for name, told in header.items()
                         if name != _NOTES]


def _entry(path: Path, name: str, told: Any) -> _Entry:
    of = f"{name[:80]!r} in its header"
    match told:
        case {"dtype": str(spelled), "shape": [*shape], "data_offsets": [start, end], **rest} if (
                not rest and all(type(n) is int and n >= 0 for n in (*shape, start, end))):
            pass
        case _:
            raise _broken(path, f"{of} is not a dtype, a shape and two data_offsets")
    if spelled not in _NUMPY:
        raise _broken(path, f"{of} has dtype {spelled[:20]!r}, and NumPy has {', '.join(_NUMPY)}")
    if len(shape) > _MOST_AXES or prod(max(n, 1) for n in shape) > _MOST_ELEMENTS:
        raise _broken(path, f"{of} has {len(shape)} axes or a length beyond all reason")
    dtype = np.dtype(_NUMPY[spelled])
    if end - start != prod(shape) * dtype.itemsize:
        raise _broken(path, f"{of} has {end - start} bytes, and {spelled}{shape} needs "
                            f"{prod(shape) * dtype.itemsize}")
    return _Entry(name, dtype, tuple(shape), start, end)


def _check_offsets(path: Path, entries: Iterable[_Entry], data_bytes: int) -> None:
    """The data are the arrays one after the other: no gap, nothing twice, nothing left."""
    at = 0
    for entry in sorted(entries, key=lambda e: (e.start, e.end)):
        if entry.start != at:
            what = "overlaps the one before" if entry.start < at else "follows a gap"
            raise _broken(path, f"{entry.name[:80]!r} begins at byte {entry.start} of the data "
                                f"and {what}, which ends at {at}")
        at = entry.end
    if at != data_bytes:
        raise _broken(path, f"its header tells of {at} bytes of data, and {data_bytes} are there"
                            + (": it was cut" if at > data_bytes else ""))


def _arrays(path: Path, file: BinaryIO, entries: list[_Entry]) -> dict[str, Array]:
    """The file stands at its data, whose size was checked."""
    arrays = {entry.name: np.empty(entry.shape, entry.dtype) for entry in entries}
    for entry in sorted(entries, key=lambda e: (e.start, e.end)):
        into = arrays[entry.name].reshape(-1).view("u1").data
        if file.readinto(into) != len(into):  # type: ignore[attr-defined]
            raise _broken(path, "it became shorter while it was read")
    return arrays


def _mapped(path: Path, file: BinaryIO, entries: list[_Entry]) -> dict[str, Array]:
    """As `_arrays`, without a copy; the map lives as long as one of them does."""
    if not any(entry.end for entry in entries):
        return _arrays(path, file, entries)             # nothing cannot be mapped
    at = file.tell()                                    # NumPy moves it
    whole = np.memmap(file, np.uint8, "r")
    return {e.name: np.asarray(whole[at + e.start:at + e.end]).view(e.dtype).reshape(e.shape)
            for e in entries}


def _check_bools(path: Path, entry: _Entry, array: Array) -> None:
    """NumPy trusts that a bool is 0 or 1, and computes nonsense with others."""
    if array.dtype == np.bool_ and array.size and array.view("u1").max() > 1:
        raise _broken(path, f"{entry.name[:80]!r} is BOOL and holds {array.view('u1').max()}")
