"""The python format of CIFAR-10: what Python 2 and 3 wrote is read, and nothing is ever run."""

from __future__ import annotations

import os
import pickle
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handtorch.errors import BadFile
from handtorch.zoo.data.pickled import PIXELS, read_batch
from tests.zoo.data.damage import changes, cuts, refused_or, text_of_error


def python2(pictures: Any, labels: list[int]) -> bytes:
    """As cPickle of Python 2 wrote the official files, with the old name of NumPy's module."""
    def string(text: bytes) -> bytes:
        return (b"U" + bytes((len(text),)) if len(text) < 256
                else b"T" + struct.pack("<I", len(text))) + text
    def number(n: int) -> bytes:
        return b"K" + bytes((n,)) if n < 256 else b"M" + struct.pack("<H", n)
    array = (b"cnumpy.core.multiarray\n_reconstruct\nq\x05cnumpy\nndarray\nq\x06K\x00\x85U\x01b"
             b"\x87Rq\x07(K\x01" + number(len(pictures)) + number(PIXELS) + b"\x86cnumpy\ndtype\n"
             b"q\x08U\x02u1K\x00K\x01\x87Rq\x09(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xff"
             b"K\x00tb\x89" + string(pictures.tobytes()) + b"tb")
    return (b"\x80\x02}q\x01(" + string(b"batch_label") + b"q\x02"
            + string(b"training batch 1 of 5") + string(b"labels") + b"]q\x03("
            + b"".join(map(number, labels)) + b"e" + string(b"data") + array
            + string(b"filenames") + b"]q\x0a(" + string(b"a_s_000001.png") * len(labels) + b"eu.")


def some(count: int, seed: int = 0) -> tuple[Any, list[int]]:
    rng = np.random.default_rng(seed)
    return (rng.integers(0, 256, (count, PIXELS), np.uint8),
            [int(n) for n in rng.integers(0, 10, count)])


def test_pythons_own_reader_agrees_with_our_writer() -> None:
    """So that the tests below speak of real files."""
    x, y = some(3)
    found = pickle.loads(python2(x, y), encoding="bytes")
    assert np.array_equal(found[b"data"], x) and found[b"labels"] == y


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 4), st.integers(0, 3), st.sampled_from([0, 2, 3, 4, 5]), st.booleans())
def test_round_trip(tmp_path_factory: pytest.TempPathFactory, count: int, seed: int, protocol: int,
                    by_column: bool) -> None:
    x, y = some(count, seed)
    stored = np.asfortranarray(x) if by_column else x
    data = (pickle.dumps({"data": stored, "labels": y, "filenames": ["a"] * count}, protocol)
            if protocol else python2(x, y))
    path = tmp_path_factory.mktemp("p") / "data_batch_1"
    path.write_bytes(data)
    found, labels = read_batch(path)
    assert np.array_equal(found, x) and labels.tolist() == y
    assert not found.flags.writeable


@pytest.mark.parametrize("protocol", [0, 2, 5])
def test_cut_or_changed(tmp_path: Path, protocol: int) -> None:
    """Outside the pixels; what stays readable is a batch with pictures of the right size and labels
    in range, as a label has no checksum."""
    x, y = some(1)
    data = python2(x, y) if not protocol else pickle.dumps({"labels": y, "data": x}, protocol)
    path = tmp_path / "data_batch_1"
    pixels = data.index(x.tobytes()[-PIXELS // 2:]) - PIXELS // 2 if protocol != 2 else 0
    places = [*range(0, 260), *range(len(data) - 60, len(data))] if protocol == 2 else [
        *range(pixels), *range(pixels + PIXELS, len(data))]

    def acceptable(found: tuple[Any, Any]) -> bool:
        return found[0].shape == (1, PIXELS) and 0 <= found[1][0] <= 9

    def damaged() -> Any:
        for place in places:
            yield from changes(data, range(place, place + 1))
    assert refused_or(path, damaged(), read_batch, acceptable) > len(places)
    assert refused_or(path, cuts(data, 31), read_batch, lambda _: False) == -(-len(data) // 31)


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("touch evil",)


@pytest.mark.parametrize("protocol", range(6))
def test_a_program_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protocol: int
                              ) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "data_batch_1"
    path.write_bytes(pickle.dumps({"data": Evil(), "labels": [1]}, protocol))
    with pytest.raises(BadFile):
        read_batch(path)
    assert not (tmp_path / "evil").exists()


def test_the_whole_text_of_an_error(tmp_path: Path) -> None:
    path = tmp_path / "data_batch_1"
    path.write_bytes(b"\x80\x02cos\nsystem\n.")
    with pytest.raises(BadFile) as error:
        read_batch(path)
    assert text_of_error(error, path) == (
        "FILE cannot be used: at byte 2: it asks for os.system, which no such file needs\n"
        "  try: a file out of cifar-10-python.tar.gz, unpacked; nothing else is read from a "
        "pickle, because a pickle can run any program")


@pytest.mark.parametrize(("told", "said"), [
    ({"labels": [1]}, "it has no 'data', but labels"),
    ({"data": np.zeros((1, 5), np.uint8), "labels": [1]}, r"shape \(1, 5\), expected \(n, 3072"),
    ({"data": np.zeros((1, PIXELS), np.int8), "labels": [1]}, "are not bytes"),
    ({"data": np.zeros((2, PIXELS), np.uint8), "labels": [1]}, "1 labels for 2 pictures"),
    ({"data": np.zeros((1, PIXELS), np.uint8), "labels": [10]}, "at entry 0: label 10 of sample 0"),
    ({"data": np.zeros((1, PIXELS), np.uint8), "labels": "a"}, "are not a list of numbers"),
    ({"data": [1], "labels": [1]}, "its data are a list, expected an array"),
])
def test_what_is_not_such_a_batch(tmp_path: Path, told: dict[str, Any], said: str) -> None:
    path = tmp_path / "data_batch_1"
    path.write_bytes(pickle.dumps(told, 2))
    with pytest.raises(BadFile, match=said):
        read_batch(path)


def test_a_description_that_grows_without_end_is_not_followed(tmp_path: Path) -> None:
    """Each level of 60 doubles the one below: 2 ** 60 numbers, if anybody wrote them down."""
    x, y = some(1)
    doubled = b"K\x01" + b"".join(b"q%ch%c\x86" % (k, k) for k in range(100, 160))
    said = b"M\x00\x0c\x86"                    # 3072, and the tuple of both sizes
    data = python2(x, y).replace(b"K\x01" + said, doubled + said)
    path = tmp_path / "data_batch_1"
    path.write_bytes(data)
    with pytest.raises(BadFile, match="the shape of another kind, tuple, expected"):
        read_batch(path)


@settings(max_examples=30, deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes_at_all(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.mktemp("p") / "data_batch_1"
    path.write_bytes(b"\x80\x02" + data)
    with pytest.raises(BadFile):
        read_batch(path)
