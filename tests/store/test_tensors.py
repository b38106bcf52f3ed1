"""The safetensors format: in and out, beside the real package, and against files made to hurt."""

from __future__ import annotations

import json
import os
import resource
import tempfile
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from handtorch.errors import BadFile, BadInput, HandTorchError, StorageError
from handtorch.store.tensors import read_tensors, write_tensors

DTYPES = ("f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "?")


def some() -> dict[str, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(0)
    arrays = {f"{i}.{d}": rng.integers(0, 2, (2, i + 1)).astype(d) for i, d in enumerate(DTYPES)}
    return {**arrays, "no axes": np.array(7, "i8"), "empty": np.zeros((3, 0, 2), "f4"),
            "ünïcode\n": np.arange(5, dtype="f4"),
            "turned": np.arange(6, dtype="f4").reshape(2, 3).T,
            "big-endian": np.arange(4, dtype=">i4")}


def same(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert one.keys() == other.keys()
    for name, array in one.items():
        assert array.shape == other[name].shape, name
        assert array.dtype == other[name].dtype.newbyteorder("="), name
        assert array.tobytes() == other[name].astype(array.dtype).tobytes(), name


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    write_tensors(path, some(), {"b": "2", "a": "ä"})
    arrays, notes = read_tensors(path, sealed=True)
    same(arrays, some())
    assert notes == {"a": "ä", "b": "2"}
    write_tensors(path, {}, {})
    assert read_tensors(path, sealed=True) == ({}, {})


def test_mapped_arrays_are_the_file_itself(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    write_tensors(path, {**some(), "large": np.ones(1 << 20, "f4")}, {})
    tracemalloc.start()
    arrays, _ = read_tensors(path, sealed=True, mapped=True)
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert taken < 1 << 20, "four times as much would be a copy"
    same(arrays, {**some(), "large": np.ones(1 << 20, "f4")})
    assert all(not array.flags.writeable for array in arrays.values())
    write_tensors(path, {}, {})
    assert read_tensors(path, sealed=True, mapped=True) == ({}, {})


def test_a_changed_byte_is_refused_in_a_mapped_file_too(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    write_tensors(path, some(), {})
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(BadFile, match="seal"):
        read_tensors(path, sealed=True, mapped=True)


def test_equal_input_gives_equal_bytes_in_any_order(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    write_tensors(one, some(), {"a": "1", "b": "2"})
    write_tensors(other, dict(reversed(some().items())), {"b": "2", "a": "1"})
    assert one.read_bytes() == other.read_bytes()


def test_data_are_aligned(tmp_path: Path) -> None:
    write_tensors(tmp_path / "a", some(), {})
    data = (tmp_path / "a").read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + length])
    assert length % 8 == 0
    del header["__metadata__"]
    sizes = {"F64": 8, "I64": 8, "U64": 8, "F32": 4, "I32": 4, "U32": 4, "F16": 2, "I16": 2,
             "U16": 2, "I8": 1, "U8": 1, "BOOL": 1}
    assert {t["dtype"] for t in header.values()} == sizes.keys()
    assert all(t["data_offsets"][0] % sizes[t["dtype"]] == 0 for t in header.values())


@given(hnp.arrays(st.sampled_from(DTYPES), hnp.array_shapes(min_dims=0, min_side=0)),
       st.text(), st.dictionaries(st.text(), st.text()))
@settings(max_examples=50)
def test_any_array_any_name_any_note(array: Any, name: str, notes: dict[str, str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        write_tensors(Path(folder, "f"), {name: array}, notes)
        arrays, told = read_tensors(Path(folder, "f"))
    same(arrays, {name: array})
    assert told == notes


def test_the_real_package_reads_ours_and_we_read_its(tmp_path: Path) -> None:
    real = pytest.importorskip("safetensors.numpy")
    write_tensors(tmp_path / "ours", some(), {"note": "n"})
    same(real.load_file(tmp_path / "ours"), some())
    plain = {name: np.ascontiguousarray(a).reshape(a.shape).astype(a.dtype.newbyteorder("="))
             for name, a in some().items()}
    real.save_file(plain, tmp_path / "theirs", metadata={"note": "n"})
    arrays, notes = read_tensors(tmp_path / "theirs")
    same(arrays, some())
    assert notes == {"note": "n"}
    with pytest.raises(BadFile, match="it has no seal: this program did not write it"):
        read_tensors(tmp_path / "theirs", sealed=True)


def test_a_file_of_torchs_tensors(tmp_path: Path) -> None:
    real = pytest.importorskip("safetensors.torch")
    torch = pytest.importorskip("torch")
    weights = torch.nn.Linear(3, 2).state_dict()
    real.save_file(weights, tmp_path / "theirs")
    same(read_tensors(tmp_path / "theirs")[0], {n: w.numpy() for n, w in weights.items()})


@pytest.mark.parametrize("name", ["__metadata__", "handtorch.sha256"])
def test_names_of_the_format_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadInput) as e:
        write_tensors(tmp_path / "a", {name: np.zeros(1)}, {})
    assert str(e.value) == (f"{tmp_path}/a: the name {name!r}: the format itself uses it\n"
                            "  try: another name")


def test_what_no_file_holds_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    for bad in (np.zeros(2, "c8"), np.array(["a"]), np.array([None])):
        with pytest.raises(BadInput, match="a file holds float64, float32"):
            write_tensors(tmp_path / "a", {"x": bad}, {})
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageError) as e:
        write_tensors(tmp_path / "file" / "b" / "a", {}, {})
    assert str(e.value) == (f"{tmp_path}/file/b/a cannot be written: Not a directory\n"
                            "  try: make room, or choose a folder you may write to")


def test_what_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, why in ((tmp_path / "none", "No such file or directory"),
                      (tmp_path, "it is not a file"), (tmp_path / "pipe", "it is not a file")):
        with pytest.raises(StorageError) as e:
            read_tensors(path)
        assert str(e.value) == (f"{path} cannot be read: {why}\n"
                                "  try: check the path, and that you may read it")


def framed(header: Any, data: bytes = b"", length: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return (len(text) if length is None else length).to_bytes(8, "little") + text + data


def tensor(dtype: str = "F32", shape: Any = (1,), offsets: Any = (0, 4), **more: Any) -> Any:
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets), **more}


FORM = "'x' in its header is not a dtype, a shape and two data_offsets"
HOSTILE = [
    (b"", "it has 0 bytes, and a safetensors file at least 8"),
    (b"\0" * 7, "it has 7 bytes, and a safetensors file at least 8"),
    (b"\0" * 8, "its header is not JSON that can be used: Expecting value: line 1 column 1 "
                "(char 0)"),
    (framed({}, length=3), "its header is said to have 3 bytes, and 2 follow: it was cut, or is no "
                           "safetensors file"),
    (framed({}, length=2**64 - 1), r"it begins with b'\xff\xff\xff\xff\xff\xff\xff\xff', as no "
                                   "safetensors file does"),
    (framed([]), "its header is not a JSON object"),
    (framed(b" {}"), "its header is not a JSON object"),
    (framed(b'{"x":1,"x":2}'), "its header is not JSON that can be used: 'x' is there twice"),
    (framed(b'{"__metadata__":{"a":"1","a":"1"}}'),
     "its header is not JSON that can be used: 'a' is there twice"),
    (framed({"__metadata__": {"a": 1}}), "its __metadata__ are not texts by name"),
    (framed({"__metadata__": []}), "its __metadata__ are not texts by name"),
    (framed({"x": 3}), FORM),
    (framed({"x": tensor(more=1)}, bytes(4)), FORM),
    (framed({"x": tensor(shape=[-1], offsets=[4, 0])}, bytes(4)), FORM),
    (framed({"x": tensor(shape=[True])}, bytes(4)), FORM),
    (framed({"x": tensor(shape=[1.0])}, bytes(4)), FORM),
    (framed({"x": tensor(offsets=[0, 4, 8])}, bytes(4)), FORM),
    (framed({"x": tensor("BF16", offsets=[0, 2])}, bytes(2)),
     "'x' in its header has dtype 'BF16', and NumPy has F64, F32, F16, I64, I32, I16, I8, U64, "
     "U32, U16, U8, BOOL"),
    (framed({"x": tensor(shape=[1] * 33)}, bytes(4)),
     "'x' in its header has 33 axes or a length beyond all reason"),
    (framed({"x": tensor(shape=[0, 2**63], offsets=[0, 0])}),
     "'x' in its header has 2 axes or a length beyond all reason"),
    (framed({"x": tensor(shape=[2**40], offsets=[0, 2**42])}, bytes(8)),
     f"its header tells of {2**42} bytes of data, and 8 are there: it was cut"),
    (framed({"x": tensor(shape=[2])}, bytes(4)),
     "'x' in its header has 4 bytes, and F32[2] needs 8"),
    (framed({"x": tensor()}, bytes(5)), "its header tells of 4 bytes of data, and 5 are there"),
    (framed({"x": tensor(offsets=[4, 8])}, bytes(8)),
     "'x' begins at byte 4 of the data and follows a gap, which ends at 0"),
    (framed({"x": tensor(), "y": tensor(offsets=[2, 6])}, bytes(6)),
     "'y' begins at byte 2 of the data and overlaps the one before, which ends at 4"),
    (framed({"x": tensor(), "y": tensor()}, bytes(4)),
     "'y' begins at byte 0 of the data and overlaps the one before, which ends at 4"),
    (framed({"x": tensor("BOOL", offsets=[0, 1])}, b"\2"), "'x' is BOOL and holds 2"),
    (framed({"__metadata__": {"handtorch.sha256": "0"}}),
     "its contents do not match its seal: something was changed in it"),
]


@pytest.mark.parametrize(("data", "why"), HOSTILE)
def test_a_file_made_to_hurt_is_refused(tmp_path: Path, data: bytes, why: str) -> None:
    path = tmp_path / "a"
    path.write_bytes(data)
    with pytest.raises(BadFile) as e:
        read_tensors(path)
    assert str(e.value) == (f"{path} cannot be used: {why}\n"
                            "  try: another copy of the file, or one written anew")


@pytest.mark.parametrize("header", [b"\xff\xfe", b'{"x":' * 100_000, b"[" * 100_000,
                                    b'{"x":' + b"9" * 5000 + b"}"])
def test_a_header_that_no_parser_likes_is_refused(tmp_path: Path, header: bytes) -> None:
    (tmp_path / "a").write_bytes(framed(header))
    with pytest.raises(BadFile, match="its header is not JSON that can be used"):
        read_tensors(tmp_path / "a")


def test_a_huge_header_is_refused_unread(tmp_path: Path) -> None:
    with (tmp_path / "a").open("wb") as file:
        file.write((1 << 40).to_bytes(8, "little"))
        file.truncate(8 + (1 << 40))                    # a hole: the disk holds 8 bytes of it
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(BadFile, match=f"its header has {1 << 40} bytes, and the limit is 33554432"):
        read_tensors(tmp_path / "a")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1024


def test_every_cut_and_every_changed_byte_is_refused(tmp_path: Path) -> None:
    whole, path = tmp_path / "whole", tmp_path / "a"
    write_tensors(whole, {"w": np.arange(6, dtype="f4").reshape(2, 3), "b": np.array([True])},
                  {"note": "n"})
    data = whole.read_bytes()

    def refused(changed: bytes) -> bool:
        path.write_bytes(changed)
        try:
            read_tensors(path, sealed=True)
        except HandTorchError:
            return True
        return False

    assert all(refused(data[:n]) for n in range(len(data)))
    for at in range(len(data)):
        for flip in (1, 0x80, 0xFF):
            changed = bytearray(data)
            changed[at] ^= flip
            assert refused(bytes(changed)), (at, flip)


def test_reading_takes_no_more_memory_than_the_file(tmp_path: Path) -> None:
    write_tensors(tmp_path / "a", {"w": np.zeros(1 << 20, "f4")}, {})
    tracemalloc.start()
    try:
        read_tensors(tmp_path / "a")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (4 << 20) < peak < (4 << 20) + 200_000


def test_a_failure_while_writing_leaves_the_old_file(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a"
    write_tensors(path, {"x": np.ones(3)}, {})

    def full(*_: Any) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError, match="No space left on device"):
        write_tensors(path, {"x": np.zeros(3)}, {})
    assert list(tmp_path.iterdir()) == [path]
    assert read_tensors(path)[0]["x"].tolist() == [1, 1, 1]
